#include <algorithm>
#include <memory>

#include "tools/cli/cli.h"
#include "tools/cli/option_table.h"
#include "tools/commands/convert/options.h"
#include "tools/commands/policies/policies.h"
#include "tools/commands/training_options.h"
#include "tools/importers/importer.h"

namespace nacre::tools {
namespace {

// Adds a condition to each option that acts in one pass: it is refused if --stop-after names an earlier pass.
template <class Arguments>
void add_passes(Command& c, const OptionTable<Arguments>& table, const ConvertOptions& o) {
  for (const OptionRow<Arguments>& row : table) {
    if (!row.stage) continue;
    const auto reached = [&o, stage = *row.stage] {
      return o.stop_after.empty() || stage_named(o.stop_after) >= stage;
    };
    c.only_when({row.name}, reached,
                {fmt::format("acts in the pass {}, after the one that --stop-after names", name_of(*row.stage)),
                 "name that pass, or leave it out"});
  }
}

}  // namespace

void add_convert(CLI::App& app) {
  auto o = std::make_shared<ConvertOptions>();
  Command& c =
      add_command(app, "convert", "compile a network (ONNX, TFLite or Keras, told by content) into a model file");
  c.footer(
      "Examples:\n"
      "  nacre convert kws.tflite -o kws.nacre --golden 2\n"
      "  nacre convert digits.onnx -o digits.nacre --batch 8 --bank tcm=64K,sram=512K\n"
      "  nacre convert digits.onnx --stop-after simplify        the graph as text, no model\n"
      "  nacre convert digits.onnx -o d.nacre --policy mixed_bfloat16 --set 'fc.*=int8_from_float32'\n"
      "  nacre convert digits.onnx -o d.nacre --policy int8/static_from_float32 --calibrate samples.npz\n"
      "  nacre convert digits.onnx --rewrite mixed_float16 --explain      what TensorFlow's rewrite would do\n"
      "  nacre convert digits.onnx -o train.nacre --train softmax_cross_entropy --batch 32 --optimizer adam\n"
      "  nacre convert kws.tflite -o kws.nacre --rounding float_even --tune      each step on the faster kernel\n"
      "  nacre convert words.tflite --front-end features.tflite --hop 320 -o s.nacre      a run takes 320 samples\n"
      "Policies: nacre policies. Passes: " +
      CLI::detail::join(stage_names(), ", "));
  c.reads(c.add_option("NETWORK", o->network, "the network's file")->required()->type_name(""), files_of_network);
  c.writes(c.add_option("-o,--output", o->model, "the model file to write")->type_name("MODEL"));
  add_options(c, model_options(), *o);
  add_options(c, policy_options(), o->policies, "Policies");
  add_options(c, step_options(), *o, "Steps and memory");
  add_options(c, rewrite_options(), o->rewrite, "TensorFlow's graph rewrite");
  add_options(c, calibration_options(), o->calibration, "Calibration");
  add_options(c, front_end_options(), *o, "A front end that computes features");
  o->training.loss_option = "--train";
  c.add_option("--train", o->training.loss, CLI::detail::join(loss_names(), ", ") + "; makes a model that trains")
      ->check(not_empty())
      ->type_name("LOSS[,FIELD=X]")
      ->group("Training");
  add_options(c, training_options(), o->training, "Training");
  add_conditions(c, model_options(), *o);
  add_conditions(c, step_options(), *o);
  add_conditions(c, rewrite_options(), o->rewrite);
  add_conditions(c, calibration_options(), o->calibration);
  add_conditions(c, front_end_options(), *o);
  add_conditions(c, training_options(), o->training);
  c.not_with(
      {"--policy"}, {"--rewrite"},
      {"cannot go with --rewrite, which gives every layer its policy", "take --set PATTERN=POLICY for some layers"});
  // This condition stands after the conditions of the option tables, so that refusals by those come first.
  c.not_with(
      {"--stop-after"}, {"--output", "--emit-policy", "--dump", "--json"},
      {"prints the graph after a pass and writes nothing", "leave out what is to be written or printed after it"});
  c.only_with(names_of(training_options()), {"--train"}, {"is about a model that trains", "add --train LOSS"});
  add_passes(c, model_options(), *o);
  add_passes(c, policy_options(), *o);
  add_passes(c, step_options(), *o);
  add_passes(c, rewrite_options(), *o);
  add_passes(c, calibration_options(), *o);
  add_passes(c, front_end_options(), *o);
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
