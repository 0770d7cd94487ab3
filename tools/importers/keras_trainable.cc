// Which variables train, in the order in which Keras lists them: by that .keras files tell whose state is whose.
#include <algorithm>

#include "tools/importers/keras.h"

namespace nacre::tools::keras {
namespace {

struct PartsOfLayer {
  std::vector<const char*> classes;
  std::vector<std::vector<std::string>> parts;  // each a path of groups
};
const PartsOfLayer kPartsOfLayers[] = {
    {{"LSTM", "GRU", "SimpleRNN", "CuDNNLSTM", "RNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"}, {{"cell"}}},
    {{"Bidirectional"}, {{"forward_layer", "cell"}, {"backward_layer", "cell"}}},
    {{"TimeDistributed"}, {{"layer"}}},
    {{"MultiHeadAttention", "GroupQueryAttention", "GroupedQueryAttention"},
     {{"query_dense"}, {"key_dense"}, {"gate_dense"}, {"value_dense"}, {"output_dense"}}},
};

// The cells of a StackedRNNCells: the k-th of a class has a number behind its name.
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

bool is_frozen(const Json& config) {
  if (!config.is_object() || !config.contains("trainable")) return false;
  const Json& trainable = config.at("trainable");
  return trainable.is_boolean() ? !trainable.get<bool>() : trainable.is_number() && trainable.get<double>() == 0;
}

size_t statistics_of(const std::string& class_name) {  // the last variables, which do not train
  return class_name.starts_with("BatchNormalization") ? 2 : class_name == "Normalization" ? SIZE_MAX : 0;
}

void add_variables(const Weights& weights, size_t without, std::vector<std::string>& all) {
  if (stored_mode(weights) == "float8") without = 6;  // scales and histories, which no optimizer steps
  for (size_t i = 0; i + std::min(without, weights.count()) < weights.count(); ++i)
    if (is_float_type(weights[i].type)) all.push_back(weights.path(i));
}

}  // namespace

void Importer::list_trainable(const Json& model, const Weights& weights, std::vector<std::string>& all) {
  const Json& config = model.at("config");
  if (++depth_ > kMostNested) throw Error(kUnsupported, name_, "nests models deeper than 32");
  for (const Entry& entry : entries(config.is_array() ? config : config.at("layers"), weights)) {
    if (is_frozen(entry.config)) continue;
    if (is_model(entry.class_name, entry.config)) {
      list_trainable({{"class_name", entry.class_name}, {"config", entry.config}}, entry.weights, all);
      continue;
    }
    const auto* parts = std::ranges::find_if(kPartsOfLayers, [&](const PartsOfLayer& row) {
      return std::ranges::any_of(row.classes, [&](const char* name) { return entry.class_name == name; });
    });
    if (parts == std::end(kPartsOfLayers) || entry.weights.count() > 0) {
      add_variables(entry.weights, statistics_of(entry.class_name), all);
      continue;
    }
    const auto cells = stacked_cells(entry.config);
    for (const std::vector<std::string>& path : cells.empty() ? parts->parts : cells) {
      Weights part = entry.weights;
      for (const std::string& name : path) part = part.part({name, "_" + name}, 0, SIZE_MAX);
      add_variables(part, 0, all);
    }
  }
  --depth_;
}

}  // namespace nacre::tools::keras
