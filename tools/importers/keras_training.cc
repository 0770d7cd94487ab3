// Loss, optimizer and optimizer state, in the words of nacre tune.
//
//   Keras                                     here
//   SGD(momentum)     u = mu u - r g          velocity = -u / r, of the rate r that was the last
//   Adam, AdamW       m, v                    first_moment, second_moment
//   RMSprop           v                       mean_square
//   Adagrad           s                       square_sum
//   kernel_regularizer L2(l)                  weight_decay 2 l of an optimizer that adds it to the gradient
//
// State in .keras files:  optimizer/vars/0 the count of steps, /1 the learning rate unless a schedule gives it, then
// the moments of each variable that trains, together. In .h5 files by names, of which there are three kinds:
// Adam/dense/kernel/m:0 (TensorFlow to 2.10), Adam/m/dense/kernel:0 (to 2.15), adam/dense_kernel_momentum (Keras 3).
// A LossScaleOptimizer is around another: then the latter's are in optimizer/inner_optimizer/vars, and its own in
// optimizer/vars: .., .., the finite steps with its scale, the scale.
#include "tools/importers/keras_training.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "tools/base/print.h"

namespace nacre::tools::keras {
namespace {

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

const Json* find(const Json& json, const char* key) {
  if (!json.is_object() || !json.contains(key) || json.at(key).is_null()) return nullptr;
  return &json.at(key);
}

double number(const Json& json, const char* key, double otherwise) {
  const Json* found = find(json, key);
  return found != nullptr && found->is_number() ? found->get<double>() : otherwise;
}

bool is_set(const Json& json, const char* key) {
  const Json* found = find(json, key);
  return found != nullptr && ((found->is_boolean() && found->get<bool>()) || number(json, key, 0) != 0);
}

// Shortest text that gives the same float32.
std::string text_of(double x) { return fmt::format("{}", float(x)); }

// {"class_name": .., "config": {..}}, or a name alone.
struct NamedConfig {
  std::string name;
  Json config = Json::object();
};
NamedConfig named_config(const Json& json) {
  if (json.is_string()) return {json.text(), Json::object()};
  const Json *const name = find(json, "class_name"), *const config = find(json, "config");
  if (name == nullptr || !name->is_string()) return {};
  const std::string whole = name->text();  // a subclass is "Custom>Adam"
  NamedConfig made = {whole.substr(whole.find('>') + 1), Json::object()};
  if (config != nullptr && config->is_object()) made.config = *config;
  if (config != nullptr && config->is_string()) made.name = config->text();  // a function
  return made;
}

struct LossName {
  std::vector<const char*> in_keras;  // without '_', in lower case
  const char* name;
};
const LossName kLossNames[] = {
    {{"sparsecategoricalcrossentropy"}, "softmax_cross_entropy"},
    {{"categoricalcrossentropy"}, "dense_cross_entropy"},
    {{"binarycrossentropy"}, "sigmoid_cross_entropy"},
    {{"meansquarederror", "mse"}, "squared_error"},
    {{"meanabsoluteerror", "mae"}, "absolute_error"},
    {{"huber", "huberloss"}, "huber"},
};

constexpr float kMostStepsTaken = 0x1p31f;

float number_of(const Hdf5Dataset& d) { return d.elements() == 1 ? d.reals()[0] : NAN; }

std::string without_number(const std::string& name) {
  return name.ends_with(":0") ? name.substr(0, name.size() - 2) : name;
}

}  // namespace

SavedTraining::SavedTraining(const Json& compiled, const Hdf5File& file) : file_(&file) {
  if (const Json* loss = find(compiled, "loss")) read_loss(*loss);
  for (const char* key : {"optimizer", "optimizer_config"})
    if (const Json* optimizer = find(compiled, key)) {
      NamedConfig found = named_config(*optimizer);
      if (lower_case(found.name) == "lossscaleoptimizer")  // around the one that steps
        for (const char* inner : {"inner_optimizer", "optimizer"})
          if (const Json* of = find(found.config, inner)) {
            found = named_config(*of);
            break;
          }
      read_optimizer(lower_case(found.name), found.config);
    }
  read_state();
}

void SavedTraining::note(const std::string& what) {
  std::string line = printable("training: " + what);  // with names of the file
  std::ranges::replace(line, '\n', '?');
  notes_.push_back(std::move(line));
}

void SavedTraining::read_loss(const Json& json) {
  const NamedConfig loss = named_config(json.is_array() && json.size() == 1 ? json.at(size_t(0)) : json);
  std::string bare = lower_case(loss.name);
  std::erase(bare, '_');
  for (const LossName& row : kLossNames)
    if (std::ranges::any_of(row.in_keras, [&](const char* name) { return bare == name; })) said_.loss = row.name;
  if (said_.loss.empty()) return note("the loss " + loss.name + " that it was compiled with has no form here");
  if (const double smoothing = number(loss.config, "label_smoothing", 0); smoothing != 0)
    said_.loss += ",label_smoothing=" + text_of(smoothing);
  if (said_.loss == "huber") said_.loss += ",delta=" + text_of(number(loss.config, "delta", 1));
}

void SavedTraining::read_optimizer(const std::string& name, const Json& config) {
  const double decay = number(config, "weight_decay", 0), momentum = number(config, "momentum", 0);
  const bool adam = name == "adam" || name == "adamw";
  std::string text;
  if (adam) {
    text = fmt::format("{},beta1={},beta2={},epsilon={}", decay != 0 ? "adamw" : name,
                       text_of(number(config, "beta_1", 0.9)), text_of(number(config, "beta_2", 0.999)),
                       text_of(number(config, "epsilon", 1e-7)));
    moments_ = {{"first_moment", {"m", "momentum"}}, {"second_moment", {"v", "velocity"}}};
  } else if (name == "sgd" && momentum != 0) {
    text = fmt::format("{},momentum={}", is_set(config, "nesterov") ? "nesterov" : "momentum", text_of(momentum));
    moments_ = {{"velocity", {"momentum", "m"}}};
  } else if (name == "sgd") {
    text = "sgd";
  } else if (name == "rmsprop") {
    text = fmt::format("rmsprop,alpha={},epsilon={},epsilon_in_root=1", text_of(number(config, "rho", 0.9)),
                       text_of(number(config, "epsilon", 1e-7)));
    moments_ = {{"mean_square", {"rms", "velocity"}}};
  } else if (name == "adagrad") {
    text = fmt::format("adagrad,epsilon={},epsilon_in_root=1", text_of(number(config, "epsilon", 1e-7)));
    moments_ = {{"square_sum", {"accumulator"}}};
  }
  std::string other;
  for (const char* key : {"amsgrad", "centered", "decay", "clipnorm", "use_ema", "gradient_accumulation_steps"})
    if (is_set(config, key)) other = key;
  if (name == "rmsprop" && momentum != 0) other = "momentum";
  if (decay != 0 && !adam) other = "weight_decay";
  if (text.empty() || !other.empty()) {
    moments_.clear();
    return note(fmt::format("its optimizer {}{} has no form here", name, other.empty() ? "" : " with " + other));
  }
  if (decay != 0) text += ",weight_decay=" + text_of(decay) + ",decay_all=1";
  known_ = true;
  said_.optimizer = text;
  said_.clip_norm = float(number(config, "global_clipnorm", 0));
  said_.clip_value = float(number(config, "clipvalue", 0));
  const Json* rate = find(config, "learning_rate");
  scheduled_ = rate != nullptr && rate->is_object();
  if (scheduled_) note("the schedule of its learning rate is not read: give --lr and --schedule");
  said_.learning_rate = float(number(config, "learning_rate", 0));
}

// Gives the group of the optimizer that steps.
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
    const std::string name = without_number(path.substr(list.size()));
    if (name.starts_with("loss_scale_optimizer/")) continue;  // its count and its rate are not those of the steps
    const size_t first = name.find('/');
    const std::string last = name.substr(name.rfind('/') + 1);
    const float value = number_of(dataset);
    if (last == "iter" || last == "iteration" || last == "iterations") count(value);
    else if (last == "learning_rate" && value > 0) said_.learning_rate = value;
    else if (first != name.npos) named_[name.substr(first + 1)] = &dataset;
  }
  for (size_t i = 0;; ++i) {
    const auto found = file_->datasets.find(place + std::to_string(i));
    if (found == file_->datasets.end()) break;
    const float value = number_of(found->second);
    if (i == 0) count(value);
    else if (i == 1 && !scheduled_ && value > 0) said_.learning_rate = value;
    else placed_.push_back(&found->second);
  }
}

void SavedTraining::set_order(const std::vector<std::string>& variables) {
  bool fits = placed_.size() == variables.size() * moments_.size();
  for (size_t i = 0; fits && i < placed_.size(); ++i) {
    const auto found = file_->datasets.find(variables[i / moments_.size()]);
    fits = found != file_->datasets.end() && found->second.dims == placed_[i]->dims;
  }
  if (!fits) return note("the state of its optimizer does not fit its variables: it begins anew");
  for (size_t i = 0; i < variables.size(); ++i) order_[variables[i]] = i;
}

// The name of a variable is some end of its path.
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
  for (size_t m = 0; m < moments_.size(); ++m) {
    const Hdf5Dataset* found =
        place == order_.end() ? find_by_name(variable, moments_[m]) : placed_[place->second * moments_.size() + m];
    if (found == nullptr || found->dims != dims) return {};
    Kept kept = {moments_[m].name, found->reals()};
    const bool velocity = kept.name == "velocity";
    if (velocity && !(said_.learning_rate > 0)) return {};
    for (float& x : kept.numbers) x = velocity ? -x / said_.learning_rate : x;
    all.push_back(std::move(kept));
  }
  return all;
}

// Keras regularizes by variable, here whole layers decay but for their biases: those whose matrices have all the same.
void SavedTraining::add_layer(const std::string& class_name, const std::string& path, const Json& config) {
  if (!config.is_object()) return;
  if (class_name.starts_with("BatchNormalization")) momenta_.push_back(float(number(config, "momentum", 0.99)));
  for (const char* inner : {"layer", "backward_layer"})  // of Bidirectional, TimeDistributed
    if (const Json* wrapped = find(config, inner))
      if (const Json* of = find(*wrapped, "config")) add_layer("", path, *of);
  std::set<float> decays;
  for (const auto& [key, value] : config.items()) {
    constexpr std::string_view kEnd = "_regularizer";
    if (!std::string_view(key).ends_with(kEnd)) continue;
    const std::string of = std::string(key).substr(0, key.size() - kEnd.size());
    const NamedConfig found = value.is_null() ? NamedConfig() : named_config(value);
    const double standard = value.is_string() && lower_case(found.name) == "l2" ? 0.01 : 0;
    const double l2 = number(found.config, "l2", standard);
    const bool matrix =
        of == "kernel" || of == "recurrent" || of == "embeddings" || of == "depthwise" || of == "pointwise";
    if (matrix) decays.insert(float(2 * l2));
    if (!value.is_null() && (!matrix || number(found.config, "l1", 0) != 0 || l2 == 0))
      note(fmt::format("{} of {} is left out of the loss", key, path));
  }
  if (decays.size() > 1) note(fmt::format("the regularizers of {} differ: they are left out of the loss", path));
  else if (!decays.empty() && *decays.begin() > 0) decays_[path] = *decays.begin();
}

SourceTraining SavedTraining::finish(std::map<std::string, std::map<std::string, std::vector<float>>> moments,
                                     const std::set<std::string>& layers) {
  std::set<float> decays;
  for (const auto& [path, decay] : decays_) decays.insert(decay);
  if (decays.size() > 1 || (!decays.empty() && said_.optimizer.find("weight_decay") != std::string::npos))
    note("its layers have different L2 regularizers: they are left out of the loss");
  else if (!decays.empty() && known_) {
    said_.optimizer += ",weight_decay=" + text_of(*decays.begin());
    for (const std::string& layer : layers) {
      const auto is_of = [&](const auto& of) { return layer == of.first || layer.starts_with(of.first + "/"); };
      if (std::ranges::none_of(decays_, is_of)) said_.no_decay.push_back(RE2::QuoteMeta(layer));
    }
  }
  if (!momenta_.empty() && std::ranges::count(momenta_, momenta_[0]) == ptrdiff_t(momenta_.size()))
    said_.batch_norm_momentum = momenta_[0];
  else if (!momenta_.empty()) note("its batch norms have different momenta: give --batch-norm-momentum");
  said_.moments = std::move(moments);
  if (!said_.moments.empty())
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

// Named as training names them, after the output of the layer's product.
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

void Importer::finish_training() {
  if (saved_ == nullptr) return;
  std::map<std::string, std::map<std::string, std::vector<float>>> by_name;
  for (auto& [id, moments] : moments_) by_name[graph_.values[size_t(id)].name] = std::move(moments);
  std::set<std::string> layers;  // that have a matrix
  for (const Node& node : graph_.nodes)
    for (const ValueId id : node.inputs)
      if (id != kNone && node.layer != kNone && graph_.values[size_t(id)].constant() &&
          graph_.values[size_t(id)].dims.size() > 1 && !graph_.values[size_t(id)].fixed)
        layers.insert(graph_.layers[size_t(node.layer)].name);
  SourceTraining training = saved_->finish(std::move(by_name), layers);
  training.float8 = float8_state();
  graph_.training = std::make_shared<const SourceTraining>(std::move(training));
  graph_.log.insert(graph_.log.end(), saved_->notes().begin(), saved_->notes().end());
}

Importer::~Importer() = default;

}  // namespace nacre::tools::keras
