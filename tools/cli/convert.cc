#include <algorithm>
#include <memory>

#include "tools/cli/cli.h"
#include "tools/commands/convert.h"
#include "tools/commands/policies.h"
#include "tools/importers/importer.h"

namespace nacre::tools {
namespace {

void add_policy_options(Command& c, ConvertOptions& o) {
  c.add_option("--policy", o.policies.policy, "for every layer; nacre policies explains the names [as the file has it]")
      ->check(not_empty())
      ->type_name("POLICY");
  c.add_option("--set", o.policies.set, "for layers by name, or by a pattern (RE2) that matches the whole name")
      ->allow_extra_args(false)
      ->type_name("PATTERN=POLICY");
  c.reads(
      c.add_option("--policy-file", o.policies.file, "JSON: Keras's of any policy class, or what --emit-policy writes")
          ->type_name("FILE"));
  c.add_option("--only", o.policies.only, "--policy is for layers of these ops alone: OP,OP or given again")
      ->allow_extra_args(false)
      ->type_name("OPS");
  c.add_option("--except", o.policies.except, "--policy is for all ops but these, such as batch_norm")
      ->allow_extra_args(false)
      ->type_name("OPS");
  c.writes(c.add_option("--emit-policy", o.emit_policy, "write the policy of every layer, as --policy-file takes it")
               ->type_name("FILE"));
  add_choice(c, "--io-types", o.io_types, {{"source", IoTypes::kSource}, {"policy", IoTypes::kPolicy}}, "source|policy",
             "of inputs and outputs; policy: those of the steps beside them, such as int8 [source]");
  c.add_flag_callback(
      "--no-fuse", [&o] { o.fuse = false; }, "keep clamps, casts and quantize steps apart: same results");
}

void add_list_option(Command& c, const std::string& list, ListEdit& edit) {
  const auto add = [&](const std::string& verb, std::vector<std::string>& ops) {
    c.add_option("--" + list + "list-" + verb, ops)
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("OP,...")
        ->group("");
  };
  add("add", edit.add);
  add("remove", edit.remove);
}

void add_rewrite_options(Command& c, RewriteArguments& o) {
  c.add_option("--rewrite", o.type, "TensorFlow's graph rewrite: 16 bits where its lists allow them")
      ->check(one_of({"mixed_float16", "mixed_bfloat16"}))
      ->each([&o](const std::string& type) {
        o.options.type = type == "mixed_float16" ? ElementType::kFloat16 : ElementType::kBfloat16;
      })
      ->type_name("mixed_float16|mixed_bfloat16");
  add_choice(c, "--lists", o.options.tf2_lists, {{"tf1", false}, {"tf2", true}}, "tf1|tf2",
             "of the rewrite: of TensorFlow 1.15, softmax denied, or today's, softmax inferred [tf1]");
  add_choice(c, "--rewrite-level", o.options.level,
             {{"standard", RewriteLevel::kStandard},
              {"TENSOR_CORES_ONLY", RewriteLevel::kTensorCoresOnly},
              {"UNSAFE_FORCE_ALL", RewriteLevel::kUnsafeForceAll},
              {"TREAT_INFER_AS_DENY", RewriteLevel::kTreatInferAsDeny}},
             "LEVEL", "TensorFlow's TENSOR_CORES_ONLY, UNSAFE_FORCE_ALL, TREAT_INFER_AS_DENY [standard]");
  c.add_flag("--infer-after-allow", o.options.infer_after_allow,
             "paint infer ops right after 16-bit ones with float16 too, as TensorFlow 2.21 does (2.15: bfloat16 only)");
  c.add_option("--preserve", o.options.preserve, "layers that the rewrite leaves in float32")
      ->delimiter(',')
      ->type_name("LAYER,...");
  add_list_option(c, "allow", o.options.edits.allow);
  add_list_option(c, "infer", o.options.edits.infer);
  add_list_option(c, "deny", o.options.edits.deny);
  add_list_option(c, "clear", o.options.edits.clear);
  c.add_flag("--explain", o.explain,
             "print every decision of the rewrite with its reason. Lists are edited by\n"
             "--{allow,infer,deny,clear}list-{add,remove} OP,...");
}

void add_calibration_options(Command& c, CalibrationArguments& o) {
  c.reads(c.add_option("--calibrate", o.data, "samples for int8/static and float8: .npz, .npy, or a folder of .npy")
              ->type_name("DATA"));
  c.add_option("--range-method", o.method, "how ranges are found in them [min_max]")
      ->check(one_of({"min_max", "moving_average", "percentile", "mse", "entropy"}))
      ->type_name("min_max|moving_average|percentile|mse|entropy");
  c.add_option("--range", o.overrides, "the method for the layers that PATTERN matches")
      ->allow_extra_args(false)
      ->type_name("PATTERN=METHOD");
  c.add_option("--percentile", o.options.percentile, "of --range-method percentile [99.99]")->type_name("P");
  c.add_option("--range-decay", o.options.decay, "of --range-method moving_average [0.999]")->type_name("D");
  c.add_flag("--cast-samples", o.samples.cast, "change the type of samples, where no number changes by it");
}

// Options of one pass of the converter do nothing where --stop-after names an earlier one.
void declare_passes(Command& c, const ConvertOptions& o) {
  const std::pair<std::string, Command::Names> acting[] = {
      {"rewrite", {"--rewrite"}},
      {"simplify", {"--no-fold-bn"}},
      {"calibrate", {"--calibrate", "--policy", "--set", "--policy-file", "--only", "--except"}},
      {"apply_policy", {"--io-types", "--rounding"}},
      {"fuse", {"--no-fuse"}},
      {"schedule", {"--bank", "--keep-inputs"}},
  };
  for (const auto& [pass, options] : acting) {
    const auto reached = [&o, pass = pass] {
      const std::vector<std::string> names = pass_names();
      return o.stop_after.empty() || std::ranges::find(names, o.stop_after) >= std::ranges::find(names, pass);
    };
    c.only_when(
        options, reached,
        {"acts in the pass " + pass + ", after the one that --stop-after names", "name that pass, or leave it away"});
  }
}

bool finds_by(const CalibrationArguments& o, const std::string& method) {
  const auto names_it = [&](const std::string& rule) { return rule.ends_with("=" + method); };
  return o.method == method || std::ranges::any_of(o.overrides, names_it);
}

// Options of what a run does not do: no rewrite, no samples, no training, no model.
void declare_conditions(Command& c, const ConvertOptions& o) {
  const Idle no_rewrite = {"is about a rewrite, and there is none", "add --rewrite mixed_float16 or mixed_bfloat16"};
  c.only_with({"--lists", "--rewrite-level", "--infer-after-allow", "--preserve", "--explain"}, {"--rewrite"},
              no_rewrite);
  for (const char* list : {"--allow", "--infer", "--deny", "--clear"})
    for (const char* verb : {"list-add", "list-remove"})
      c.only_with({std::string(list) + verb}, {"--rewrite"}, no_rewrite);
  c.only_when({"--infer-after-allow"}, [&o] { return o.rewrite.options.type == ElementType::kFloat16; },
              {"is what --rewrite mixed_bfloat16 does in any case", "leave it away"});
  c.not_with(
      {"--policy"}, {"--rewrite"},
      {"cannot go with --rewrite, which gives every layer its policy", "take --set PATTERN=POLICY for some layers"});
  c.only_with({"--range-method", "--range", "--percentile", "--range-decay", "--cast-samples"}, {"--calibrate"},
              {"is about ranges, and there are no samples to find them in", "add --calibrate DATA"});
  c.only_when({"--percentile"}, [&o] { return finds_by(o.calibration, "percentile"); },
              {"no range is found by percentiles", "add --range-method percentile"});
  c.only_when({"--range-decay"}, [&o] { return finds_by(o.calibration, "moving_average"); },
              {"no range is found by a moving average", "add --range-method moving_average"});
  c.only_with(training_options(c), {"--train"}, {"is about a model that trains", "add --train LOSS"});
  c.not_with({"--golden", "--no-fold-bn", "--emit-policy", "--explain", "--stop-after"}, {"--train"},
             {"is about a model that only infers", "leave it away, or --train"});
  c.only_with({"--golden", "--strip-names", "--target"}, {"--output"},
              {"is about the model's file, and none is written", "add -o MODEL"});
  c.only_with({"--keep-inputs", "--io-types", "--no-fuse", "--rounding", "--bank"},
              {"--output", "--stop-after", "--dump"},
              {"is about the steps, and none is written or printed", "add -o MODEL, or --dump to see them"});
  c.only_with({"--json"}, {"--output", "--explain"}, {"says what was written, and nothing is", "add -o MODEL"});
  c.not_with({"--json"}, {"--dump"}, {"cannot go with --dump, which prints text", "leave one of them away"});
  c.not_with(
      {"--stop-after"}, {"--output", "--emit-policy", "--dump", "--json"},
      {"prints the graph after a pass and writes nothing", "leave away what is to be written or printed after it"});
  declare_passes(c, o);
}

}  // namespace

void add_convert(CLI::App& app) {
  auto o = std::make_shared<ConvertOptions>();
  Command& c = add_command(app, "convert", "compile a network (TFLite or ONNX, told by content) into a model file");
  c.footer(
      "Examples:\n"
      "  nacre convert kws.tflite -o kws.nacre --golden 2\n"
      "  nacre convert digits.onnx -o digits.nacre --batch 8 --bank tcm=64K,sram=512K\n"
      "  nacre convert digits.onnx --stop-after simplify        the graph as text, no model\n"
      "  nacre convert digits.onnx -o d.nacre --policy mixed_bfloat16 --set 'fc.*=int8_from_float32'\n"
      "  nacre convert digits.onnx -o d.nacre --policy int8/static_from_float32 --calibrate samples.npz\n"
      "  nacre convert digits.onnx --rewrite mixed_float16 --explain      what TensorFlow's rewrite would do\n"
      "  nacre convert digits.onnx -o train.nacre --train softmax_cross_entropy --batch 32 --optimizer adam\n"
      "Policies: nacre policies. Passes: " +
      CLI::detail::join(pass_names(), ", "));
  c.reads(c.add_option("NETWORK", o->network, "the network's file")->required()->type_name(""), files_of_network);
  c.writes(c.add_option("-o,--output", o->model, "the model file to write")->type_name("MODEL"));
  add_number(c, "--batch", o->batch, 1, 1 << 20, "rows per run, where the network leaves it open [1]");
  add_choice(c, "--io-layout", o->io_nhwc, {{"source", false}, {"nhwc", true}}, "source|nhwc",
             "of inputs and outputs; nhwc needs no transpose [source]");
  c.add_option("--bank", o->banks, "memory banks for the arena, fastest first; with K, M")
      ->check(not_empty())
      ->type_name("NAME=BYTES,...");
  c.add_flag("--keep-inputs", o->keep_inputs, "inputs stay valid across runs: their bytes are not used again");
  add_target(c, o->target, "name under which programs find this one [host]");
  add_choice(c, "--rounding", o->rounding,
             {{"double", Rounding::kDouble}, {"single", Rounding::kSingle}, {"float_even", Rounding::kFloatEven}},
             "double|single|float_even", "of int8 results [double, as TFLite]");
  c.add_flag_callback(
      "--no-fold-bn", [o] { o->fold_batch_norm = false; }, "keep batch normalizations as steps of their own");
  add_number(c, "--golden", o->golden, 0, 1000, "store N pairs of seeded inputs and outputs, for nacre check [0]");
  c.add_option("--stop-after", o->stop_after, "print the graph as text after this pass, and stop")
      ->check(one_of(pass_names()))
      ->type_name("PASS");
  c.add_flag("--dump", o->dump, "print the graph as text after the last pass");
  c.add_flag("--strip-names", o->strip_names, "leave out the names of tensors");
  c.add_flag("--verbose", o->verbose, "say what each pass did, on standard error");
  add_json(c, o->json);
  add_policy_options(c, *o);
  add_rewrite_options(c, o->rewrite);
  add_calibration_options(c, o->calibration);
  c.add_option("--train", o->training.loss, CLI::detail::join(loss_names(), ", ") + "; makes a model that trains")
      ->check(not_empty())
      ->type_name("LOSS[,FIELD=X]")
      ->group("Training");
  add_training_options(c, o->training);
  declare_conditions(c, *o);
  c.runs([o] { convert(*o); });
}

void add_policies(CLI::App& app) {
  auto o = std::make_shared<PoliciesOptions>();
  Command& c = add_command(app, "policies", "every form of a policy's name, explained; or what one policy means");
  c.footer("Examples:\n  nacre policies\n  nacre policies int8_from_mixed_bfloat16");
  c.add_option("POLICY", o->name, "one policy, to say what it means")->type_name("");
  add_json(c, o->json);
  c.runs([o] { policies(*o); });
}

}  // namespace nacre::tools
