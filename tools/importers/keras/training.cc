// Reads loss, optimizer and optimizer state, in the words of nacre tune.
//
//   Keras                                     here
//   SGD(momentum)     u = mu u - r g          velocity = -u / r; r is the learning rate, g the gradient
//   Adam, AdamW       m, v                    first_moment, second_moment
//   RMSprop           v                       mean_square
//   Adagrad           s                       square_sum, at first initial_accumulator_value
//
// In .keras files the state is optimizer/vars: /0 is the count of steps, /1 the learning rate unless a schedule gives
// it. The moments of each variable that trains follow, together. .h5 files have names, of three kinds:
// Adam/dense/kernel/m:0 (TensorFlow to 2.10), Adam/m/dense/kernel:0 (to 2.15), adam/dense_kernel_momentum (Keras 3). A
// LossScaleOptimizer wraps another optimizer, whose state is then in optimizer/inner_optimizer/vars. The wrapper has
// its own in optimizer/vars: /2 the number of finite steps with its scale, /3 the scale.
#include "tools/importers/keras/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tools/base/option_id.h"
#include "tools/base/print.h"
#include "tools/importers/shared/ignored_settings.h"

namespace nacre::tools::keras {
namespace {

constexpr float kMostStepsTaken = 0x1p31f;
constexpr std::string_view kLossScaled = "loss_scale_optimizer/";  // also stands before the inner optimizer's name
constexpr const char* kRateOf = "optimizer.learning_rate";

float number_of(const Hdf5Dataset& d) { return d.elements() == 1 ? d.reals()[0] : NAN; }

std::string without_number(const std::string& name) {
  return name.ends_with(":0") ? name.substr(0, name.size() - 2) : name;
}

}  // namespace

SavedTraining::SavedTraining(const Json& compiled, const Hdf5File& file, const ImportOptions& options)
    : file_(&file), options_(options), compiled_(read_compiled(compiled, options)) {
  said_.loss = compiled_.loss;
  said_.optimizer = compiled_.optimizer;
  said_.schedule = compiled_.schedule;
  said_.learning_rate = compiled_.learning_rate;
  said_.clip_norm = compiled_.clip_norm;
  said_.clip_value = compiled_.clip_value;
  read_state();
  if (!said_.schedule.empty() && said_.steps > 0 && !goes_on_without(options, kRateOf))
    compiled_.refused.push_back(
        {RefusedSetting::Of::kRate,
         fmt::format("the schedule of its learning rate has gone {} steps, and would begin anew: "
                     "give a rate and a schedule; {}",
                     said_.steps, how_to_ignore(kRateOf))});
}

void SavedTraining::note(const std::string& what) {
  std::string line = printable("training: " + what);  // it holds names of the file
  std::ranges::replace(line, '\n', '?');
  notes_.push_back(std::move(line));
}

// Reads the state of a LossScaleOptimizer, if there is one. Returns the path of the state of the optimizer that steps.
std::string SavedTraining::read_loss_scale() {
  const std::string own = "optimizer/vars/", inner = "optimizer/inner_optimizer/vars/",
                    list = "optimizer_weights/loss_scale_optimizer/";
  const bool placed = file_->datasets.contains(inner + "0");
  const auto number_at = [&](const std::string& path) {
    const auto found = file_->datasets.find(path);
    return found == file_->datasets.end() ? NAN : number_of(found->second);
  };
  const float steps = number_at(placed ? own + "2" : list + "step_counter"),
              scale = number_at(placed ? own + "3" : list + "dynamic_scale");
  if (scale > 0 && scale < kInfinity) said_.loss_scale = scale;
  if (scale > 0 && steps >= 0 && steps < kMostStepsTaken) said_.steps_with_scale = uint32_t(steps);
  return placed ? inner : own;
}

void SavedTraining::read_state() {
  const std::string list = "optimizer_weights/", place = read_loss_scale();
  const auto count = [&](float value) {
    if (value >= 0 && value < kMostStepsTaken) said_.steps = uint32_t(value);
  };
  for (const auto& [path, dataset] : file_->datasets) {
    if (!path.starts_with(list)) continue;
    std::string name = without_number(path.substr(list.size()));
    if (name.starts_with(kLossScaled)) {
      name = name.substr(kLossScaled.size());
      if (name.find('/') == name.npos) continue;  // the wrapper's count and rate are not those of the steps
    }
    const size_t first = name.find('/');
    const std::string last = name.substr(name.rfind('/') + 1);
    const float value = number_of(dataset);
    if (last == "iter" || last == "iteration" || last == "iterations") count(value);
    else if (last == "learning_rate" && value > 0 && !compiled_.scheduled) said_.learning_rate = value;
    else if (first != name.npos) named_[name.substr(first + 1)] = &dataset;
  }
  for (size_t i = 0;; ++i) {
    const auto found = file_->datasets.find(place + std::to_string(i));
    if (found == file_->datasets.end()) break;
    const float value = number_of(found->second);
    if (i == 0) count(value);
    else if (i == 1 && !compiled_.scheduled && value > 0) said_.learning_rate = value;
    else placed_.push_back(&found->second);
  }
}

void SavedTraining::set_order(const std::vector<std::string>& variables) {
  bool fits = placed_.size() == variables.size() * compiled_.moments.size();
  for (size_t i = 0; fits && i < placed_.size(); ++i) {
    const auto found = file_->datasets.find(variables[i / compiled_.moments.size()]);
    fits = found != file_->datasets.end() && found->second.dims == placed_[i]->dims;
  }
  if (!fits) return note("the state of its optimizer does not fit its variables: it begins anew");
  for (size_t i = 0; i < variables.size(); ++i) order_[variables[i]] = i;
}

// Finds a moment by its name, which contains some end of the variable's path.
const Hdf5Dataset* SavedTraining::find_by_name(const std::string& variable, const Moment& moment) const {
  const std::string whole = without_number(variable);
  for (size_t at = whole.find('/'); at != whole.npos; at = whole.find('/', at + 1)) {
    const std::string name = whole.substr(at + 1);
    std::string flat = name;
    std::ranges::replace(flat, '/', '_');
    for (const std::string in_keras : moment.in_keras)
      for (const std::string& key : {name + "/" + in_keras, in_keras + "/" + name, flat + "_" + in_keras})
        if (const auto found = named_.find(key); found != named_.end()) return found->second;
  }
  return nullptr;
}

std::vector<SavedTraining::Kept> SavedTraining::moments_of(const std::string& variable,
                                                           const std::vector<int64_t>& dims) const {
  std::vector<Kept> all;
  const auto place = order_.find(variable);
  for (size_t m = 0; m < compiled_.moments.size(); ++m) {
    const Hdf5Dataset* found = place == order_.end() ? find_by_name(variable, compiled_.moments[m])
                                                     : placed_[place->second * compiled_.moments.size() + m];
    if (found == nullptr && place == order_.end()) return begun(dims);
    if (found == nullptr || found->dims != dims) return {};
    Kept kept = {compiled_.moments[m].name, found->reals()};
    const bool velocity = kept.name == "velocity";
    if (velocity && !(said_.learning_rate > 0)) return {};
    for (float& x : kept.numbers) x = velocity ? -x / said_.learning_rate : x;
    all.push_back(std::move(kept));
  }
  return all;
}

// Returns moments that do not begin at 0, for a file that has no state yet.
std::vector<SavedTraining::Kept> SavedTraining::begun(const std::vector<int64_t>& dims) const {
  std::vector<Kept> all;
  size_t elements = 1;
  for (const int64_t d : dims) elements *= size_t(d);
  for (const Moment& moment : compiled_.moments)
    if (moment.begin != 0) all.push_back({moment.name, std::vector<float>(elements, moment.begin)});
  return all;
}

std::optional<size_t> SavedTraining::find_output(const std::vector<Binding>& outputs,
                                                 const std::vector<std::string>& keys) {
  const auto place_of = [](const auto& all, const std::string& name, auto member) -> std::optional<size_t> {
    const auto found = std::ranges::find(all, name, member);
    return found == all.end() ? std::nullopt : std::optional(size_t(found - all.begin()));
  };
  if (!options_.output.empty()) return place_of(outputs, options_.output, &Binding::name);
  if (said_.loss.empty()) return std::nullopt;
  const std::string& key = compiled_.output_key;
  std::optional<size_t> place;
  if (outputs.size() == 1 && compiled_.output_place <= 0) place = 0;
  else if (!key.empty() && keys.size() == outputs.size()) place = place_of(keys, key, std::identity());
  else if (!key.empty()) place = place_of(outputs, key, &Binding::name);
  else if (compiled_.output_place >= 0) place = size_t(compiled_.output_place);
  std::string names;
  for (const Binding& output : outputs) names += (names.empty() ? "" : ", ") + output.name;
  const auto refused = [&](const std::string& fact) {
    compiled_.refused.push_back({RefusedSetting::Of::kLoss, fmt::format("{}: name the output to train with {}: {}",
                                                                        fact, option("train-output"), names)});
    return std::nullopt;
  };
  if (!place && key.empty())
    return refused("the loss that it was compiled with is of each of its outputs, and their sum has no form here");
  if (!place || *place >= outputs.size())
    return refused(fmt::format("the loss that it was compiled with is of an output {}, which it does not have",
                               key.empty() ? std::to_string(compiled_.output_place) : key));
  if (outputs.size() > 1) said_.output = outputs[*place].name;
  return place;
}

namespace {

const Node* writer_in(const Graph& graph, ValueId value) {
  const auto writes = [&](const Node& node) { return std::ranges::count(node.outputs, value) > 0; };
  const auto found = std::ranges::find_if(graph.nodes, writes);
  return found == graph.nodes.end() ? nullptr : &*found;
}

}  // namespace

// Training's cross-entropies take logits. If a softmax over the last axis or a sigmoid makes the output, training reads
// the input of that.
void SavedTraining::judge_output(const Graph& graph, const Binding& output) {
  const bool softmax = said_.loss.starts_with("softmax") || said_.loss.starts_with("dense");
  if (!softmax && !said_.loss.starts_with("sigmoid")) return;
  const Node* last = writer_in(graph, output.value);
  const std::vector<int64_t>& dims = graph.values[size_t(output.value)].dims;
  const bool found = last != nullptr && last->op == (softmax ? Op::kSoftmax : Op::kSigmoid);
  const int64_t axis = found && softmax ? get_integer(*last, "axis") : int64_t(dims.size()) - 1;
  const bool other_axis = axis + 1 != int64_t(dims.size()), probabilities = found && !other_axis;
  if (probabilities != compiled_.from_logits || goes_on_without(options_, "loss.from_logits")) return;
  const std::string how = how_to_ignore("loss.from_logits");
  compiled_.refused.push_back(
      {RefusedSetting::Of::kLoss,
       other_axis ? fmt::format("its output {} {} has the classes on axis {}, and the cross-entropy is over the last "
                                "axis: end the network with a softmax over the last axis; {}",
                                output.name, dims_text(dims), axis, how)
                  : fmt::format("its loss is compiled with from_logits={}, and its output is {} of a {}; {}",
                                compiled_.from_logits ? "True" : "False", probabilities ? "that" : "none",
                                softmax ? "softmax" : "sigmoid", how)});
}

SourceTraining SavedTraining::finish(std::map<std::string, std::map<std::string, std::vector<float>>> moments) {
  said_.refused = compiled_.refused;
  said_.moments = std::move(moments);
  if (!said_.moments.empty() && said_.steps > 0)
    note(fmt::format("the state of its optimizer ({}) is that of {} parameters after {} steps", said_.optimizer,
                     said_.moments.size(), said_.steps));
  else if (!said_.optimizer.empty() || !said_.loss.empty())
    note(fmt::format("it was compiled with {}{}{}", said_.loss,
                     said_.loss.empty() || said_.optimizer.empty() ? "" : ", ", said_.optimizer));
  return said_;
}

void Importer::resume(SavedTraining saved) { saved_ = std::make_unique<SavedTraining>(std::move(saved)); }

void Importer::keep_moments(ValueId parameter, const std::string& variable, const std::vector<int64_t>& dims,
                            const Call::Arrange& make) {
  if (saved_ == nullptr) return;
  for (SavedTraining::Kept& kept : saved_->moments_of(variable, dims))
    moments_[parameter][kept.name] = make ? make(kept.numbers) : std::move(kept.numbers);
}

void Importer::keep_float8(const Call& call, float kernel_amax, Float8State state) {
  kernel_amaxes_[call.weights.path(0)] = kernel_amax;
  float8_[call.path] = std::move(state);
}

float Importer::kernel_amax(const std::string& variable) const {
  const auto found = kernel_amaxes_.find(variable);
  return found == kernel_amaxes_.end() ? 0 : found->second;
}

float Importer::input_amax(const Call& call) const {
  const auto found = float8_.find(call.path);
  return found == float8_.end() ? 0 : found->second.x.amax();
}

// Returns the state of float8 under the names that training uses. They begin with the output of the layer's matmul.
std::map<std::string, std::vector<float>> Importer::float8_state() const {
  std::map<std::string, std::vector<float>> all;
  for (const Node& node : graph_.nodes) {
    const auto found = node.layer == kNone ? float8_.end() : float8_.find(graph_.layers[size_t(node.layer)].name);
    if (found == float8_.end() || !is_matmul(node.op)) continue;
    const std::string& y = graph_.values[size_t(node.outputs[0])].name;
    for (const auto& [of, suffix] :
         {std::pair(&found->second.x, "/x"), std::pair(&found->second.w, "/w"), std::pair(&found->second.y, "/y")}) {
      all[y + suffix + "/float8_scale"] = of->scale;
      all[y + suffix + "/amax_history"] = of->history;
    }
  }
  return all;
}

namespace {

// Returns the keys of outputs that are given as a dictionary, in Keras's order: sorted.
std::vector<std::string> keys_of_outputs(const Json& model) {
  const Json& config = model.at("config");
  const Json outputs = config.is_object() ? config.value("output_layers", Json()) : Json();
  std::vector<std::string> keys;
  if (!outputs.is_object()) return keys;
  for (const auto& [key, value] : outputs.items()) keys.push_back(key);
  std::ranges::sort(keys);
  return keys;
}

}  // namespace

void Importer::finish_training(const Json& model) {
  if (saved_ == nullptr) return;
  const auto name_of = [&](ValueId id) { return graph_.values[size_t(id)].name; };
  std::map<std::string, std::map<std::string, std::vector<float>>> by_name;
  for (auto& [id, moments] : moments_) by_name[name_of(id)] = std::move(moments);
  if (const std::optional<size_t> of = saved_->find_output(graph_.outputs, keys_of_outputs(model)))
    saved_->judge_output(graph_, graph_.outputs[*of]);
  SourceTraining training = saved_->finish(std::move(by_name));
  training.float8 = float8_state();
  for (const auto& [id, decay] : decays_)
    if (!graph_.values[size_t(id)].frozen) training.decays[name_of(id)] = decay;
  for (const auto& [id, momentum] : momenta_) training.momenta[name_of(id)] = momentum;
  graph_.training = std::make_shared<const SourceTraining>(std::move(training));
  graph_.log.insert(graph_.log.end(), saved_->notes().begin(), saved_->notes().end());
}

Importer::~Importer() = default;

}  // namespace nacre::tools::keras
