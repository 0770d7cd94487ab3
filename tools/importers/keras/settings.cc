#include "tools/importers/keras/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "tools/importers/keras/setting_rows.h"
#include "tools/importers/shared/ignored_settings.h"

namespace nacre::tools::keras {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) words.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

struct Rule {
  SettingUse use = SettingUse::kUnknown;
  std::string only;  // another value that counts as off
};
using Rules = std::map<std::string, Rule>;

void add(Rules& rules, std::string_view text, SettingUse use) {
  for (const std::string& word : words_of(text)) {
    const size_t equals = std::min(word.find('='), word.size());
    rules[word.substr(0, equals)] = {use, word.substr(std::min(equals + 1, word.size()))};
  }
}

const std::map<std::string, Rules>& table() {
  static const std::map<std::string, Rules> made = [] {
    std::map<std::string, Rules> all;
    for (const SettingRow& row : setting_rows())
      for (const std::string& name : words_of(row.classes)) {
        Rules& rules = all[name];
        add(rules, row.used, SettingUse::kUsed);
        add(rules, row.training, SettingUse::kTraining);
        add(rules, row.off, SettingUse::kOff);
      }
    for (const IdleSetting& idle : idle_settings())
      for (const std::string& name : words_of(idle.classes)) add(all[name], idle.keys, SettingUse::kIdle);
    return all;
  }();
  return made;
}

Rule rule_of(const std::string& class_name, const std::string& key) {
  static const Rules common = [] {
    Rules rules;
    add(rules, kSettingsOfAll, SettingUse::kUsed);
    for (const IdleSetting& idle : idle_settings())
      if (std::string_view(idle.classes).empty()) add(rules, idle.keys, SettingUse::kIdle);
    return rules;
  }();
  if (const auto of_class = table().find(class_name); of_class != table().end())
    if (const auto found = of_class->second.find(key); found != of_class->second.end()) return found->second;
  if (const auto found = common.find(key); found != common.end()) return found->second;
  if (key.ends_with("_initializer")) return {SettingUse::kIdle, ""};  // the file has the initialized numbers
  if (key == "activity_regularizer" || key.ends_with("_constraint")) return {SettingUse::kTraining, ""};
  if (key.ends_with("_regularizer")) return {SettingUse::kUsed, ""};
  return {};
}

// Returns the layers that change x only in training, each with the setting that turns it off, or "".
const std::map<std::string, std::string>& only_in_training() {
  static const std::map<std::string, std::string> made = [] {
    std::map<std::string, std::string> all = {
        {"GaussianNoise", "stddev"},   {"GaussianDropout", "rate"},  {"AlphaDropout", "rate"},
        {"SpatialDropout1D", "rate"},  {"SpatialDropout2D", "rate"}, {"SpatialDropout3D", "rate"},
        {"SpectralNormalization", ""},
    };
    for (const std::string& name : words_of(kAugmentations)) all[name] = "";
    return all;
  }();
  return made;
}

// Returns false for a flag, and for a number that is no size or position, alone or in lists.
bool are_sizes(const Json& value, int depth = 0) {
  if (value.is_array() && depth < 3)
    return std::ranges::all_of(value.elements(), [&](const Json& each) { return are_sizes(each, depth + 1); });
  if (!value.is_number()) return !value.is_boolean();
  const double number = value.get<double>();
  return std::abs(number) <= double(kMostSize) && number == std::floor(number);
}

class Judge {
 public:
  Judge(const Importer& importer, bool trains)
      : file_(importer.name()), options_(importer.options()), trains_(trains) {}

  void config(const std::string& class_name, const std::string& path, const Json& config, int depth = 0) {
    if (!config.is_object() || depth > kMostNested) return;
    whole(class_name, path, config);
    for (const auto& [key, value] : config.items()) {
      setting(class_name, path, key, value);
      if (!key.ends_with("_initializer")) inner(path, value, depth);  // there is an initializer named Identity
    }
  }

  void arguments(const Call& call) {
    if (!call.kwargs.is_object()) return;
    static const std::vector<std::string> known = words_of(kArgumentsOfCalls);
    for (const auto& [key, value] : call.kwargs.items()) {
      if (key == "training") training(call, value);
      else if (!is_off(value) && std::ranges::find(known, key) == known.end())
        refuse(call.class_name, call.path, call.class_name + "." + key,
               fmt::format("is called with {}, which is not read", key));
    }
  }

  void function(const Call& call) {
    for (const Json* given : {&call.config, &call.kwargs}) {
      if (!given->is_object()) continue;
      for (const auto& [key, value] : given->items()) {
        const bool idle = key == "name" || key == "dtype" || value.is_null() || value == Json(false);
        if (idle || call.read.contains(key)) continue;
        refuse(call.class_name, call.path, call.class_name + "." + key,
               fmt::format("its {} ({}) is not read", key, short_text(value)));
      }
    }
  }

  std::vector<std::string> lines;

 private:
  void refuse(const std::string& class_name, const std::string& path, const std::string& name,
              const std::string& fact) {
    if (goes_on_without(options_, name)) return;
    lines.push_back(fmt::format("{} ({}): {}; {}", path, class_name, fact, how_to_ignore(name)));
  }

  void whole(const std::string& class_name, const std::string& path, const Json& config) {
    const auto found = only_in_training().find(class_name);
    if (!trains_ || found == only_in_training().end()) return;
    if (!found->second.empty() && is_off(config.value(found->second, Json()))) return;
    refuse(class_name, path, class_name, "works in training, where there is no form of it");
  }

  void setting(const std::string& class_name, const std::string& path, const std::string& key, const Json& value) {
    static const std::vector<std::string> sizes = words_of(kSizes);
    if (std::ranges::find(sizes, key) != sizes.end() && !are_sizes(value))
      throw Error(kBadInput, file_,
                  fmt::format("{} ({}): its {} ({}) is no number that a size can be", path, class_name, key,
                              short_text(value)));
    static const std::vector<std::string> flags = words_of(kFlags);
    const bool scales = key == "scale" && class_name.find("Normalization") != class_name.npos;
    if ((scales || std::ranges::find(flags, key) != flags.end()) && !value.is_null() && !flag_in(value))
      throw Error(
          kBadInput, file_,
          fmt::format("{} ({}): its {} ({}) is neither true nor false", path, class_name, key, short_text(value)));
    static const std::vector<std::string> numbers = words_of(kNumbers);
    if (std::ranges::find(numbers, key) != numbers.end() && !value.is_null() && !number_in(value))
      throw Error(kBadInput, file_,
                  fmt::format("{} ({}): its {} ({}) is no number", path, class_name, key, short_text(value)));
    const Rule rule = rule_of(class_name, key);
    const std::string name = class_name + "." + key;
    if (rule.use == SettingUse::kUsed && key.ends_with("_regularizer")) return penalty(class_name, path, key, value);
    if (rule.use == SettingUse::kUsed || rule.use == SettingUse::kIdle) return;
    if (value.is_null() || (rule.use == SettingUse::kTraining && !trains_)) return;
    if (rule.use == SettingUse::kUnknown)
      return refuse(class_name, path, name, fmt::format("its {} ({}) is not known", key, short_text(value)));
    if (is_off(value) || (!rule.only.empty() && (value == Json(rule.only) || value.dump() == rule.only))) return;
    refuse(class_name, path, name,
           fmt::format("its {} ({}) has no form here{}", key, short_text(value),
                       rule.use == SettingUse::kTraining ? ", where it is to be trained" : ""));
  }

  void penalty(const std::string& class_name, const std::string& path, const std::string& key, const Json& value) {
    const std::optional<Penalty> found = trains_ ? penalty_of(value) : std::nullopt;
    if (!found || found->decay) return;
    refuse(class_name, path, found->class_name,
           fmt::format("its {} {} has no form here, where it is to be trained", key, found->class_name));
  }

  // Checks the layers inside a layer: of wrappers, cells, and activations that are layers.
  void inner(const std::string& path, const Json& value, int depth) {
    if (value.is_array())
      for (const Json& each : value) inner(path, each, depth + 1);
    if (depth > kMostNested || !value.is_object() || !value.contains("class_name") || !value.contains("config")) return;
    const Json& name = value.at("class_name");
    if (!name.is_string() || is_model(name.text(), value.at("config"))) return;  // its layers are called one by one
    if (table().contains(name.text())) config(name.text(), path, value.at("config"), depth + 1);
  }

  // Checks training= of a call. In Keras 2 training=True counts in inference too, and training=False in training. Keras
  // 3 gives each layer the mode of the model's own call (keras/src/models/functional.py, operation_fn).
  void training(const Call& call, const Json& value) {
    if (!call.importer->keras2() || (!value.is_boolean() && !value.is_number())) return;
    const bool given = !is_off(value);
    const bool differs = given != options_.train;
    if (!differs || options_.settled || !training_matters(call, given)) return;
    refuse(call.class_name, call.path, call.class_name + ".training",
           fmt::format("is called with training={}, which has no form {}", given ? "True" : "False",
                       options_.train ? "in training" : "in inference"));
  }

  static bool training_matters(const Call& call, bool given) {
    if (is_model(call.class_name, call.config)) return contains_any(call.config, given, 0);
    if (call.class_name.starts_with("BatchNormalization")) return true;
    if (call.class_name == "Dropout") return given && call.real("rate", 0) > 0;  // convert_dropout reads False
    if (only_in_training().contains(call.class_name)) return given;
    for (const char* key : {"dropout", "recurrent_dropout"})
      if (call.find(key) != nullptr && call.real(key, 0) > 0) return given;
    return false;
  }

  // Returns whether a configuration has layers that `training` changes. Converters read False, except for batch norms.
  static bool contains_any(const Json& json, bool given, int depth) {
    const auto is_one = [&](const Json& each) { return contains_any(each, given, depth + 1); };
    if (depth > 4 * kMostNested) return true;
    if (json.is_array()) return std::ranges::any_of(json.elements(), is_one);
    if (!json.is_object()) return false;
    if (json.contains("class_name") && json.at("class_name").is_string()) {
      const std::string& name = json.at("class_name").text();
      if (name.starts_with("BatchNormalization")) return true;
      if (given && (name == "Dropout" || only_in_training().contains(name))) return true;
    }
    return std::ranges::any_of(json.items(), [&](const auto& item) { return is_one(item.second); });
  }

  const std::string& file_;
  const ImportOptions& options_;
  bool trains_;
};

}  // namespace

SettingUse use_of(const std::string& class_name, const std::string& key) { return rule_of(class_name, key).use; }

bool called_for_inference(const Call& call) {
  if (!call.importer->keras2()) return false;
  const Json given = call.kwargs.is_object() ? call.kwargs.value("training", Json()) : Json();
  return !given.is_null() && is_off(given);
}

bool is_off(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  return value.is_null() || ((value.is_array() || value.is_object()) && value.empty());
}

namespace {

const Json& plain(const Json& value) {
  const bool wraps = value.is_object() && value.contains("config") && value.at("config").is_object();
  return wraps && value.at("config").contains("value") ? value.at("config").at("value") : value;
}

}  // namespace

std::optional<double> number_in(const Json& value) {
  const Json& number = plain(value);
  return number.is_number() ? std::optional(number.get<double>()) : std::nullopt;
}

std::optional<bool> flag_in(const Json& value) {
  const Json& flag = plain(value);
  if (flag.is_boolean()) return flag.get<bool>();
  return flag.is_number() && (flag == Json(0) || flag == Json(1)) ? std::optional(flag == Json(1)) : std::nullopt;
}

std::string short_text(const Json& value) {
  const std::string text = value.dump();
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

std::optional<Penalty> penalty_of(const Json& regularizer) {
  if (regularizer.is_null()) return std::nullopt;
  Penalty made;
  Json config = Json::object();
  const auto wrong = [](const std::string& what, const Json& value, const char* fact) {
    throw JsonError(fmt::format("the {} ({}) of a regularizer is {}", what, short_text(value), fact), 0, false);
  };
  if (regularizer.is_string()) made.class_name = regularizer.text();
  else if (regularizer.is_object() && regularizer.contains("class_name")) {
    made.class_name = regularizer.at("class_name").text();
    const Json given = regularizer.value("config", Json());
    if (given.is_object()) config = given;
    else if (!given.is_null() && !given.is_string()) wrong("config", given, "none");
  }
  const std::string& name = made.class_name;
  const auto number = [&](const char* key, double otherwise) -> double {
    if (!config.contains(key) || config.at(key).is_null()) return otherwise;
    const std::optional<double> found = number_in(config.at(key));
    if (!found) wrong(key, config.at(key), "no number");
    return *found;
  };
  const bool both = name == "L1L2" || name == "l1_l2" || name == "l1l2";
  if (name == "L2" || name == "l2" || name == "L2Regularizer") made.decay = float(2 * number("l2", 0.01));
  else if (both && number("l1", 0) == 0) made.decay = float(2 * number("l2", 0));
  if (name == "l2") made.class_name = "L2";
  else if (name == "l1") made.class_name = "L1";
  else if (both) made.class_name = "L1L2";
  return made;
}

std::vector<std::string> refused_settings(const Importer& importer, const std::string& class_name,
                                          const std::string& path, const Json& config) {
  Judge judge(importer, importer.options().train && !importer.options().settled);
  judge.config(class_name, path, config);
  return std::move(judge.lines);
}

std::vector<std::string> refused_settings(const Call& call) {
  if (is_function(call.module)) return {};
  const ImportOptions& options = call.importer->options();
  Judge judge(*call.importer, options.train && !options.settled && call.importer->trains());
  if (!is_model(call.class_name, call.config)) judge.config(call.class_name, call.path, call.config);
  judge.arguments(call);
  return std::move(judge.lines);
}

std::vector<std::string> unread_settings(const Call& call) {
  if (!is_function(call.module)) return {};
  Judge judge(*call.importer, false);
  judge.function(call);
  return std::move(judge.lines);
}

}  // namespace nacre::tools::keras
