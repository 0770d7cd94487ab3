#include "tools/commands/training_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "tools/base/error.h"
#include "tools/base/nearest.h"
#include "tools/differentiate/loss_step.h"
#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {
namespace {

constexpr Loss kLosses[] = {Loss::kSoftmaxCrossEntropy, Loss::kDenseCrossEntropy, Loss::kSigmoidCrossEntropy,
                            Loss::kSquaredError,        Loss::kAbsoluteError,     Loss::kHuber};

const std::map<std::string, Optimizer> kOptimizers = {
    {"sgd", Optimizer::kSgd},        {"momentum", Optimizer::kMomentum}, {"nesterov", Optimizer::kNesterov},
    {"adam", Optimizer::kAdam},      {"adamw", Optimizer::kAdamW},       {"rmsprop", Optimizer::kRmsprop},
    {"adagrad", Optimizer::kAdagrad}};

const std::map<std::string, LossScaleSystem> kSystems = {
    {"nacre", LossScaleSystem::kNacre}, {"tf", LossScaleSystem::kTensorFlow}, {"keras", LossScaleSystem::kKeras},
    {"jmp", LossScaleSystem::kJmp},     {"fastai", LossScaleSystem::kFastai}, {"axon", LossScaleSystem::kAxon}};

std::vector<std::string> keys(const auto& map) {
  std::vector<std::string> names;
  for (const auto& [name, unused] : map) names.push_back(name);
  return names;
}

const auto& find(const auto& map, const std::string& option, const std::string& name) {
  const auto found = map.find(name);
  if (found == map.end())
    throw Error(kUsage, option, fmt::format("'{}' is none of {}", name, fmt::join(keys(map), ", ")));
  return found->second;
}

float number(const std::string& option, const std::string& text, float low, float high) {
  float value = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || last != end || !(value >= low && value <= high))
    throw Error(kUsage, option, fmt::format("'{}' is no number in [{}, {}]", text, low, high));
  return value;
}

// The parts of a text "name,key=value,key=value".
struct Named {
  std::string name;
  std::map<std::string, std::string> fields;
};
Named split(const std::string& option, const std::string& text) {
  Named named;
  for (size_t first = 0; first <= text.size();) {
    const size_t end = std::min(text.find(',', first), text.size());
    const std::string part = text.substr(first, end - first);
    const size_t equals = part.find('=');
    if (first == 0) named.name = part;
    else if (equals == std::string::npos) throw Error(kUsage, option, fmt::format("'{}' is no field=number", part));
    else if (!named.fields.emplace(part.substr(0, equals), part.substr(equals + 1)).second)
      throw Error(kUsage, option, fmt::format("names {} twice", part.substr(0, equals)), "keep one of them");
    first = end + 1;
  }
  return named;
}

// A field of an option and the range in which its value must lie.
struct Field {
  float* value;
  float low = 0, high = 1;
};
const float kBelowOne = std::nextafter(1.0f, 0.0f);
constexpr float kAboveZero = 1e-30f, kLargest = 1e30f;

using Fields = std::map<std::string, Field>;
void read_fields(const std::string& option, const Named& named, const Fields& fields) {
  for (const auto& [key, text] : named.fields) {
    const Field& field = find(fields, option + " " + named.name, key);
    *field.value = number(option + ": " + key, text, field.low, field.high);
  }
}

int32_t whole_number(const std::string& option, const std::string& text) {
  int32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || last != end)
    throw Error(kUsage, option, fmt::format("'{}' is no whole number of 32 bits", text));
  return value;
}

[[noreturn]] void refuse_word(const std::string& option, const std::string& word,
                              const std::vector<std::string>& words) {
  const std::string near = alternatives(nearest_names(word, words));
  throw Error(kUsage, option, fmt::format("'{}' is none of {}", word, fmt::join(words, ", ")),
              near.empty() ? "" : "did you mean " + near + "?");
}

LossOptions parse_loss(const std::string& option, const std::string& text) {
  Named named = split(option, text);
  LossOptions loss;
  const auto found = std::ranges::find_if(kLosses, [&](Loss l) { return name_of(l) == named.name; });
  if (found == std::end(kLosses)) refuse_word(option, named.name, loss_names());
  loss.kind = *found;
  if (const auto ignored = named.fields.find("ignore_index");
      ignored != named.fields.end() && labels_are_classes(loss.kind)) {
    loss.ignores = true;
    loss.ignore_index = whole_number(option + ": ignore_index", ignored->second);
    named.fields.erase(ignored);
  }
  if (const auto reduction = named.fields.find("reduction"); reduction != named.fields.end()) {
    if (reduction->second != "sum" && reduction->second != "mean")
      throw Error(kUsage, option + ": reduction", fmt::format("'{}' is none of mean, sum", reduction->second));
    loss.sums = reduction->second == "sum";
    named.fields.erase(reduction);
  }
  Fields fields;
  if (loss.kind == Loss::kHuber) fields["delta"] = {&loss.delta, kAboveZero, kLargest};
  if (loss.kind == Loss::kSoftmaxCrossEntropy || loss.kind == Loss::kDenseCrossEntropy)
    fields["label_smoothing"] = {&loss.label_smoothing};
  read_fields(option, named, fields);
  return loss;
}

OptimizerOptions parse_optimizer(const TrainingArguments& a) {
  const Named named = split("--optimizer", a.optimizer);
  OptimizerOptions o;
  o.kind = find(kOptimizers, "--optimizer", named.name);
  Fields fields = {{"weight_decay", {&o.weight_decay, 0, 1e6f}}, {"decay_all", {&o.decay_all}}};
  const bool adam = o.kind == Optimizer::kAdam || o.kind == Optimizer::kAdamW;
  if (adam) fields["beta1"] = {&o.beta1, 0, kBelowOne}, fields["beta2"] = {&o.beta2, 0, kBelowOne};
  if (o.kind == Optimizer::kMomentum || o.kind == Optimizer::kNesterov) fields["momentum"] = {&o.momentum};
  if (o.kind == Optimizer::kRmsprop) fields["alpha"] = {&o.alpha, 0, kBelowOne};
  if (adam || o.kind == Optimizer::kRmsprop || o.kind == Optimizer::kAdagrad)
    fields["epsilon"] = {&o.epsilon, kAboveZero, kLargest};
  if (adam) fields["epsilon_before"] = {&o.epsilon_before};
  if (o.kind == Optimizer::kRmsprop || o.kind == Optimizer::kAdagrad) fields["epsilon_in_root"] = {&o.epsilon_in_root};
  read_fields("--optimizer", named, fields);
  o.no_decay = a.no_decay;
  if (a.clip_norm < kNoClip) o.clip_norm = a.clip_norm;
  if (a.clip_value < kNoClip) o.clip_value = a.clip_value;
  if (a.moments != "float32" && a.moments != "bfloat16")
    throw Error(kUsage, "--moments", fmt::format("'{}' is none of float32, bfloat16", a.moments));
  if (a.moments == "bfloat16") o.moments = ElementType::kBfloat16;
  return o;
}

// Returns the value of --loss-scale that means the same as the loss scale of the policies.
std::string loss_scale_text(const PolicyLossScale& policies) {
  if (!policies.said) return policies.float16 ? "dynamic" : "none";
  if (policies.kind == LossScale::kFixed) return fmt::format("fixed={}", policies.value);
  return name_of(policies.kind) + policies.numbers;
}

// Reads the fields that each system lets its user choose. Keras has neither limits nor another factor than 2.
void read_dynamic(const std::string& rule_name, Named named, LossScaler& rule) {
  using enum LossScaleSystem;
  if (const auto period = named.fields.find("period"); period != named.fields.end()) {
    const int32_t steps = whole_number("--loss-scale: period", period->second);
    if (steps < 1) throw Error(kUsage, "--loss-scale: period", fmt::format("{} is no number of steps", steps));
    rule.period = uint32_t(steps);
    named.fields.erase(period);
  }
  Fields fields;
  if (rule.system != kKeras) fields["factor"] = {&rule.factor, std::nextafter(1.0f, 2.0f), kLargest};
  if (rule.system == kNacre || rule.system == kJmp || rule.system == kAxon)
    fields["min"] = {&rule.min, kAboveZero, kLargest};
  if (rule.system == kNacre || rule.system == kFastai) fields["max"] = {&rule.max, kAboveZero, kLargest};
  for (const auto& [key, unused] : named.fields)
    if (!fields.contains(key))
      throw Error(kUsage, "--loss-scale", fmt::format("the rule {} has no field '{}'", rule_name, key),
                  fmt::format("it has period{}{}", fields.empty() ? "" : ", ", fmt::join(keys(fields), ", ")));
  read_fields("--loss-scale", named, fields);
}

LossScaler parse_loss_scale(const TrainingArguments& a, const PolicyLossScale& policies) {
  const LossScaleSystem system = find(kSystems, "--loss-scale-rule", a.loss_scale_rule);
  const bool automatic = a.loss_scale == "auto";
  const std::string text = automatic ? loss_scale_text(policies) : a.loss_scale;
  Named named = split("--loss-scale", text);
  const size_t equals = named.name.find('=');
  const std::string word = named.name.substr(0, equals);
  if (word != "none" && word != "fixed" && word != "dynamic")
    throw Error(kUsage, "--loss-scale",
                fmt::format("'{}' is none of auto, none, fixed=S, dynamic, dynamic=S, or fixed with the rule of fastai",
                            a.loss_scale));
  if (word == "none" && equals != std::string::npos)
    throw Error(kUsage, "--loss-scale", "none takes no scale", "write none, or fixed=S");
  if (word == "fixed" && equals == std::string::npos && system != LossScaleSystem::kFastai)
    throw Error(kUsage, "--loss-scale", "fixed needs a scale", "write fixed=128");
  if (word != "dynamic" && !named.fields.empty())
    throw Error(kUsage, "--loss-scale", fmt::format("{} takes no fields: its scale stays", word),
                "write dynamic=S,period=N, or leave them out");
  LossScaler rule = loss_scaler(system, word == "none"    ? LossScale::kNone
                                        : word == "fixed" ? LossScale::kFixed
                                                          : LossScale::kDynamic);
  if (equals != std::string::npos) rule.initial = number("--loss-scale", named.name.substr(equals + 1), 1e-30f, 1e30f);
  read_dynamic(a.loss_scale_rule, named, rule);
  if (!rule.valid())
    throw Error(kUsage, automatic ? policies.origin : "--loss-scale",
                fmt::format("{} is no scale of the rule {}", text, a.loss_scale_rule),
                system != LossScaleSystem::kNacre ? "take a number of at least 1"
                : word == "fixed"      ? "take a power of two such as 128, for which unscaling rounds nothing"
                : named.fields.empty() ? "take a power of two in [1, 16777216], for which unscaling rounds nothing"
                                       : "take powers of two with min <= S <= max, for which unscaling rounds nothing");
  return rule;
}

// Refuses a decay too near 1 for a second moment in bfloat16, which could not become smaller: NUMERICS.md eq. 42.
// Half a unit in the last place of a bfloat16 number is at most 2^-8 of the number.
void require_decay(const OptimizerOptions& o) {
  const bool adam = o.kind == Optimizer::kAdam || o.kind == Optimizer::kAdamW;
  const float decay = adam ? o.beta2 : o.kind == Optimizer::kRmsprop ? o.alpha : 0;
  if (decay >= 1 - 0x1p-8f)
    throw Error(kUsage, "--moments",
                fmt::format("bfloat16 holds no mean that changes by {:.2g} of itself: it would never become smaller",
                            1 - decay),
                adam ? "give --optimizer adam,beta2=0.99" : "give --optimizer rmsprop,alpha=0.99");
}

// Refuses options that contradict each other or would change nothing, since they are a user's mistake.
void refuse_idle(const TrainingArguments& a, const OptimizerOptions& optimizer) {
  if (a.lora_rank > 0 && a.biases_only)
    throw Error(kUsage, "--train-biases", "cannot go with --lora: adapters are trained, and no bias",
                "leave one of them out");
  if (optimizer.kind == Optimizer::kSgd && a.moments != "float32")
    throw Error(kUsage, "--moments", "is about an optimizer's moments, and sgd has none",
                "leave it out, or take another --optimizer");
  if (optimizer.moments == ElementType::kBfloat16) require_decay(optimizer);
  if (!a.no_decay.empty() && optimizer.weight_decay == 0)
    throw Error(kUsage, "--no-decay", "is about weight decay, and there is none",
                "give it: --optimizer adamw,weight_decay=0.01");
}

// Refuses options about running means of ranges if ranges are trained or fixed, and ranges that are both.
void refuse_fixed_ranges(const TrainingArguments& a) {
  const bool momentum = a.range_momentum != TrainingArguments().range_momentum, fixed = a.codes || a.learned_ranges;
  const std::tuple<const char*, bool, bool> pairs[] = {{"--learned-ranges", a.learned_ranges, a.codes},
                                                       {"--range-momentum", momentum, fixed},
                                                       {"--freeze-ranges", a.freeze_ranges > 0, fixed}};
  for (const auto& [option, given, idle] : pairs)
    if (given && idle)
      throw Error(kUsage, option,
                  a.codes ? "cannot go with --train-codes, which keeps every scale"
                          : "cannot go with --learned-ranges, which have no running mean",
                  "leave one of them out");
  if (!(a.range_momentum >= 0 && a.range_momentum < 1))
    throw Error(kUsage, "--range-momentum", fmt::format("{} is not in [0, 1)", a.range_momentum));
}

// Reads "conv.*=0.25" or "conv.*=8:16".
TrainedChannels parse_channels(const std::string& text) {
  const std::string option = "--train-channels";
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    throw Error(kUsage, option, fmt::format("'{}' is no PATTERN=SHARE and no PATTERN=FIRST:END", text),
                "write 'conv.*=0.25', or 'conv1=0:8' for channels 0 to 7");
  TrainedChannels channels = {.pattern = text.substr(0, equals)};
  const std::string what = text.substr(equals + 1);
  const size_t colon = what.find(':');
  if (colon == std::string::npos) {
    channels.share = double(number(option, what, 0, 1));
    if (channels.share > 0) return channels;
    throw Error(kUsage, option, fmt::format("'{}' trains nothing", text),
                "give a share above 0, or leave the layer out of --train-layers");
  }
  const auto place = [&](const std::string& digits) {
    int64_t value = -1;
    const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || last != digits.data() + digits.size() || value < 0)
      throw Error(kUsage, option, fmt::format("'{}' is no channel", digits),
                  "write FIRST:END, such as 0:8 for channels 0 to 7");
    return value;
  };
  channels.first = place(what.substr(0, colon));
  channels.end = place(what.substr(colon + 1));
  if (channels.first >= channels.end)
    throw Error(kUsage, option, fmt::format("'{}' holds no channel", what),
                "write FIRST:END, such as 0:8 for channels 0 to 7");
  return channels;
}

// Reads "dynamic=0.25"; returns 0 for "". The share is a double, because for the float 0.1f ceil(10.0 * 0.1f) is 2.
double parse_share(const std::string& text) {
  if (text.empty()) return 0;
  const std::string_view word = "dynamic=", digits = std::string_view(text).substr(std::min(word.size(), text.size()));
  double share = 0;
  const char* end = digits.data() + digits.size();
  const auto [last, error] = std::from_chars(digits.data(), end, share);
  if (text.starts_with(word) && error == std::errc() && last == end && share > 0 && share <= 1) return share;
  throw Error(kUsage, "--train-share", fmt::format("'{}' is no dynamic=X with a share X above 0, of at most 1", text),
              "write dynamic=0.25 for a quarter of each layer's channels");
}

}  // namespace

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const Loss loss : kLosses) names.emplace_back(name_of(loss));
  return names;
}

std::vector<std::string> optimizer_names() { return keys(kOptimizers); }

std::string loss_scale_note(const TrainingArguments& a, const PolicyLossScale& policies) {
  if (a.loss_scale == "auto" || !policies.said || a.loss_scale == loss_scale_text(policies)) return "";
  return fmt::format("training: --loss-scale {} takes the place of {}, which {} names", a.loss_scale,
                     loss_scale_text(policies), policies.origin);
}

TrainingOptions parse_training(const TrainingArguments& a, const PolicyLossScale& policies) {
  TrainingOptions options;
  options.loss = parse_loss(a.loss_option, a.loss);
  options.loss.output = a.output;
  options.optimizer = parse_optimizer(a);
  refuse_idle(a, options.optimizer);
  options.loss_scale = parse_loss_scale(a, policies);
  options.train = {.layers = a.layers,
                   .last_layers = a.last_layers,
                   .biases_only = a.biases_only,
                   .frozen_batch_norm = a.frozen_batch_norm,
                   .channels = {},
                   .output = a.output};
  if (options.loss_scale.kind == LossScale::kNone && a.loss_scale_rule != TrainingArguments().loss_scale_rule)
    throw Error(kUsage, "--loss-scale-rule", "is about a loss scale, and there is none",
                "add --loss-scale dynamic, or --policy mixed_float16");
  refuse_fixed_ranges(a);
  options.adapters = {.rank = a.lora_rank, .alpha = a.lora_alpha};
  if (!std::isfinite(a.lora_alpha) || !(a.lora_alpha > 0))
    throw Error(kUsage, "--lora-alpha", fmt::format("{} is no positive number", a.lora_alpha));
  if (!(a.batch_norm_momentum >= 0 && a.batch_norm_momentum < 1))
    throw Error(kUsage, "--batch-norm-momentum", fmt::format("{} is not in [0, 1)", a.batch_norm_momentum));
  for (const auto& [name, clip] : {std::pair("--clip-norm", a.clip_norm), std::pair("--clip-value", a.clip_value)})
    if (!(clip > 0))
      throw Error(kUsage, name, fmt::format("{} is no number above 0", clip),
                  "leave it out; --optimizer takes the place of what a file clips");
  options.codes = a.codes;
  options.share = parse_share(a.share);
  for (const std::string& channels : a.channels) options.train.channels.push_back(parse_channels(channels));
  if (!a.channels.empty() && (a.codes || a.lora_rank > 0))
    throw Error(kUsage, "--train-channels", fmt::format("cannot go with {}", a.codes ? "--train-codes" : "--lora"),
                "leave one of them out");
  if (a.codes && a.lora_rank > 0)
    throw Error(kUsage, "--train-codes", "cannot go with --lora, which freezes the codes", "leave one of them out");
  options.batch_norm_momentum = a.batch_norm_momentum;
  options.unbiased_variance = a.unbiased_variance;
  options.seed = a.seed;
  options.immediate = a.immediate;
  options.quantizers = {
      .learned_ranges = a.learned_ranges, .range_momentum = a.range_momentum, .freeze_steps = a.freeze_ranges};
  if (!a.arena_limit.empty()) options.arena_limit = parse_bytes("--arena-limit", a.arena_limit);
  if (a.immediate && options.loss_scale.kind == LossScale::kDynamic)
    throw Error(
        kUsage, "--update immediate",
        "cannot go with a dynamic loss scale: a step is committed before it is known whether all of it is finite",
        "take --loss-scale none or fixed=S, or leave out --update");
  if (a.immediate && a.clip_norm < kNoClip)
    throw Error(kUsage, "--update immediate",
                "cannot go with --clip-norm: the norm is known only after the last gradient",
                "take --clip-value, or leave out --update");
  return options;
}

}  // namespace nacre::tools
