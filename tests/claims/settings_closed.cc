// Claim: no setting of a Keras file is silently ignored or changed. tests/peers/keras_settings.json has each class of
// Keras with every argument off its default, one at a time. It says whether Keras then computes something else, in
// inference and in a step of training. Each setting must pass one of three tests. The importer uses the setting, so
// that its graph differs; or the importer refuses the setting by name; or Keras itself computes the same with it. If
// the table does not know the effect, the setting is only counted. A key that the importer's tables lack fails.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/claims/claims.h"
#include "tests/importers/keras_builder.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/graph/source_training.h"
#include "tools/importers/keras/files.h"
#include "tools/importers/keras/settings.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

// The result of an import: the graph and the settings that training gets, or the refusal.
struct Outcome {
  bool refused = false;
  std::string text;
};

std::string text_of(const SourceTraining& said) {
  std::string text = said.loss + "|" + said.optimizer + "|" + said.schedule + "|" + std::to_string(said.learning_rate) +
                     "|" + std::to_string(said.clip_norm) + "|" + std::to_string(said.clip_value) + "\n";
  for (const RefusedSetting& setting : said.refused) text += setting.fact + "\n";
  for (const auto& [name, decay] : said.decays) text += name + " decays " + std::to_string(decay) + "\n";
  for (const auto& [name, momentum] : said.momenta) text += name + " follows " + std::to_string(momentum) + "\n";
  for (const auto& [name, kept] : said.moments)
    for (const auto& [moment, numbers] : kept) text += name + " " + moment + " " + std::to_string(numbers.at(0)) + "\n";
  return text;
}

Outcome import(const Json& config, const std::vector<KerasVariable>& variables, bool train) {
  try {
    const Graph graph = import_keras_archive(keras_archive(config.dump(), variables), "m.keras", {.train = train});
    return {false, dump(graph) + (graph.training == nullptr ? "" : text_of(*graph.training))};
  } catch (const Error& error) {
    return {true, error.what()};
  }
}

std::vector<KerasVariable> variables_of(const Json& listed) {
  std::vector<KerasVariable> all;
  float next = 0;
  for (const Json& each : listed) {
    KerasVariable v;
    v.path = each.at(size_t(0)).text();
    size_t elements = 1;
    for (const Json& d : each.at(size_t(1))) v.dims.push_back(d.get<hsize_t>()), elements *= v.dims.back();
    for (size_t i = 0; i < elements; ++i) v.numbers.push_back(0.25f + std::fmod(next += 0.37f, 1.0f));
    const std::string type = each.at(size_t(2)).text();
    if (type.starts_with("int64") || type.starts_with("uint")) v.type = KerasVariable::kInt64;
    all.push_back(std::move(v));
  }
  return all;
}

// Returns the configuration of the layer of this name in a model's configuration.
Json& layer_in(Json& model, const std::string& name) {
  Json& layers = model.at("config").at("layers");
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers.at(i).at("config").at("name") == Json(name)) return layers.at(i).at("config");
  throw Error(kBadInput, "keras_settings.json", "has no layer " + name);
}

class Count {
 public:
  // Judges the effect of an argument. `matters` says whether Keras computes something else with it; null: unknown.
  void judge(const std::string& what, const Json& matters, const Outcome& before, const Outcome& after,
             const std::string& class_name, const std::string& key) {
    ++cases_;
    if (after.refused) {
      const bool named = after.text.find("--ignore-setting ") != after.text.npos ||
                         after.text.find(class_name) != after.text.npos || after.text.find(key) != after.text.npos;
      return named ? void(++refused_) : fail(what + " is refused without its name: " + after.text);
    }
    const bool same = !before.refused && before.text == after.text;
    if (matters.is_null()) ++unknown_;
    else if (!same) ++used_;
    else if (!matters.get<bool>()) ++idle_;
    else fail(what + " is silently different");
  }
  void key(const std::string& class_name, const std::string& key) {
    ++keys_;
    if (keras::use_of(class_name, key) == keras::SettingUse::kUnknown)
      fail(class_name + "." + key + " stands in no table of the importer");
  }
  void fail(const std::string& why) {
    if (failures_++ < 100) std::fprintf(stderr, "settings_closed: %s\n", why.c_str());
  }

  int report(size_t classes) const {
    if (failures_ > 0) return std::printf("CLAIM settings_closed NOT SHOWN: %d of %d settings\n", failures_, cases_), 1;
    std::printf(
        "CLAIM settings_closed shown: %zu classes, %d keys, %d settings off their defaults in inference and in "
        "training: "
        "%d used, %d without effect, %d refused by name, %d that Keras itself does not take, 0 silently different\n",
        classes, keys_, cases_, used_, idle_, refused_, unknown_);
    return 0;
  }

 private:
  int cases_ = 0, keys_ = 0, used_ = 0, idle_ = 0, refused_ = 0, unknown_ = 0, failures_ = 0;
};

void judge_layer(const std::string& name, const Json& row, Count& count) {
  const std::vector<KerasVariable> variables = variables_of(row.at("variables"));
  Json base = row.at("config");
  for (const auto& [key, value] : layer_in(base, "layer").items()) count.key(name, key);
  const Outcome infers = import(base, variables, false), trains = import(base, variables, true);
  for (const Json& each : row.at("cases")) {
    Json model = base;
    std::string keys;
    for (const auto& [key, value] : each.at("set").items()) {
      layer_in(model, "layer")[key] = value;
      count.key(name, key);
      keys = key;
    }
    const std::vector<KerasVariable> own = each.contains("variables") ? variables_of(each.at("variables")) : variables;
    const std::string what = name + "(" + each.at("argument").text() + ")";
    count.judge(what + " in inference", each.at("infers"), infers, import(model, own, false), name, keys);
    count.judge(what + " in training", each.at("trains"), trains, import(model, own, true), name, keys);
  }
}

// Makes a model of one Dense layer. `object` is a part of the layer's configuration, or of what the model was
// compiled with.
Json dense_with(const Json& table, const std::string& kind, const Json& object) {
  Json model = table.at("dense").at("config");
  Json loss = "mean_squared_error", optimizer = {{"class_name", "SGD"}, {"config", {{"learning_rate", 0.125}}}};
  if (kind == "losses") loss = object;
  if (kind == "optimizers") optimizer = object;
  if (kind == "schedules") optimizer["config"]["learning_rate"] = object;
  if (kind == "regularizers") layer_in(model, "dense")["kernel_regularizer"] = object;
  if (kind == "constraints") layer_in(model, "dense")["kernel_constraint"] = object;
  model["compile_config"] = {{"optimizer", optimizer}, {"loss", loss}, {"loss_weights", nullptr}};
  return model;
}

// Returns whether the import refused, or its text says that a class or a setting is not taken.
bool is_refused(const Outcome& outcome) {
  return outcome.refused || outcome.text.find("--ignore-setting") != outcome.text.npos ||
         outcome.text.find("has no form here") != outcome.text.npos;
}

void judge_compiled(const Json& table, const std::string& kind, const std::string& name, const Json& row,
                    Count& count) {
  const std::vector<KerasVariable> variables = variables_of(table.at("dense").at("variables"));
  const Outcome plain = import(dense_with(table, kind, row.at("made")), variables, true);
  const Outcome without = import(dense_with(table, "", nullptr), variables, true);
  // The class itself must be used: its model must differ from the one without it, but for MeanSquaredError and SGD,
  // which that model has too, and regularizers.
  if (!is_refused(plain) && plain.text == without.text && name != "MeanSquaredError" && name != "SGD" &&
      kind != "regularizers" && row.at("cases").size() > 0)
    count.fail(name + " is taken for what the file does not say");
  for (const Json& each : row.at("cases")) {
    Json object = row.at("made");
    for (const auto& [key, value] : each.at("set").items()) object["config"][key] = value;
    Outcome after = import(dense_with(table, kind, object), variables, true);
    const std::string argument = each.at("argument").text();
    if (!after.refused && is_refused(after) && (is_refused(plain) || after.text.find(argument) != after.text.npos))
      after = {true, name + " " + after.text};
    count.judge(name + "(" + argument + ")", each.at("trains"), plain, after, name, argument);
  }
}

}  // namespace

NACRE_CLAIM(settings_closed) {
  const char* const root = std::getenv("NACRE_ROOT");
  std::ifstream file(std::string(root == nullptr ? "." : root) + "/tests/peers/keras_settings.json");
  const Json table = Json::parse(file);
  Count all;
  size_t classes = 0;
  for (const auto& [name, row] : table.at("layers").items()) judge_layer(name, row, all), ++classes;
  for (const char* kind : {"losses", "optimizers", "schedules", "regularizers", "constraints"})
    for (const auto& [name, row] : table.at(kind).items()) judge_compiled(table, kind, name, row, all), ++classes;
  return all.report(classes);
}

}  // namespace nacre::test
