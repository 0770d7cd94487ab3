// Masks: which steps of a sequence count. Keras carries them beside values, from Embedding and Masking to what reads
// them; a layer hands the mask of its first input on, or drops it (Layer.supports_masking, compute_mask; 3.15).
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

ValueId mask_of(const Call& call, size_t input, const char* argument) {
  if (const auto given = call.keyword.find(argument); given != call.keyword.end())
    return as_condition(call, given->second.at(0));
  return input < call.inputs.size() ? carried(call, call.inputs[input]) : kNone;
}

ValueId mask_left(const Call& call, ValueId x) { return call.importer->taken().contains(x) ? kNone : carried(call, x); }

ValueId either(const Call& call, ValueId a, ValueId b) { return a == b ? a : call.select(a, a, b); }

namespace {

// Types of the operands in an argument, in the order in which they are collected; "" where the file does not say it.
void add_types(const Json& json, std::vector<std::string>& types) {
  if (is_operand(json)) {
    const Json type = json.is_object() ? json.at("config").value("dtype", Json()) : Json();
    types.push_back(type.is_string() ? type.text() : "");
  } else if (json.is_array() || json.is_object()) {
    for (const Json& each : json) add_types(each, types);
  }
}

// Functions of keras.ops have none.
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

// Mask of a sum and its kin. Keras 3: a step counts if it counts in one of the inputs, which all have masks, else there
// is none. Keras 2: a step counts if it counts in each of the inputs that have masks.
ValueId merged_mask(const Call& call) {
  const bool keras2 = call.importer->keras2();
  ValueId mask = kNone;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const ValueId of = mask_of(call, i, "");
    if (of == kNone && !keras2) return kNone;
    if (of == kNone) continue;
    mask = mask == kNone ? of : keras2 ? both(call, mask, of) : either(call, mask, of);
  }
  return mask;
}

// Masks along the features are merged; along the steps they stand one after the other.
ValueId concatenated_mask(const Call& call) {
  std::vector<ValueId> masks;
  size_t given = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    masks.push_back(mask_of(call, i, ""));
    given += masks.back() != kNone;
  }
  if (given == 0) return kNone;
  const int rank = call.rank(call.inputs[0]), axis = call.axis(call.integer("axis", -1), rank);
  if (axis != 1 || rank < 3) return merged_mask(call);
  for (const ValueId x : call.inputs)
    if (call.importer->taken().contains(x))
      call.unsupported("sequences one after the other, of which heads took a mask");
  if (given < masks.size()) call.unsupported("sequences one after the other, of which some have a mask");
  return call.concat(masks, 1);
}

// The operand whose mask a layer hands on: heads may be given theirs by name.
std::vector<ValueId> first_operand(const Call& call) {
  if (!call.inputs.empty()) return {call.inputs[0]};
  const auto query = call.keyword.find("query");
  return query == call.keyword.end() ? std::vector<ValueId>() : std::vector<ValueId>{query->second.at(0)};
}

// A call with an argument for a mask keeps it: Keras writes the mask of its only tensor into the model as it is
// made, so that heads cannot take it.
bool keeps_mask(const Call& call) {
  static const std::set<std::string> kRead = {"BatchNormalization", "Softmax", "TimeDistributed"};
  if (call.keyword.contains("mask")) return true;
  const bool reads = kRead.contains(call.class_name) || kSequences.contains(call.class_name);
  return reads && call.inputs.size() == 1 && (!call.kwargs.is_object() || call.kwargs.empty());
}

// Whether the outputs have no mask where Keras runs the call, since heads took it from what they are made of.
bool loses_mask(const Call& call) {
  const bool merges = kMerges.contains(call.class_name) || call.class_name == "Concatenate";
  if (keeps_mask(call) || (!merges && !kHandOn.contains(call.class_name) && !kSequences.contains(call.class_name)))
    return false;
  const std::vector<ValueId> operands = merges ? call.inputs : first_operand(call);
  return std::any_of(operands.begin(), operands.end(), [&](ValueId x) { return call.importer->taken().contains(x); });
}

}  // namespace

// MultiHeadAttention of Keras 3 deletes the masks of its operands in place: what runs later sees none. An operand that
// is cast to the layer's type keeps its mask.
void take_masks(const Call& call) {
  const auto& masks = call.importer->masks();
  std::set<ValueId>& taken = call.importer->taken();
  if (loses_mask(call))
    for (const ValueId y : call.outputs)
      if (masks.contains(y)) taken.insert(y);
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
  if (call.keyword.contains("mask")) return mask_of(call, 0, "mask");
  const std::vector<ValueId> x = first_operand(call);
  return x.empty() ? kNone : carried(call, x[0]);
}

}  // namespace

std::vector<ValueId> masks_behind(const Call& call) {
  std::vector<ValueId> masks(call.outputs.size(), kNone);
  if (masks.empty() || is_function(call.module)) return masks;
  if (kMerges.contains(call.class_name)) {
    masks[0] = merged_mask(call);
  } else if (call.class_name == "Concatenate") {
    masks[0] = concatenated_mask(call);
  } else if (kSequences.contains(call.class_name)) {
    const Json* inner = call.find("layer");  // of Bidirectional
    Call layer = call;
    if (inner != nullptr) layer.config = inner->at("config");
    if (layer.flag("return_sequences", false)) masks[0] = handed_on(call);
  } else if (kHandOn.contains(call.class_name)) {
    masks[0] = handed_on(call);
  }
  return masks;
}

}  // namespace nacre::tools::keras
