// Reads the settings that a model was compiled with. A key of its loss or optimizer that is neither read nor without
// effect is refused by name if the file's loss or optimizer is used.
//
//   Keras                             here
//   SGD(momentum)                     momentum, nesterov
//   SGD(weight_decay w)               p (1 - r w) - r g = p - r (g + w p): sgd,weight_decay=w (r rate, g gradient)
//   Adam, AdamW(weight_decay)         adam, adamw, with epsilon where Keras adds it
//   RMSprop, Adagrad                  rmsprop, adagrad, with epsilon in the root
//   CosineDecay, PolynomialDecay(1)   cosine, linear;   ExponentialDecay(staircase): step    schedule.h
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "tools/base/option_id.h"
#include "tools/importers/keras/settings.h"
#include "tools/importers/keras/training.h"
#include "tools/importers/shared/ignored_settings.h"

namespace nacre::tools::keras {
namespace {

using Of = RefusedSetting::Of;

const Json* find(const Json& json, const char* key) {
  if (!json.is_object() || !json.contains(key) || json.at(key).is_null()) return nullptr;
  return &json.at(key);
}

[[noreturn]] void wrong_type(const std::string& key, const Json& value, const char* fact) {
  throw JsonError(fmt::format("its {} ({}) is {}", key, short_text(value), fact), 0, false);
}

double number(const Json& json, const char* key, double otherwise) {
  const Json* found = find(json, key);
  if (found == nullptr) return otherwise;
  const std::optional<double> number = number_in(*found);
  if (!number) wrong_type(key, *found, "no number");
  return *number;
}

bool flag(const Json& json, const char* key) {
  const Json* found = find(json, key);
  if (found == nullptr) return false;
  const std::optional<bool> flag = flag_in(*found);
  if (!flag) wrong_type(key, *found, "neither true nor false");
  return *flag;
}

// Returns the shortest text that gives the same float32.
std::string text_of(double x) { return fmt::format("{}", float(x)); }

// A known key of a configuration. If `only` is given, values other than null, false, 0 and `only` are refused.
struct Key {
  const char* name;
  const char* only = nullptr;  // null if the key is read, or has no effect at any value
};

bool is_value(const Json& value, const std::string& text) {
  if (value.is_number()) return fmt::format("{}", value.get<double>()) == text;
  return (value.is_string() ? value.text() : value.dump()) == text;
}

class Reader {
 public:
  Reader(const ImportOptions& options, Compiled& made) : options_(options), made_(made) {}

  void refuse(Of of, const std::string& name, const std::string& fact) {
    if (!name.empty() && goes_on_without(options_, name)) return;
    made_.refused.push_back({of, name.empty() ? fact : fact + "; " + how_to_ignore(name)});
  }

  // Refuses the keys of a configuration that are neither read nor without effect.
  void keys(Of of, const std::string& prefix, const std::string& owner, const Json& config,
            const std::vector<Key>& known) {
    for (const auto& [name, value] : config.items()) {
      if (value.is_null()) continue;
      const auto key = std::ranges::find(known, name, [](const Key& k) { return std::string(k.name); });
      if (key != known.end() && key->only == nullptr) continue;
      if (key != known.end() && (value.is_array() || value.is_object()) && value.empty())
        wrong_type(name, value, "neither a number nor a flag");
      if (key != known.end() && (is_off(value) || is_value(value, key->only))) continue;
      refuse(of, prefix + name,
             fmt::format("{} is compiled with {}={}, which has no form here", owner, name, value.dump()));
    }
  }

  void loss(const Json& json);
  void optimizer(const std::string& name, const Json& config);

 private:
  void schedule(const Json& json, bool momentum);
  void start_schedule(const std::string& name, const Json& config);

  const ImportOptions& options_;
  Compiled& made_;
};

struct LossRow {
  std::vector<const char*> in_keras;  // names without '_', in lower case
  const char* name;
  std::vector<Key> keys;
};
const std::vector<LossRow>& losses() {
  static const std::vector<LossRow> rows = {
      {{"sparsecategoricalcrossentropy"}, "softmax_cross_entropy", {{"from_logits"}, {"ignore_class"}, {"axis", "-1"}}},
      {{"categoricalcrossentropy"}, "dense_cross_entropy", {{"from_logits"}, {"label_smoothing"}, {"axis", "-1"}}},
      {{"binarycrossentropy"}, "sigmoid_cross_entropy", {{"from_logits"}, {"label_smoothing", "0"}, {"axis", "-1"}}},
      {{"meansquarederror", "mse"}, "squared_error", {}},
      {{"meanabsoluteerror", "mae"}, "absolute_error", {}},
      {{"huber", "huberloss"}, "huber", {{"delta"}}},
  };
  return rows;
}

bool is_float32(const Json& dtype) {
  const std::string text = dtype.dump();
  return dtype.is_null() || text.find("float32") != text.npos;
}

// Returns whether the JSON holds a loss for each output, by its key or its index.
bool are_losses(const Json& json) { return json.is_array() || (json.is_object() && !json.contains("class_name")); }

void Reader::loss(const Json& json) {
  const Json* of_one = &json;
  if (are_losses(json)) {
    of_one = nullptr;
    int place = 0;
    bool several = false;
    for (auto each = json.begin(); each != json.end(); ++each, ++place) {
      if (each->is_null()) continue;  // an output without a loss
      several = several || of_one != nullptr || are_losses(*each);
      of_one = &*each;
      if (json.is_object()) made_.output_key = each.key();
      else made_.output_place = place;
    }
    if (several)
      return refuse(Of::kLoss, "",
                    "was compiled with several losses, whose sum has no form here: give one with " + option("loss") +
                        ", and of several outputs the one that it is of with " + option("train-output"));
  }
  if (of_one == nullptr) return;
  const NamedConfig loss = named_config(*of_one, "loss");
  std::string bare = lower_case(loss.name);
  std::erase(bare, '_');
  const auto found = std::ranges::find_if(losses(), [&](const LossRow& row) {
    return std::ranges::any_of(row.in_keras, [&](const char* name) { return bare == name; });
  });
  if (found == losses().end())
    return refuse(Of::kLoss, "",
                  fmt::format("the loss {} that it was compiled with has no form here: give another", loss.name));
  std::vector<Key> known = {{"name"}, {"fn"}, {"reduction"}, {"dtype"}};
  known.insert(known.end(), found->keys.begin(), found->keys.end());
  keys(Of::kLoss, "loss.", "the loss " + loss.name, loss.config, known);
  made_.loss = found->name;
  made_.from_logits = flag(loss.config, "from_logits");
  const bool smooths = std::ranges::any_of(
      found->keys, [](const Key& k) { return std::string(k.name) == "label_smoothing" && k.only == nullptr; });
  if (const double smoothing = number(loss.config, "label_smoothing", 0); smoothing != 0 && smooths)
    made_.loss += ",label_smoothing=" + text_of(smoothing);
  if (find(loss.config, "ignore_class") != nullptr)
    made_.loss += fmt::format(",ignore_index={}", Json(number(loss.config, "ignore_class", 0)).get<int32_t>());
  if (made_.loss == "huber" && loss.config.contains("reduction") && find(loss.config, "delta") == nullptr)
    refuse(Of::kLoss, "loss.delta",
           "the file does not say the delta of its loss Huber, which Keras 3 leaves out: give it");
  if (made_.loss == "huber") made_.loss += ",delta=" + text_of(number(loss.config, "delta", 1));
  if (!is_float32(loss.config.value("dtype", Json())))
    refuse(Of::kLoss, "loss.dtype", fmt::format("the loss {} computes in another type than float32", loss.name));
  const Json* reduction = find(loss.config, "reduction");
  const std::string word = reduction == nullptr     ? loss.config.contains("reduction") ? "none" : "mean"
                           : reduction->is_string() ? reduction->text()
                                                    : reduction->dump();
  static const std::set<std::string> kMeans = {"mean", "sum_over_batch_size", "auto", "mean_with_sample_weight"};
  if (word == "sum") made_.loss += ",reduction=sum";
  else if (!kMeans.contains(word))
    refuse(Of::kLoss, "loss.reduction",
           fmt::format("the loss {} is compiled with reduction={}, which has no form here", loss.name, word));
}

struct OptimizerRow {
  std::vector<const char*> names;  // names in lower case
  std::vector<Key> keys;
  std::vector<Moment> moments;
};
const std::vector<OptimizerRow>& optimizers() {
  static const std::vector<Moment> kOfAdam = {{"first_moment", {"m", "momentum"}},
                                              {"second_moment", {"v", "velocity"}}};
  static const std::vector<OptimizerRow> rows = {
      {{"adam", "adamw"}, {{"beta_1"}, {"beta_2"}, {"epsilon"}, {"weight_decay"}, {"amsgrad", "false"}}, kOfAdam},
      {{"sgd"}, {{"momentum"}, {"nesterov"}, {"weight_decay"}}, {}},
      {{"rmsprop"},
       {{"rho"}, {"epsilon"}, {"momentum", "0"}, {"centered", "false"}, {"weight_decay", "0"}},
       {{"mean_square", {"rms", "velocity"}}}},
      {{"adagrad"},
       {{"epsilon"}, {"initial_accumulator_value"}, {"weight_decay", "0"}},
       {{"square_sum", {"accumulator"}}}},
  };
  return rows;
}

// Keys of every optimizer. The ema keys set an average of the weights, and count only with use_ema.
const std::vector<Key> kOfAllOptimizers = {{"name"},
                                           {"learning_rate"},
                                           {"lr"},
                                           {"clipvalue"},
                                           {"global_clipnorm"},
                                           {"ema_momentum"},
                                           {"ema_overwrite_frequency"},
                                           {"jit_compile"},
                                           {"is_legacy_optimizer"},
                                           {"clipnorm", "0"},
                                           {"use_ema", "false"},
                                           {"gradient_accumulation_steps", "1"},
                                           {"loss_scale_factor", "1"},
                                           {"decay", "0"}};

void Reader::optimizer(const std::string& name, const Json& config) {
  const auto found = std::ranges::find_if(optimizers(), [&](const OptimizerRow& row) {
    return std::ranges::any_of(row.names, [&](const char* each) { return name == each; });
  });
  if (found == optimizers().end())
    return refuse(Of::kOptimizer, "optimizer",
                  fmt::format("the optimizer {} that it was compiled with has no form here: give another", name));
  std::vector<Key> known = kOfAllOptimizers;
  known.insert(known.end(), found->keys.begin(), found->keys.end());
  keys(Of::kOptimizer, "optimizer.", "the optimizer " + name, config, known);
  const double decay = number(config, "weight_decay", name == "adamw" ? 0.004 : 0),
               momentum = number(config, "momentum", 0);
  made_.moments = found->moments;
  std::string& text = made_.optimizer;
  const std::string epsilon = text_of(number(config, "epsilon", 1e-7));
  if (name.starts_with("adam")) {
    text = fmt::format("{},beta1={},beta2={},epsilon={},epsilon_before=1", decay != 0 ? "adamw" : "adam",
                       text_of(number(config, "beta_1", 0.9)), text_of(number(config, "beta_2", 0.999)), epsilon);
  } else if (name == "rmsprop") {
    text = fmt::format("rmsprop,alpha={},epsilon={},epsilon_in_root=1", text_of(number(config, "rho", 0.9)), epsilon);
  } else if (name == "adagrad") {
    text = fmt::format("adagrad,epsilon={},epsilon_in_root=1", epsilon);
    made_.moments[0].begin = float(number(config, "initial_accumulator_value", 0.1));
  } else if (momentum != 0) {
    text = fmt::format("{},momentum={}", flag(config, "nesterov") ? "nesterov" : "momentum", text_of(momentum));
    made_.moments = {{"velocity", {"momentum", "m"}}};
  } else {
    text = "sgd";
  }
  const bool decays = name.starts_with("adam") || (name == "sgd" && momentum == 0);
  if (decay != 0 && decays) text += ",weight_decay=" + text_of(decay) + ",decay_all=1";
  else if (decay != 0 && name == "sgd")
    refuse(Of::kOptimizer, "optimizer.weight_decay",
           fmt::format("the optimizer sgd is compiled with weight_decay={} beside a momentum, which has no form here",
                       text_of(decay)));
  made_.clip_norm = float(number(config, "global_clipnorm", 0));
  made_.clip_value = float(number(config, "clipvalue", 0));
  const Json* rate = find(config, "learning_rate");
  if (rate != nullptr && rate->is_object() && !number_in(*rate)) schedule(*rate, momentum != 0);
  else made_.learning_rate = float(number(config, "learning_rate", number(config, "lr", 0)));
}

void Reader::schedule(const Json& json, bool momentum) {
  made_.scheduled = true;
  const NamedConfig found = named_config(json, "learning_rate");
  const auto refused = [&](const std::string& why) {
    refuse(Of::kRate, "optimizer.learning_rate",
           fmt::format("the schedule {} of its learning rate has no form here{}: give a rate and a schedule",
                       found.name, why));
  };
  if (momentum) return refused(" beside a momentum, which Keras multiplies by the rate of its step");
  const Json& c = found.config;
  const double first = number(c, "initial_learning_rate", 0), steps = number(c, "decay_steps", 0);
  const bool counts = steps >= 1 && steps < 0x1p31 && steps == double(uint32_t(steps));
  const bool cycles = flag(c, "cycle");
  std::string text;
  double peak = first;
  if (found.name == "ExponentialDecay" && flag(c, "staircase")) {
    text = fmt::format("step,every={},gamma={}", steps, text_of(number(c, "decay_rate", 0)));
  } else if (found.name == "PolynomialDecay" && number(c, "power", 1) == 1 && !cycles) {
    text = fmt::format("linear,steps={},end={}", steps, text_of(number(c, "end_learning_rate", 1e-4) / first));
  } else if (found.name == "CosineDecay") {
    text = fmt::format("cosine,steps={},end={}", steps, text_of(number(c, "alpha", 0)));
    const double warmup = number(c, "warmup_steps", 0);
    if (find(c, "warmup_target") != nullptr) peak = number(c, "warmup_target", 0);  // used without a warm-up too
    if (peak != first && warmup > 0) text += fmt::format(",warmup={},warmup_start={}", warmup, text_of(first / peak));
  }
  const auto is_share = [](double share) { return share >= 0 && share <= 1; };
  const bool in_range = is_share(number(c, "decay_rate", 0)) && is_share(number(c, "alpha", 0)) &&
                        (text.find("warmup") == text.npos || is_share(first / peak)) && peak > 0 &&
                        number(c, "end_learning_rate", 0) <= first;
  if (text.empty() || !counts || !(first > 0) || !in_range) return refused("");
  made_.schedule = text;
  made_.learning_rate = float(peak);
}

}  // namespace

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

NamedConfig named_config(const Json& json, const std::string& what) {
  if (json.is_string()) return {json.text(), Json::object()};
  if (!json.is_object()) wrong_type(what, json, "neither a name nor a class");
  const Json *const name = find(json, "class_name"), *const config = find(json, "config");
  if (name == nullptr) return {};
  if (!name->is_string()) wrong_type(what + ".class_name", *name, "no text");
  const std::string whole = name->text();  // a registered class is "Package>Adam"
  NamedConfig made = {whole.substr(whole.find('>') + 1), Json::object()};
  if (config == nullptr) return made;
  if (config->is_object()) made.config = *config;
  else if (config->is_string()) made.name = config->text();  // a function
  else wrong_type(what + ".config", *config, "no configuration");
  return made;
}

Compiled read_compiled(const Json& compiled, const ImportOptions& options) {
  Compiled made;
  Reader reader(options, made);
  if (const Json* loss = find(compiled, "loss")) reader.loss(*loss);
  if (const Json* weights = find(compiled, "loss_weights"); weights != nullptr) {
    const bool one = weights->is_number() ? *weights == Json(1.0)
                                          : !weights->is_string() && std::ranges::all_of(*weights, [](const Json& w) {
                                              return w.is_null() || w == Json(1.0);
                                            });
    if (!one)
      reader.refuse(Of::kLoss, "loss.weights",
                    fmt::format("was compiled with loss_weights={}, which have no form here", weights->dump()));
  }
  for (const char* key : {"optimizer", "optimizer_config"})
    if (const Json* optimizer = find(compiled, key)) {
      NamedConfig found = named_config(*optimizer, "optimizer");
      if (lower_case(found.name) == "lossscaleoptimizer") {  // it wraps the optimizer that steps
        std::vector<Key> known = kOfAllOptimizers;
        for (const Key& own :
             {Key{"inner_optimizer"}, Key{"optimizer"}, Key{"dynamic", "true"}, Key{"initial_scale", "32768"},
              Key{"dynamic_growth_steps", "2000"}, Key{"weight_decay", "0"}})
          known.push_back(own);
        reader.keys(Of::kOptimizer, "optimizer.", "the optimizer LossScaleOptimizer", found.config, known);
        for (const char* inner : {"inner_optimizer", "optimizer"})
          if (const Json* of = find(found.config, inner)) {
            found = named_config(*of, "optimizer");
            break;
          }
      }
      reader.optimizer(lower_case(found.name), found.config);
    }
  return made;
}

}  // namespace nacre::tools::keras
