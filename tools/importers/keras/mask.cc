// Finds masks: which steps of a sequence count. Keras carries a mask beside the values, from Embedding and Masking to
// the layers that read it. A layer passes on the mask of its first input, or drops it (Layer.supports_masking,
// compute_mask; 3.15).
#include <algorithm>

#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {

ValueId as_condition(const Call& call, ValueId x) { return call.cast(x, ElementType::kBool); }

float hidden_score(const Call& call) {
  const std::string policy = source_policy(call.config);
  return policy.find("float16") != policy.npos && policy.find("bfloat16") == policy.npos ? -3e4f : -1e9f;
}

namespace {

ValueId carried(const Call& call, ValueId x) {
  const auto mask = call.importer->masks().find(x);
  return mask == call.importer->masks().end() ? kNone : mask->second;
}

}  // namespace

ValueId mask_left(const Call& call, ValueId x) { return call.importer->taken().contains(x) ? kNone : carried(call, x); }

// Returns the given mask, or that of the input x. A layer with a mask argument keeps the mask that x carried when the
// model was built, and MultiHeadAttention cannot delete that (take_masks). If the file gives null, or a nested model
// made x, the layer reads the mask that is left at run time.
ValueId mask_of(const Call& call, size_t input, const char* argument) {
  if (const auto given = call.keyword.find(argument); given != call.keyword.end())
    return as_condition(call, given->second.at(0));
  if (input >= call.inputs.size()) return kNone;
  const ValueId x = call.inputs[input];
  const bool of_run =
      (call.kwargs.is_object() && call.kwargs.contains(argument)) || call.importer->nested().contains(x);
  return of_run ? mask_left(call, x) : carried(call, x);
}

ValueId either(const Call& call, ValueId a, ValueId b) { return a == b ? a : call.select(a, a, b); }

namespace {

// Adds the types of the operands in an argument, in the order of collect(); "" if the file does not give a type.
void add_types(const Json& json, std::vector<std::string>& types) {
  if (is_operand(json)) {
    const Json type = json.is_object() ? json.at("config").value("dtype", Json()) : Json();
    types.push_back(type.is_string() ? type.text() : "");
  } else if (json.is_array() || json.is_object()) {
    for (const Json& each : json) add_types(each, types);
  }
}

// Layers that pass on the mask of their first input.
const std::set<std::string> kHandOn = {"Activation",
                                       "ELU",
                                       "LeakyReLU",
                                       "PReLU",
                                       "ReLU",
                                       "Softmax",
                                       "ThresholdedReLU",
                                       "GroupQueryAttention",
                                       "MultiHeadAttention",
                                       "GroupedQueryAttention",
                                       "Dense",
                                       "Identity",
                                       "BatchNormalization",
                                       "GroupNormalization",
                                       "LayerNormalization",
                                       "UnitNormalization",
                                       "Normalization",
                                       "Rescaling",
                                       "AlphaDropout",
                                       "ActivityRegularization",
                                       "Dropout",
                                       "GaussianDropout",
                                       "GaussianNoise",
                                       "SpatialDropout1D",
                                       "SpatialDropout2D",
                                       "SpatialDropout3D",
                                       "TimeDistributed",
                                       "Attention",
                                       "AdditiveAttention"};
const std::set<std::string> kMerges = {"Add", "Average", "Maximum", "Minimum", "Multiply", "Subtract"};
const std::set<std::string> kSequences = {"LSTM",          "GRU",        "SimpleRNN",  "RNN",
                                          "Bidirectional", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"};

ValueId both(const Call& call, ValueId a, ValueId b) { return a == b ? a : call.select(a, b, a); }

// Returns the mask of a sum or a similar layer. Keras 3: if all inputs have masks, a step counts if it counts in one of
// them; else there is no mask. Keras 2: a step counts if it counts in each input that has a mask.
ValueId merged_mask(const Call& call) {
  const bool keras2 = call.importer->keras2();
  ValueId mask = kNone;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const ValueId of = mask_left(call, call.inputs[i]);
    if (of == kNone && !keras2) return kNone;
    if (of == kNone) continue;
    mask = mask == kNone ? of : keras2 ? both(call, mask, of) : either(call, mask, of);
  }
  return mask;
}

// Returns a mask that is true for each step of x [batch, time, ..].
ValueId every_step(const Call& call, ValueId x) {
  const std::vector<int64_t> dims = call.dims(x);
  ValueId numbers = x;
  for (int axis = 2; axis < int(dims.size()); ++axis) numbers = call.slice(numbers, axis, 0, 1);
  const ValueId some = as_condition(call, call.reshape(numbers, {dims[0], dims[1]}));
  return call.select(some, some, as_condition(call, call.number(1)));
}

// Returns the mask of a Concatenate. Along the steps (axis 1) masks are concatenated, along other axes merged.
ValueId concatenated_mask(const Call& call) {
  std::vector<ValueId> masks;
  for (const ValueId x : call.inputs) masks.push_back(mask_left(call, x));
  if (std::ranges::all_of(masks, [](ValueId mask) { return mask == kNone; })) return kNone;
  const int rank = call.rank(call.inputs[0]), axis = call.axis(call.integer("axis", -1), rank);
  if (axis != 1 || rank < 3) return merged_mask(call);
  for (size_t i = 0; i < masks.size(); ++i)
    if (masks[i] == kNone) masks[i] = every_step(call, call.inputs[i]);
  return call.concat(masks, 1);
}

// Returns the operand whose mask a layer passes on. Attention layers may get their query by name.
std::vector<ValueId> first_operand(const Call& call) {
  if (!call.inputs.empty()) return {call.inputs[0]};
  const auto query = call.keyword.find("query");
  return query == call.keyword.end() ? std::vector<ValueId>() : std::vector<ValueId>{query->second.at(0)};
}

}  // namespace

// Takes masks: MultiHeadAttention of Keras 3 deletes the masks of its operands in place, so that later layers see none.
// An operand that is cast to the layer's type keeps its mask.
void take_masks(const Call& call) {
  const auto& masks = call.importer->masks();
  std::set<ValueId>& taken = call.importer->taken();
  if (call.class_name != "MultiHeadAttention" || call.importer->keras2()) return;
  const auto take = [&](const std::vector<ValueId>& tensors, const Json& argument) {
    std::vector<std::string> types;
    add_types(argument, types);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const bool real = i < types.size() && types[i].find("float") != std::string::npos;
      const bool cast = real && types[i] != compute_type(call.config);
      if (!cast && masks.contains(tensors[i])) taken.insert(tensors[i]);
    }
  };
  take(call.inputs, call.args);
  for (const char* operand : {"query", "value", "key"})
    if (const auto given = call.keyword.find(operand); given != call.keyword.end())
      take(given->second, call.kwargs.at(operand));
}

namespace {

ValueId handed_on(const Call& call) {
  static const std::set<std::string> kRead = {"BatchNormalization", "Softmax", "TimeDistributed"};
  if (call.keyword.contains("mask") || kRead.contains(call.class_name) || kSequences.contains(call.class_name))
    return mask_of(call, 0, "mask");
  const std::vector<ValueId> x = first_operand(call);
  return x.empty() ? kNone : mask_left(call, x[0]);
}

bool hands_on(const Call& call) {
  const Json* inner = call.class_name == "SpectralNormalization" ? call.find("layer") : nullptr;
  return kHandOn.contains(inner != nullptr ? inner->at("class_name").text() : call.class_name);
}

}  // namespace

std::vector<ValueId> masks_behind(const Call& call) {
  std::vector<ValueId> masks(call.outputs.size(), kNone);
  if (masks.empty()) return masks;
  if (is_function(call.module)) {  // of these only one that returns its operand itself passes on a mask
    static const std::set<std::string> kSame = {"Cast", "ConvertToTensor"};
    if (kSame.contains(call.class_name) && call.inputs.size() == 1 && call.outputs[0] == call.inputs[0])
      masks[0] = mask_left(call, call.inputs[0]);
    return masks;
  }
  if (kMerges.contains(call.class_name)) {
    masks[0] = merged_mask(call);
  } else if (call.class_name == "Concatenate") {
    masks[0] = concatenated_mask(call);
  } else if (kSequences.contains(call.class_name)) {
    const Json* inner = call.find("layer");  // the layer inside Bidirectional
    Call layer = call;
    if (inner != nullptr) layer.config = inner->at("config");
    if (layer.flag("return_sequences", false)) masks[0] = handed_on(call);
  } else if (hands_on(call)) {
    masks[0] = handed_on(call);
  }
  return masks;
}

// Gives the masks that a model is called with to its inputs, in their order.
void give_masks(const Call& call) {
  const auto given = call.keyword.find("mask");
  if (given == call.keyword.end()) return;
  const Json& json = call.kwargs.at("mask");
  const bool list = json.is_array() && !is_operand(json);
  size_t next = 0;
  for (size_t i = 0; i < call.inputs.size() && next < given->second.size(); ++i) {
    if (list ? i >= json.size() || !is_operand(json.at(i)) : i > 0) continue;
    call.importer->masks()[call.inputs[i]] = as_condition(call, given->second[next++]);
    call.importer->taken().erase(call.inputs[i]);
  }
}

// Treats masks that a call gives by position as if they had names.
void name_masks(Call& call) {
  using Names = std::vector<const char*>;  // names of the arguments; "" for one that is no mask
  static const Names kRecurrence = {"", "", "mask"},
                     kHeads = {"", "", "", "query_mask", "value_mask", "key_mask", "attention_mask"};
  static const std::map<std::string, Names> kNames = {{"GlobalAveragePooling1D", {"", "mask"}},
                                                      {"Attention", {"", "mask"}},
                                                      {"AdditiveAttention", {"", "mask"}},
                                                      {"BatchNormalization", kRecurrence},
                                                      {"LSTM", kRecurrence},
                                                      {"GRU", kRecurrence},
                                                      {"SimpleRNN", kRecurrence},
                                                      {"RNN", kRecurrence},
                                                      {"ConvLSTM1D", kRecurrence},
                                                      {"ConvLSTM2D", kRecurrence},
                                                      {"ConvLSTM3D", kRecurrence},
                                                      {"Bidirectional", kRecurrence},
                                                      {"TimeDistributed", kRecurrence},
                                                      {"MultiHeadAttention", kHeads},
                                                      {"GroupQueryAttention", kHeads},
                                                      {"GroupedQueryAttention", kHeads}};
  const auto names = kNames.find(call.class_name);
  if (names == kNames.end() || !call.args.is_array()) return;
  Json args = Json::array();
  for (size_t i = 0; i < call.args.size(); ++i) {
    const bool mask = i < names->second.size() && names->second[i][0] != '\0' && !call.args.at(i).is_null();
    if (mask) call.kwargs[names->second[i]] = call.args.at(i);
    args.push_back(mask ? Json() : call.args.at(i));
  }
  call.args = std::move(args);
}

}  // namespace nacre::tools::keras
