// Converts models: decides which layer is called with what. A Functional model says this per call (inbound_nodes, as
// Keras 2 and 3 write them), a Sequential one by its order. A model may be a layer of another.
#include <algorithm>
#include <utility>

#include "tools/importers/keras/importer.h"
#include "tools/importers/keras/own_class.h"
#include "tools/importers/keras/settings.h"
#include "tools/importers/keras/training.h"

namespace nacre::tools::keras {
namespace {

constexpr size_t kMostCalls = 20000;

// Returns the shape of an input, null if there is none. Versions of Keras use different keys for it.
const Json* shape_of(const Json& entry) {
  const Json& config = entry.at("config");
  for (const char* key : {"batch_shape", "batch_input_shape"})
    if (config.is_object() && config.contains(key) && config.at(key).is_array()) return &config.at(key);
  return nullptr;
}

Reference reference_of(const Json& json) {
  return {json.at(size_t(0)).text(), json.at(size_t(1)).get<int64_t>(), json.at(size_t(2)).get<int64_t>()};
}

bool is_of_class(const Json& json, const char* class_name) {
  return json.is_object() && json.contains("class_name") && json.at("class_name") == Json(class_name);
}

bool is_tensor(const Json& json) { return is_of_class(json, "__keras_tensor__"); }
bool is_array(const Json& json) { return is_of_class(json, "__numpy__") || is_of_class(json, "__tensor__"); }

uint64_t bytes_of(const Json& json) {
  uint64_t bytes = sizeof(Json);
  if (json.is_string()) bytes += json.text().size();
  if (json.is_array() || json.is_object())
    for (const Json& each : json) bytes += bytes_of(each);
  return bytes;
}

void collect_references(const Json& json, std::vector<Reference>& found) {
  if (is_reference(json)) return found.push_back(reference_of(json));
  if (json.is_array())
    for (const Json& element : json) collect_references(element, found);
  if (!json.is_object()) return;
  std::vector<std::pair<std::string, const Json*>> items;  // Keras takes a dictionary's values by sorted keys
  for (const auto& [key, value] : json.items()) items.emplace_back(key, &value);
  std::sort(items.begin(), items.end());
  for (const auto& [key, value] : items) collect_references(*value, found);
}

}  // namespace

bool is_model(const std::string& class_name, const Json& config) {
  if (class_name == "Functional" || class_name == "Model" || class_name == "Sequential") return true;
  return config.is_object() && config.contains("layers") && config.at("layers").is_array();
}

bool is_reference(const Json& json) {
  return json.is_array() && json.size() >= 3 && json.at(size_t(0)).is_string() &&
         json.at(size_t(1)).is_number_integer() && json.at(size_t(2)).is_number_integer();
}

// Adds the calls that an argument reads tensors of. Keras 2 puts keyword arguments after a tensor.
void add_reads(const Json& json, std::set<Reference>& reads) {
  if (is_reference(json)) {
    const Reference of = reference_of(json);
    reads.insert({of.layer, of.node, 0});
    if (json.size() > 3) add_reads(json.at(size_t(3)), reads);
  } else if (json.is_array() || json.is_object()) {
    for (const Json& each : json) add_reads(each, reads);
  }
}

bool is_operand(const Json& json) { return is_reference(json) || is_tensor(json) || is_array(json); }

std::vector<Reference> references(const Json& json) {
  std::vector<Reference> found;
  collect_references(json, found);
  return found;
}

std::vector<Importer::Entry> Importer::entries(const Json& layers, const Weights& weights) {
  if (!layers.is_array() || layers.size() > kMostCalls) throw Error(kBadInput, name_, "its list of layers is none");
  std::vector<Entry> all;
  std::vector<std::pair<std::string, std::string>> names;
  for (const Json& layer : layers) {
    Entry entry;
    entry.class_name = layer.at("class_name").text();
    entry.config = layer.at("config");
    if (layer.contains("module") && layer.at("module").is_string()) entry.module = layer.at("module").text();
    if (const std::string own = own_class(layer); !own.empty()) entry.module = own;
    if (layer.contains("name") && layer.at("name").is_string()) entry.name = layer.at("name").text();
    else if (!own_class(layer).empty() && !entry.config.contains("name")) entry.name = entry.class_name;
    else if (entry.config.is_object()) entry.name = entry.config.at("name").text();
    if (const Json* shape = shape_of(layer); shape != nullptr) entry.config["batch_shape"] = *shape;
    if (layer.contains("build_config") && layer.at("build_config").is_object() &&
        layer.at("build_config").contains("input_shape"))
      entry.config["__input_shape"] = layer.at("build_config").at("input_shape");
    if (layer.contains("inbound_nodes"))
      for (const Json& node : layer.at("inbound_nodes")) entry.nodes.push_back(node);
    if (entry.module.empty() && is_function(entry.class_name, entry.config)) entry.module = "keras.ops";
    entry.bytes = bytes_of(entry.config);
    names.emplace_back(entry.name, entry.class_name);
    all.push_back(std::move(entry));
  }
  std::vector<Weights> of = weights.layers(names);
  for (size_t i = 0; i < all.size(); ++i) all[i].weights = std::move(of[i]);
  return all;
}

Call Importer::call_of(const Entry& entry, const std::string& path) {
  if (++calls_ > kMostCalls) throw Error(kUnsupported, name_, "calls layers more than 20000 times");
  graph_.budget.take(entry.bytes, name_ + ": " + path + entry.name, "the configurations of all calls of layers",
                     "give a model that calls less");
  Call call;
  call.importer = this;
  call.class_name = entry.class_name;
  call.module = entry.module;
  call.name = entry.name;
  call.path = path + entry.name;
  call.config = entry.config;
  call.weights = entry.weights;
  call.frozen = is_frozen(entry.config, model_frozen_, call.path);
  return call;
}

// Finds the tensors in an argument, in order. Arrays in the configuration become constants.
void Importer::collect(const Json& json, const Scope& scope, const Call& call, std::vector<ValueId>& found) {
  if (is_array(json)) return found.push_back(call.stored(json.at("config").at("value")));
  if (is_tensor(json) || is_reference(json)) {
    const Reference of = reference_of(is_tensor(json) ? json.at("config").at("keras_history") : json);
    const auto made = scope.known.find({of.layer, of.node, 0});
    if (made == scope.known.end())
      throw Error(kBadInput, name_, call.path + ": reads " + of.layer + ", which is not made");
    const std::vector<ValueId>& outputs = made->second;
    if (of.tensor < 0 || size_t(of.tensor) >= std::max<size_t>(outputs.size(), 1))
      throw Error(kBadInput, name_, of.layer + " has no output " + std::to_string(of.tensor));
    const ValueId id = outputs.empty() ? kNone : outputs[size_t(of.tensor)];
    const Json config = is_tensor(json) ? json.at("config") : Json::object();
    return found.push_back(id != kNone ? id : stand_in(config.value("shape", Json()), config.value("dtype", Json())));
  }
  if (json.is_array() || json.is_object())
    for (const Json& each : json) collect(each, scope, call, found);
}

// Reads the operands of a call. Keras 3: {"args": [..], "kwargs": {..}}. Keras 2: [[layer, node, tensor, kwargs], ..],
// or one such entry without the list.
void Importer::read_operands(const Json& node, const Scope& scope, Call& call) {
  call.args = node.is_object() ? node.at("args") : Json::array();
  call.kwargs = node.is_object() ? node.value("kwargs", Json::object()) : Json::object();
  if (!node.is_object()) {
    for (const Json& element : is_reference(node) ? Json::array({node}) : node) {
      if (!is_reference(element)) throw Error(kBadInput, name_, call.path + ": its inbound_nodes are malformed");
      Json bare = Json::array();
      for (size_t i = 0; i < 3; ++i) bare.push_back(element.at(i));
      call.args.push_back(bare);
      if (element.size() > 3 && element.at(size_t(3)).is_object())
        for (const auto& [key, value] : element.at(size_t(3)).items()) call.kwargs[key] = value;
    }
  }
  if (!call.kwargs.is_object()) throw Error(kBadInput, name_, call.path + ": its inbound_nodes are malformed");
  if (node.is_object()) name_masks(call);
  collect(call.args, scope, call, call.inputs);
  for (const auto& [key, value] : call.kwargs.items()) {
    std::vector<ValueId> tensors;
    collect(value, scope, call, tensors);
    if (!tensors.empty()) call.keyword[key] = std::move(tensors);
  }
}

// Runs each call after the calls that it reads. If the file's order allows that, it is kept. Otherwise calls run in
// rounds over the file, each as soon as its operands are made.
void Importer::run_calls(Scope& scope, std::vector<Waiting> waiting) {
  std::map<Reference, std::vector<size_t>> readers;
  std::set<std::pair<size_t, size_t>> ready;  // round, index in `waiting`
  for (size_t k = 0; k < waiting.size(); ++k) {
    std::set<Reference> reads;
    add_reads(waiting[k].entry->nodes[waiting[k].node], reads);
    for (const Reference& of : reads) {
      if (scope.known.contains(of)) continue;
      ++waiting[k].missing;
      readers[of].push_back(k);
    }
    if (waiting[k].missing == 0) ready.emplace(0, k);
  }
  while (!ready.empty()) {
    const auto [round, k] = *ready.begin();
    ready.erase(ready.begin());
    const auto& [entry, node, missing] = waiting[k];
    Call call = call_of(*entry, scope.path);
    read_operands(entry->nodes[node], scope, call);
    convert(call);
    const Reference made = {entry->name, entry->first + int64_t(node), 0};
    scope.known[made] = std::move(call.outputs);
    for (const size_t reader : readers[made])
      if (--waiting[reader].missing == 0) ready.emplace(reader < k ? round + 1 : round, reader);
  }
}

std::vector<ValueId> Importer::functional(const Json& config, std::vector<Entry> all, std::vector<ValueId> inputs,
                                          const std::string& path) {
  Scope scope{{}, path};
  const std::vector<Reference> given = references(config.at("input_layers"));
  if (!path.empty() && given.size() != inputs.size())
    throw Error(kBadInput, name_,
                path + " is called with " + std::to_string(inputs.size()) + " tensors, it has " +
                    std::to_string(given.size()) + " inputs");
  std::vector<Waiting> waiting;
  std::map<std::string, const Entry*> by_name;
  for (const Entry& entry : all) by_name[entry.name] = &entry;
  std::vector<Json> shapes(given.size());
  std::vector<std::pair<std::string, Json*>> open;
  for (size_t i = 0; i < given.size(); ++i) {
    if (const auto entry = by_name.find(given[i].layer); entry != by_name.end())
      shapes[i] = entry->second->config.value("batch_shape", Json());
    open.emplace_back(given[i].layer, &shapes[i]);
  }
  if (path.empty()) give_shapes(std::move(open));
  for (size_t i = 0; i < given.size(); ++i) {
    const auto entry = by_name.find(given[i].layer);
    if (entry == by_name.end())
      throw Error(kBadInput, name_, "has no layer " + given[i].layer + ", which is its input");
    const bool own = path.empty();
    scope.known[{given[i].layer, given[i].node, 0}] = {own ? add_input(*entry->second, shapes[i]) : inputs[i]};
  }
  const std::vector<Reference> wanted = number_calls(all, config.at("output_layers"));
  for (const Entry& entry : all)
    for (size_t i = 0; i < entry.nodes.size(); ++i)
      if (!scope.known.contains({entry.name, entry.first + int64_t(i), 0})) waiting.push_back({&entry, i, 0});
  order_calls(waiting, wanted, config);
  run_calls(scope, std::move(waiting));
  std::vector<ValueId> outputs;
  for (const Reference& of : wanted) {
    const auto made = scope.known.find({of.layer, of.node, 0});
    if (made == scope.known.end())
      throw Error(kBadInput, name_, of.layer + " is an output that nothing makes: its layers read each other");
    if (!made->second.empty() && (of.tensor < 0 || size_t(of.tensor) >= made->second.size()))
      throw Error(kBadInput, name_, of.layer + " has no output " + std::to_string(of.tensor));
    outputs.push_back(made->second.empty() ? kNone : made->second[size_t(of.tensor)]);
    if (path.empty()) graph_.outputs.push_back({of.layer, outputs.back(), ""});
  }
  return outputs;
}

std::vector<ValueId> Importer::sequential(const Json& config, std::vector<Entry> all, std::vector<ValueId> inputs,
                                          const std::string& path) {
  if (!all.empty() && path.empty()) {
    Entry first = all[0];
    Json shape = first.config.value("batch_shape", Json());
    if (shape.is_null() && config.is_object()) shape = config.value("build_input_shape", Json());
    if (shape.is_null()) shape = first.config.value("__input_shape", Json());
    if (first.class_name != "InputLayer") {
      first.name += "_input";
      first.config["dtype"] = first.class_name == "Embedding" ? "int32" : "float32";
    }
    give_shapes({{first.name, &shape}});
    inputs = {add_input(first, shape)};
  }
  std::string last;
  for (const Entry& entry : all) {
    if (entry.class_name == "InputLayer") continue;
    Call call = call_of(entry, path);
    call.inputs = inputs;
    convert(call);
    inputs = call.outputs.empty() ? std::vector<ValueId>(1, kNone) : std::move(call.outputs);
    last = entry.name;
  }
  if (path.empty() && last.empty()) throw Error(kBadInput, name_, "has no layer");
  if (path.empty())
    for (const ValueId id : inputs) graph_.outputs.push_back({last, id, ""});
  return inputs;
}

std::vector<ValueId> Importer::model(const Json& entry, const Weights& weights, std::vector<ValueId> inputs,
                                     const std::string& path) {
  if (++depth_ > kMostNested) throw Error(kUnsupported, name_, "nests models deeper than 32");
  const Json& config = entry.at("config");
  const std::string class_name = entry.at("class_name").text();
  refuse_subclassed(config, name_, path + class_name);
  const Json& layers = config.is_array() ? config : config.at("layers");
  std::vector<Entry> all = entries(layers, weights);
  const bool is_functional = config.is_object() && config.contains("input_layers") && class_name != "Sequential";
  std::vector<ValueId> outputs = is_functional ? functional(config, std::move(all), std::move(inputs), path)
                                               : sequential(config, std::move(all), std::move(inputs), path);
  --depth_;
  return outputs;
}

// Converts a layer, and collects its problems. If an operand is missing because an earlier layer has a problem, only
// the class and the settings of this layer are checked. A nested model is entered in any case.
void Importer::convert(Call& call) {
  const bool nested = is_model(call.class_name, call.config);
  const size_t values = graph_.values.size(), steps = graph_.nodes.size();
  const auto [depth, around] = std::pair(depth_, model_frozen_);
  bool known = true;
  if (call.inputs.size() == 1 && call.inputs[0] == kNone && call.config.is_object())
    call.inputs[0] = stand_in(call.config.value("__input_shape", Json()), Json());
  for (const ValueId id : call.inputs) known = known && id != kNone;
  for (const auto& [key, ids] : call.keyword)
    for (const ValueId id : ids) known = known && id != kNone;
  const bool infers = options_.train && called_for_inference(call);
  const int inferring = inferring_;
  inferring_ += infers ? 1 : 0;
  try {
    if (!nested) static_cast<void>(converter_of(call));
    for (const std::string& line : refused_settings(call)) problem(line);
    if (nested) convert_inner(call);
    else if (known) {
      convert_inner(call);
      for (const std::string& line : unread_settings(call)) problem(line);
      finish(call, values);
      log_change(call, graph_.nodes.size() - steps);
    }
    inferring_ = inferring;
  } catch (const JsonError& error) {
    throw Error(kBadInput, name_, call.path + " (" + call.class_name + "): its configuration: " + error.what());
  } catch (const Error& error) {
    if (error.code != kUnsupported && problems_.empty()) throw;
    depth_ = depth, inferring_ = inferring;
    model_frozen_ = around;
    call.outputs.clear();
    if (error.code == kUnsupported) problem(error.what());
  }
}

// Logs a layer that became several nodes or none, because the graph does not show this.
void Importer::log_change(const Call& call, size_t steps) const {
  const auto is_read = [&](ValueId id) { return std::ranges::find(call.inputs, id) != call.inputs.end(); };
  if (steps > 1) call.note("is " + std::to_string(steps) + " steps");
  if (steps == 0 && std::ranges::all_of(call.outputs, is_read)) call.note("is left out: it gives what it reads");
}

const Converter& Importer::converter_of(const Call& call) const {
  if (call.module.find('>') != call.module.npos) call.unsupported(kOfOwnClass);
  const bool function = is_function(call.module);
  const Converter* found = function ? find_function(call.class_name) : find_converter(call.class_name);
  if (found != nullptr) return *found;
  if (call.class_name == "Lambda" || call.class_name == "TFOpLambda")
    call.unsupported("holds Python code, which is not run: replace it by layers of keras.layers");
  call.unsupported(function ? "a function of keras.ops that the converter does not have"
                            : "a layer that the converter does not have");
}

namespace {

// Moves the channels of x from axis `first` to the end if `to_last`, else from the end to axis `first`.
ValueId turned(const Call& call, ValueId x, int first, bool to_last) {
  const int last = call.rank(x) - 1;
  std::vector<int> perm;
  for (int i = 0; i <= last; ++i) perm.push_back(i);
  if (first >= last) return x;
  if (to_last) std::rotate(perm.begin() + first, perm.begin() + first + 1, perm.end());
  else std::rotate(perm.begin() + first, perm.end() - 1, perm.end());
  return call.transpose(x, perm);
}

// Converts a layer. Converters expect channels last, so inputs and outputs of one with channels first are transposed.
void convert_turned(Call& call, const Converter& converter) {
  static const std::set<std::string> kOfNoOrder = {"STFTSpectrogram", "SpatialDropout1D", "SpatialDropout2D",
                                                   "SpatialDropout3D"};
  const bool first = !is_function(call.module) && call.text("data_format", "") == "channels_first";
  if (!first || kOfNoOrder.contains(call.class_name)) return converter.convert(call);
  const std::vector<ValueId> given = call.inputs;
  const int rank = given.empty() ? 0 : call.rank(given[0]);
  const int axis = call.class_name.starts_with("ConvLSTM") ? 2 : 1;  // time comes before the channels
  for (ValueId& x : call.inputs) x = turned(call, x, call.rank(x) == rank ? axis : 1, true);
  call.config["data_format"] = "channels_last";
  converter.convert(call);
  call.inputs = given;
  for (ValueId& y : call.outputs)
    if (call.rank(y) + 1 >= rank && call.rank(y) >= 3) y = turned(call, y, call.rank(y) == rank ? axis : 1, false);
}

}  // namespace

void Importer::convert_inner(Call& call) {
  call.frozen = is_frozen(call.config, call.frozen, call.path);
  if (is_model(call.class_name, call.config)) {
    const Json entry = {{"class_name", call.class_name}, {"config", call.config}};
    give_masks(call);
    const bool around = std::exchange(model_frozen_, call.frozen);
    call.outputs = model(entry, call.weights, call.inputs, call.path + "/");
    model_frozen_ = around;
    nested_.insert(call.outputs.begin(), call.outputs.end());
    return;
  }
  const Converter& converter = converter_of(call);
  const std::string mode = quantization_mode(call.config);
  if (!mode.empty() && call.weights.count() > 0) decode_kernel(call, mode);
  convert_turned(call, converter);
}

// Names the outputs of a call, and keeps the masks that Keras carries beside them.
void Importer::finish(Call& call, size_t values) {
  const std::vector<ValueId> masks = masks_behind(call);
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    ValueId& y = call.outputs[i];
    if (masks[i] == kNone && size_t(y) < values && mask_left(call, y) != kNone)
      y = call.emit(Op::kCopy, {y});  // a value of its own, without a mask
    if (masks[i] != kNone) masks_[y] = masks[i];
    if (!call.inputs.empty() && nested_.contains(call.inputs[0])) nested_.insert(y);
    if (size_t(y) >= values) graph_.rename(y, i == 0 ? call.path : call.path + "/" + std::to_string(i));
  }
  take_masks(call);
}

}  // namespace nacre::tools::keras
