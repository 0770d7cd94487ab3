#include "tools/commands/convert/options.h"

#include "tools/commands/training_options.h"
#include "tools/model/loaded_model.h"
#include "tools/model/machines.h"
#include "tools/passes/patches/patches.h"

namespace nacre::tools {
namespace {

using C = ConvertOptions;
using P = PolicyArguments;
using R = RewriteArguments;
using Files = std::vector<std::string>;

template <class A>
ActsWhen<A> writes_model() {
  return {.with = {"--output"}, .fact = "is about the model's file, and none is written", .remedy = "add -o MODEL"};
}

template <class A>
ActsWhen<A> shows_steps() {
  return {.with = {"--output", "--stop-after", "--dump"},
          .fact = "is about the steps, and none is written or printed",
          .remedy = "add -o MODEL, or --dump to see them"};
}

template <class A>
ActsWhen<A> infers_only() {
  return {.without = {"--train"}, .fact = "is about a model that only infers", .remedy = "leave it out, or --train"};
}

// The option needs "host" as the only target: a program for one instruction set packs weights for its kernels alone.
ActsWhen<C> for_host() {
  return {.when = [](const C& o) { return o.targets == C().targets; },
          .fact = "is of a program for whatever machine runs it",
          .remedy = "leave out --target"};
}

ActsWhen<C> for_gpus() {
  const auto is_gpu = [](const std::string& target) { return target.starts_with("cuda/"); };
  return {.when = [is_gpu](const C& o) { return std::ranges::any_of(o.targets, is_gpu); },
          .fact = "is about what the Tensor Cores of a GPU take",
          .remedy = "add --target cuda/sm90"};
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const TargetMachine& machine : machines()) names.emplace_back(machine.name);
  return names;
}

OptionTable<C> make_model_options() {
  return {
      {.name = "--batch",
       .value = "N",
       .help = "rows per run, if the network leaves their number open [1]",
       .field = [](C& o) { return whole(o.batch, 1, 1 << 20); }},
      {.name = "--shape",
       .value = "NAME=SIZES",
       .help = "sizes of an axis that the network leaves open, seq=128, or of an input, x=1x3x224x224; ONNX",
       .field = [](C& o) { return &o.shapes; }},
      {.name = "--ignore-setting",
       .value = "NAME",
       .help = "go on without a setting of the network's file that is refused: the name that the refusal prints",
       .field = [](C& o) { return &o.ignored; }},
      {.name = "--state",
       .value = "IN=OUT",
       .help = "the input IN is what the run before left as the output OUT, or as its last rows, at first zeros: the "
               "model keeps it; OUT @position: how many rows went before; @mask: 1 where a cache has some",
       .field = [](C& o) { return &o.states; },
       .acts = {infers_only<C>()}},
      {.name = "--io-layout",
       .value = "source|nhwc",
       .help = "layout of inputs and outputs; nhwc needs no transpose [source]",
       .field = [](C& o) { return choice<bool>(o.io_nhwc, {{"source", false}, {"nhwc", true}}); }},
      {.name = "--bank",
       .value = "NAME=BYTES,...",
       .help = "memory banks for the arena, fastest first; with K, M",
       .field = [](C& o) { return &o.banks; },
       .acts = {shows_steps<C>()},
       .stage = Stage::kSchedule},
      {.name = "--labels",
       .value = "FILE",
       .help = "names of the classes, one on each line, for nacre run and applications",
       .field = [](C& o) { return &o.labels; },
       .acts = {writes_model<C>()},
       .text = OptionText::kHash,
       .input = true},
      {.name = "--normalize",
       .value = "INPUT=MEAN,STD",
       .help = "the network reads pixels from 0 to 255 as (x - MEAN) / STD; for each channel M:M:M,S:S:S",
       .field = [](C& o) { return &o.normalize; },
       .acts = {writes_model<C>()}},
      {.name = "--keep-inputs",
       .value = "",
       .help = "inputs stay valid across runs: their bytes are not used again",
       .field = [](C& o) { return Flag{&o.keep_inputs}; },
       .acts = {shows_steps<C>()},
       .stage = Stage::kSchedule},
      {.name = "--target",
       .value = "TARGET,...",
       .help = fmt::format("targets, each with a program of its own over the same weights [host]: {}",
                           fmt::join(machine_names(), ", ")),
       .field = [](C& o) { return Choices{&o.targets, machine_names()}; },
       .acts = {writes_model<C>()},
       .delimiter = ','},
      {.name = "--tune",
       .value = "",
       .help = "time each step on XNNPACK and on our own kernels here: the faster one stands in the file",
       .field = [](C& o) { return Flag{&o.tune}; },
       .acts = {infers_only<C>(),
                writes_model<C>(),
                for_host(),
                {.without = {"--place"}, .fact = "finds what --place says", .remedy = "leave one of them out"}},
       .text = OptionText::kLeftOut},
      {.name = "--threads",
       .value = "N",
       .help = "threads of our own kernels under --tune; XNNPACK has one [1]",
       .field = [](C& o) { return whole(o.threads, 1, kMostThreads); },
       .acts = {{.with = {"--tune"}, .fact = "is about measuring, and nothing is measured", .remedy = "add --tune"}},
       .text = OptionText::kLeftOut},
      {.name = "--place",
       .value = "xnnpack=STEPS",
       .help = "XNNPACK, where it is there, runs these steps: 0,2-4, as --tune found them",
       .field = [](C& o) { return &o.place; },
       .acts = {infers_only<C>(), writes_model<C>(), for_host()}},
      {.name = "--rounding",
       .value = "double|single|float_even|litert",
       .help = "rounding of int8 results: double as TensorFlow Lite Micro and LiteRT's own kernels, with fast kernels "
               "on microcontrollers; float_even as XNNPACK; litert as LiteRT's reference kernels [double]",
       .field =
           [](C& o) {
             return choice<Rounding>(o.rounding, {{"double", Rounding::kDouble},
                                                  {"single", Rounding::kSingle},
                                                  {"float_even", Rounding::kFloatEven},
                                                  {"litert", Rounding::kNone}});
           },
       .acts = {shows_steps<C>()},
       .stage = Stage::kApplyPolicy},
      {.name = "--no-fold-bn",
       .value = "",
       .help = "keep batch normalizations as steps of their own",
       .field = [](C& o) { return Flag{&o.fold_batch_norm, false}; },
       .acts = {infers_only<C>()},
       .stage = Stage::kSimplify},
      {.name = "--keep",
       .value = "division|gelu|silu|hard_swish|bias,...",
       .help = "keep what a rewrite may change in the last bits: x / c (else x (1 / c)); gelu, silu or hard_swish in\n"
               "several steps (else one step); a sum behind a layer (else a part of its bias)",
       .field = [](C& o) { return Choices{&o.kept, kept_rewrites()}; },
       .acts = {infers_only<C>()},
       .delimiter = ','},
      {.name = "--golden",
       .value = "N",
       .help = "store N pairs of seeded inputs and outputs, for nacre check [0]",
       .field = [](C& o) { return whole(o.golden, 0, 1000); },
       .acts = {infers_only<C>(), writes_model<C>()}},
      {.name = "--stop-after",
       .value = "PASS",
       .help = "print the graph as text after this pass, and stop",
       .field = [](C& o) { return choice(o.stop_after, stage_names()); },
       .acts = {infers_only<C>()},
       .text = OptionText::kLeftOut},
      {.name = "--dump",
       .value = "",
       .help = "print the graph as text after the last pass",
       .field = [](C& o) { return Flag{&o.dump}; },
       .text = OptionText::kLeftOut},
      {.name = "--strip-names",
       .value = "",
       .help = "leave out the names of tensors",
       .field = [](C& o) { return Flag{&o.strip_names}; },
       .acts = {writes_model<C>()}},
      {.name = "--verbose",
       .value = "",
       .help = "say what each pass changed, on standard error; --json has it too",
       .field = [](C& o) { return Flag{&o.verbose}; },
       .text = OptionText::kLeftOut},
      {.name = "--json",
       .value = "",
       .help = "print JSON, for machines",
       .field = [](C& o) { return Flag{&o.json}; },
       .acts = {{.with = {"--output", "--explain"},
                 .fact = "says what was written, and nothing is",
                 .remedy = "add -o MODEL"},
                {.without = {"--dump"},
                 .fact = "cannot go with --dump, which prints text",
                 .remedy = "leave one of them out"}},
       .text = OptionText::kLeftOut},
  };
}

OptionTable<P> make_policy_options() {
  return {
      {.name = "--policy",
       .value = "POLICY",
       .help = "policy of every layer; nacre policies explains the names [as the file has it]",
       .field = [](P& o) { return &o.policy; },
       .stage = Stage::kResolvePolicies},
      {.name = "--set",
       .value = "PATTERN=POLICY",
       .help = "policy of layers by name, or by a pattern (RE2) that matches the whole name",
       .field = [](P& o) { return &o.set; },
       .stage = Stage::kResolvePolicies},
      {.name = "--policy-file",
       .value = "FILE",
       .help = "policies as JSON: Keras's of any policy class, or the file of --emit-policy",
       .field = [](P& o) { return &o.file; },
       .text = OptionText::kHash,
       .input = true,
       .stage = Stage::kResolvePolicies},
      {.name = "--only",
       .value = "OPS",
       .help = "layers of these ops alone take --policy: OP,OP or given again",
       .field = [](P& o) { return &o.only; },
       .stage = Stage::kResolvePolicies},
      {.name = "--except",
       .value = "OPS",
       .help = "all ops but these take --policy, such as batch_norm",
       .field = [](P& o) { return &o.except; },
       .stage = Stage::kResolvePolicies},
  };
}

OptionTable<C> make_step_options() {
  return {
      {.name = "--emit-policy",
       .value = "[keras=]FILE",
       .help = "write the policy of every layer, as --policy-file takes it; keras=: in Keras's JSON",
       .field = [](C& o) { return &o.emit_policy; },
       .acts = {infers_only<C>()},
       .text = OptionText::kLeftOut,
       .output = true,
       .files = [](const std::string& value) { return Files{policy_output(value).path}; }},
      {.name = "--io-types",
       .value = "source|policy",
       .help = "types of inputs and outputs; policy: those of the steps beside them, such as int8 [source]",
       .field =
           [](C& o) {
             return choice<IoTypes>(o.io_types, {{"source", IoTypes::kSource}, {"policy", IoTypes::kPolicy}});
           },
       .acts = {shows_steps<C>()},
       .stage = Stage::kApplyPolicy},
      {.name = "--pad-features",
       .value = "",
       .help =
           "add zeros behind features and channels, to multiples of 8 in 16 bits, of 16 in int8 and float8: for GPUs",
       .field = [](C& o) { return Flag{&o.pad_features}; },
       .acts = {infers_only<C>(), writes_model<C>(), for_gpus()}},
      {.name = "--patches",
       .value = "auto|N|NxM[@LAYER]",
       .help = fmt::format("run the first stages in N x M patches, one after another, up to LAYER: less memory, some "
                           "computed twice; auto: at most {}% of the multiply-accumulates",
                           kMostExtraPercent),
       .field = [](C& o) { return &o.patches; },
       .acts = {infers_only<C>(), shows_steps<C>()},
       .stage = Stage::kCutPatches},
      {.name = "--no-fuse",
       .value = "",
       .help = "keep clamps, casts and quantize steps apart: same results",
       .field = [](C& o) { return Flag{&o.fuse, false}; },
       .acts = {shows_steps<C>()},
       .stage = Stage::kFuse},
  };
}

const ActsWhen<R> kOfRewrite = {.with = {"--rewrite"},
                                .fact = "is about a rewrite, and there is none",
                                .remedy = "add --rewrite mixed_float16 or mixed_bfloat16"};

Choice rewrite_type(R& o) {
  Choice type = choice(o.type, std::vector<std::string>{"mixed_float16", "mixed_bfloat16"});
  type.take = [&o, take = type.take](size_t i) {
    take(i);
    o.options.type = i == 0 ? ElementType::kFloat16 : ElementType::kBfloat16;
  };
  return type;
}

OptionTable<R> make_rewrite_options() {
  OptionTable<R> table = {
      {.name = "--rewrite",
       .value = "mixed_float16|mixed_bfloat16",
       .help = "TensorFlow's graph rewrite: 16 bits where its lists allow them",
       .field = rewrite_type,
       .stage = Stage::kRewrite},
      {.name = "--lists",
       .value = "tf1|tf2",
       .help = "lists of the rewrite: those of TensorFlow 1.15, softmax denied, or today's, softmax inferred [tf1]",
       .field = [](R& o) { return choice<bool>(o.options.tf2_lists, {{"tf1", false}, {"tf2", true}}); },
       .acts = {kOfRewrite}},
      {.name = "--rewrite-level",
       .value = "LEVEL",
       .help =
           "how far the rewrite goes: TensorFlow's TENSOR_CORES_ONLY, UNSAFE_FORCE_ALL, TREAT_INFER_AS_DENY [standard]",
       .field =
           [](R& o) {
             return choice<RewriteLevel>(o.options.level, {{"standard", RewriteLevel::kStandard},
                                                           {"TENSOR_CORES_ONLY", RewriteLevel::kTensorCoresOnly},
                                                           {"UNSAFE_FORCE_ALL", RewriteLevel::kUnsafeForceAll},
                                                           {"TREAT_INFER_AS_DENY", RewriteLevel::kTreatInferAsDeny}});
           },
       .acts = {kOfRewrite}},
      {.name = "--infer-after-allow",
       .value = "",
       .help =
           "paint infer ops right after 16-bit ones with float16 too, as TensorFlow 2.21 does (2.15: bfloat16 only)",
       .field = [](R& o) { return Flag{&o.options.infer_after_allow}; },
       .acts = {kOfRewrite,
                {.when = [](const R& o) { return o.options.type == ElementType::kFloat16; },
                 .fact = "is what --rewrite mixed_bfloat16 does in any case",
                 .remedy = "leave it out"}}},
      {.name = "--preserve",
       .value = "LAYER,...",
       .help = "layers that the rewrite leaves in float32",
       .field = [](R& o) { return &o.options.preserve; },
       .acts = {kOfRewrite},
       .delimiter = ','},
  };
  using Ops = std::vector<std::string>;
  const std::pair<const char*, ListEdit ListEdits::*> lists[] = {{"allow", &ListEdits::allow},
                                                                 {"infer", &ListEdits::infer},
                                                                 {"deny", &ListEdits::deny},
                                                                 {"clear", &ListEdits::clear}};
  struct Verb {
    const char *name, *where;
    Ops ListEdit::*ops;
  };
  const Verb verbs[] = {{"add", "to", &ListEdit::add}, {"remove", "from", &ListEdit::remove}};
  for (const auto& [list, edit] : lists)
    for (const auto& [verb, where, ops] : verbs)
      table.push_back({.name = fmt::format("--{}list-{}", list, verb),
                       .value = "OP,...",
                       .help = fmt::format("{} these ops {} the rewrite's {}list", verb, where, list),
                       .field = [of_list = edit, of_verb = ops](R& o) { return &(o.options.edits.*of_list.*of_verb); },
                       .acts = {kOfRewrite},
                       .delimiter = ',',
                       .hidden = true});
  table.push_back({.name = "--explain",
                   .value = "",
                   .help = "print every decision of the rewrite with its reason. Lists are edited by\n"
                           "--{allow,infer,deny,clear}list-{add,remove} OP,...",
                   .field = [](R& o) { return Flag{&o.explain}; },
                   .acts = {kOfRewrite, infers_only<R>()},
                   .text = OptionText::kLeftOut});
  return table;
}

}  // namespace

const OptionTable<ConvertOptions>& model_options() {
  static const OptionTable<ConvertOptions> table = make_model_options();
  return table;
}

const OptionTable<PolicyArguments>& policy_options() {
  static const OptionTable<PolicyArguments> table = make_policy_options();
  return table;
}

const OptionTable<ConvertOptions>& step_options() {
  static const OptionTable<ConvertOptions> table = make_step_options();
  return table;
}

const OptionTable<RewriteArguments>& rewrite_options() {
  static const OptionTable<RewriteArguments> table = make_rewrite_options();
  return table;
}

std::string options_text(const ConvertOptions& o) {
  std::string text = text_of(model_options(), o) + text_of(step_options(), o) + text_of(rewrite_options(), o.rewrite) +
                     text_of(policy_options(), o.policies);
  if (!o.training.loss.empty()) text += " " + training_text(o.training);
  text += text_of(calibration_options(), o.calibration) + text_of(front_end_options(), o);
  return text.empty() ? text : text.substr(1);
}

}  // namespace nacre::tools
