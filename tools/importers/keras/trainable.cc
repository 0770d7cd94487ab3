// Decides which layers are frozen, and lists the variables that train, in the order of the optimizer's state (.keras).
#include <re2/re2.h>

#include <algorithm>

#include "tools/base/option_id.h"
#include "tools/importers/keras/settings.h"

namespace nacre::tools::keras {
namespace {

struct PartsOfLayer {
  std::vector<const char*> classes;
  std::vector<std::vector<std::string>> parts;  // each part is a path of groups
};
const PartsOfLayer kPartsOfLayers[] = {
    {{"LSTM", "GRU", "SimpleRNN", "CuDNNLSTM", "RNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"}, {{"cell"}}},
    {{"Bidirectional"}, {{"forward_layer", "cell"}, {"backward_layer", "cell"}}},
    {{"TimeDistributed"}, {{"layer"}}},
    {{"MultiHeadAttention", "GroupQueryAttention", "GroupedQueryAttention"},
     {{"query_dense"}, {"key_dense"}, {"gate_dense"}, {"value_dense"}, {"output_dense"}}},
};

// Returns the groups of the cells of a StackedRNNCells. Further cells of a class have _1, _2, .. after the name.
std::vector<std::vector<std::string>> stacked_cells(const Json& config) {
  std::vector<std::vector<std::string>> all;
  if (!config.is_object() || !config.contains("cell") || !config.at("cell").is_object()) return all;
  const Json cell = config.at("cell").value("config", Json());
  if (!cell.is_object() || !cell.contains("cells")) return all;
  std::map<std::string, int> taken;
  for (const Json& each : cell.at("cells")) {
    const std::string group = snake_case(each.at("class_name").text());
    const int k = taken[group]++;
    all.push_back({"cell", "cells/" + group + (k == 0 ? "" : "_" + std::to_string(k))});
  }
  return all;
}

std::optional<bool> trainable_of(const Json& config, const std::string& file) {
  if (!config.is_object() || !config.contains("trainable")) return std::nullopt;
  const Json& trainable = config.at("trainable");
  const std::optional<bool> flag = flag_in(trainable);
  if (flag) return flag;
  const Json name = config.value("name", Json());
  throw Error(kBadInput, file,
              (name.is_string() ? name.text() + ": " : "") + "its trainable (" + short_text(trainable) +
                  ") is neither true nor false");
}

// Returns the configuration of the layer that made part i of the variables: the layer in a wrapper, or cell i.
const Json& inner_config(const Json& config, size_t i) {
  if (!config.is_object()) return config;
  for (const char* key : {i == 1 ? "backward_layer" : "layer", "layer", "cell"}) {
    if (!config.contains(key) || !config.at(key).is_object() || !config.at(key).contains("config")) continue;
    const Json& inner = config.at(key).at("config");
    if (!inner.is_object() || !inner.contains("cells")) return inner_config(inner, 0);
    return i < inner.at("cells").size() ? inner.at("cells").at(i).at("config") : inner;
  }
  return config;
}

size_t statistics_of(const std::string& class_name) {  // number of variables at the end that do not train
  return class_name.starts_with("BatchNormalization") ? 2 : class_name == "Normalization" ? SIZE_MAX : 0;
}

void add_variables(const Weights& weights, size_t without, std::vector<std::string>& all) {
  if (stored_mode(weights) == "float8") without = 6;  // scales and histories, for which no optimizer keeps moments
  for (size_t i = 0; i + std::min(without, weights.count()) < weights.count(); ++i)
    if (is_float_type(weights[i].type)) all.push_back(weights.path(i));
}

}  // namespace

void Importer::require_patterns() const {
  for (const std::string& pattern : options_.unfreeze)
    if (const RE2 made(pattern, RE2::Quiet); !made.ok())
      throw Error(kUsage, option("unfreeze"), "'" + pattern + "' is no pattern: " + made.error());
}

// Returns whether the file freezes a layer. Keras 3 asks the variables, which have the flag of the layer that made
// them. So a wrapper or model that alone is frozen freezes nothing inside. (Setting `trainable` of a wrapper or model
// sets it for all inside.) Keras 2 asks the layers around first. A model that is frozen as a whole trains nothing in
// either version.
bool Importer::file_freezes(const Json& config, bool inherited) const {
  const std::optional<bool> trainable = trainable_of(config, name_);
  if (all_frozen_ || !trainable) return all_frozen_ || inherited;
  return !*trainable || (keras2() && inherited);
}

bool Importer::is_frozen(const Json& config, bool inherited, const std::string& path) {
  if (!file_freezes(config, inherited)) return false;
  bool unfrozen = false;
  for (const std::string& pattern : options_.unfreeze)
    for (size_t end = 0; end != std::string::npos;) {
      end = path.find('/', end + 1);
      if (pattern != "all" && !RE2::FullMatch(path.substr(0, end), pattern)) continue;
      unfrozen_.insert(pattern);
      unfrozen = true;
    }
  return !unfrozen;
}

void Importer::require_frozen() const {
  for (const std::string& pattern : options_.unfreeze)
    if (!unfrozen_.contains(pattern))
      throw Error(kUsage, option("unfreeze"), "'" + pattern + "' matches no layer that the file freezes",
                  "nacre inspect NETWORK says what it freezes");
}

void Importer::keep_form(const std::string& variable, int64_t stored_elements, ValueId made) {
  forms_[variable].first = stored_elements;
  forms_[variable].second.push_back(made);
}

// Refuses a variable that was made into several constants which together have more elements: training would let them
// differ. Forms that split the variable (the gates of a recurrence) train like the variable itself.
void Importer::require_one_form() {
  for (const auto& [variable, forms] : forms_) {
    const auto& [stored, made] = forms;
    int64_t elements = 0;
    for (const ValueId id : made) elements += graph_.values[size_t(id)].elements();
    if (made.size() < 2 || elements <= stored || graph_.values[size_t(made[0])].frozen) continue;
    problem(graph_.values[size_t(made[0])].name +
            ": is read in several forms, which training could not keep equal: give each call a layer of its own");
  }
}

void Importer::list_trainable(const Json& model, const Weights& weights, bool frozen, std::vector<std::string>& all) {
  const Json& config = model.at("config");
  if (++depth_ > kMostNested) throw Error(kUnsupported, name_, "nests models deeper than 32");
  for (const Entry& entry : entries(config.is_array() ? config : config.at("layers"), weights)) {
    const bool stays = file_freezes(entry.config, frozen);
    if (is_model(entry.class_name, entry.config)) {
      list_trainable({{"class_name", entry.class_name}, {"config", entry.config}}, entry.weights, stays, all);
      continue;
    }
    const auto* parts = std::ranges::find_if(kPartsOfLayers, [&](const PartsOfLayer& row) {
      return std::ranges::any_of(row.classes, [&](const char* name) { return entry.class_name == name; });
    });
    if (parts == std::end(kPartsOfLayers) || entry.weights.count() > 0) {
      if (!file_freezes(inner_config(entry.config, 0), stays))
        add_variables(entry.weights, statistics_of(entry.class_name), all);
      continue;
    }
    const auto cells = stacked_cells(entry.config);
    const auto& paths = cells.empty() ? parts->parts : cells;
    for (size_t i = 0; i < paths.size(); ++i) {
      if (file_freezes(inner_config(entry.config, i), stays)) continue;
      Weights part = entry.weights;
      for (const std::string& name : paths[i]) part = part.part({name, "_" + name}, 0, SIZE_MAX);
      add_variables(part, 0, all);
    }
  }
  --depth_;
}

}  // namespace nacre::tools::keras
