// The text form of a graph has one record per line, as in these examples. parse() is in text_parse.cc.
//
//   graph "speech.onnx" batch=1 liveness_bound=0
//   bank "sram" limit=65536 used=0
//   meta "key" "value"
//   layer "conv1" source="Conv" asked=1 quantization=int8/static               fields that are not the default
//   value %x float32 [1, 28, 28, 1] batched
//   value %w float32 [2, 1] codes=int8 axis=0 scale=[0.5, 0.25] zero=[0, 0] region=weights data=int8 {1, -2}
//   value %y int8 [1, 10] bank=1 offset=64 steps=[0, 3] alias=%x
//   value %w float32 [2, 1] region=state kept=parameter trainable initial={1, 2}
//   input "image" %x layout="NCHW"
//   output "scores" %y
//   %y = conv2d(%x, %w, none) stride_h=2 rounding=double name="conv1/Conv2D" layer="conv1"
//   none = sgd(%g, %report, %rate, %w) guard=%apply                            no outputs: it updates %w
//   log "folded ..."
//   fallback "fc1 (dense): wants ..."
//
// Attributes have the names of the op's table and are decoded (stride_h=2 is stored as 1). An attribute whose words are
// all 0 is omitted. Bounds (Coding::kBound) are real if the first output is a float, else codes. Names that are not
// plain words are quoted: %"a b". A NaN is written as 0x and its bits. '#' starts a comment.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "tools/base/names.h"
#include "tools/graph/graph.h"

namespace nacre::tools {
namespace {

constexpr const char* kKept[] = {"parameter", "statistic", "optimizer", "numerics", "counter"};

constexpr int64_t kPrintedElements = 64;

bool plain(const std::string& s) {
  const auto word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '/' || c == ':';
  };
  return !s.empty() && std::all_of(s.begin(), s.end(), word);
}

std::string quoted(const std::string& s) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : s) {
    const auto byte = uint8_t(c);
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (c == '\n') out += "\\n";
    else if (byte < 32 || byte == 127) out += "\\x", out += kHex[byte >> 4], out += kHex[byte & 15];
    else out += c;
  }
  return out + '"';
}

std::string number(float v) {
  char text[40];
  if (v == v) return {text, std::to_chars(text, text + sizeof text, v).ptr};
  return "0x" + std::string(text, std::to_chars(text, text + sizeof text, std::bit_cast<uint32_t>(v), 16).ptr);
}

std::string number(int64_t v) { return std::to_string(v); }
std::string number(uint64_t v) { return std::to_string(v); }
std::string number(int32_t v) { return std::to_string(v); }
std::string number(uint32_t v) { return std::to_string(v); }

template <class T>
std::string list(const std::vector<T>& items, const char* brackets = "[]") {
  std::string out(1, brackets[0]);
  for (size_t i = 0; i < items.size(); ++i) out += (i > 0 ? ", " : "") + number(items[i]);
  return out + brackets[1];
}

std::string reference(const Graph& graph, ValueId id) {
  if (id == kNone) return "none";
  if (id < 0 || size_t(id) >= graph.values.size()) return "invalid";
  const std::string& name = graph.values[size_t(id)].name;
  return '%' + (plain(name) ? name : quoted(name));
}

// Appends ` key=text` if the value is not the default.
template <class T>
void field(std::string& out, const char* key, const T& value, const T& otherwise) {
  if (value == otherwise) return;
  out += ' ';
  out += key;
  out += '=';
  if constexpr (std::is_enum_v<T>) out += name_of(value);
  else out += number(value);
}

std::string layer_line(const Layer& layer) {
  const Policy &p = layer.policy, standard;
  std::string out = "layer " + quoted(layer.name) + " source=" + quoted(layer.source_op);
  field(out, "asked", uint32_t{layer.asked}, 0u);
  if (!layer.source_policy.empty()) out += " says=" + quoted(layer.source_policy);
  field(out, "variable", p.variable, standard.variable);
  field(out, "compute", p.compute, standard.compute);
  field(out, "output", p.output, standard.output);
  field(out, "quantization", p.quantization, standard.quantization);
  field(out, "amax_history_length", uint32_t{p.amax_history_length}, 0u);
  field(out, "margin", int32_t{p.margin}, int32_t{0});
  field(out, "update_order", p.update_order, standard.update_order);
  field(out, "amax_rule", p.amax_rule, standard.amax_rule);
  field(out, "scale_form", p.scale_form, standard.scale_form);
  field(out, "rounding", Rounding(p.rounding), Rounding::kNone);
  field(out, "loss_scale", p.loss_scale, standard.loss_scale);
  field(out, "block", p.block, 0u);
  field(out, "loss_scale_value", p.loss_scale_value, 0.0f);
  field(out, "activation_zero", uint32_t{p.activation_zero}, 0u);
  field(out, "group_range", p.group_range, standard.group_range);
  field(out, "operation_rounding", p.operation_rounding, standard.operation_rounding);
  field(out, "weight_fit", p.weight_fit, standard.weight_fit);
  field(out, "weight_bits", uint32_t{p.weight_bits}, 0u);
  field(out, "activation_order", uint32_t{p.activation_order}, 0u);
  return out;
}

template <class T>
std::string elements_text(const std::vector<uint8_t>& bytes) {
  std::vector<T> items(bytes.size() / sizeof(T));
  if (!items.empty()) std::memcpy(items.data(), bytes.data(), bytes.size());
  if constexpr (sizeof(T) == 1 || sizeof(T) == 2) return list(std::vector<int32_t>(items.begin(), items.end()), "{}");
  else return list(items, "{}");
}

// Returns elements as decimal numbers. Returns "" for types written as hex, or if the bytes are not whole elements.
std::string numbers_text(ElementType type, const std::vector<uint8_t>& bytes) {
  const uint32_t bits = element_bits(type);
  if (bits < 8 || bytes.size() % (bits / 8) != 0) return "";
  switch (type) {
    case ElementType::kFloat32: return elements_text<float>(bytes);
    case ElementType::kInt8: return elements_text<int8_t>(bytes);
    case ElementType::kUint8:
    case ElementType::kBool: return elements_text<uint8_t>(bytes);
    case ElementType::kInt16: return elements_text<int16_t>(bytes);
    case ElementType::kInt32: return elements_text<int32_t>(bytes);
    case ElementType::kInt64: return elements_text<int64_t>(bytes);
    case ElementType::kUint32: return elements_text<uint32_t>(bytes);
    default: return "";
  }
}

std::string hex_text(const std::vector<uint8_t>& bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "hex ";
  for (const uint8_t b : bytes) out += kHex[b >> 4], out += kHex[b & 15];
  return out + (bytes.empty() ? "empty" : "");
}

// Returns the FNV-1a hash of 64 bits (Fowler, Noll, Vo; RFC 9923). It only distinguishes constants in dumps.
std::string hash_text(const std::vector<uint8_t>& bytes) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const uint8_t b : bytes) hash = (hash ^ b) * 0x100000001B3;
  char text[17];
  return "hash " + std::string(text, std::to_chars(text, text + sizeof text, hash, 16).ptr);
}

std::string data_text(ElementType type, const std::vector<uint8_t>& bytes, bool full) {
  const uint32_t element = std::max(element_bits(type), 1u);
  if (uint64_t{bytes.size()} * 8 / element > kPrintedElements) return full ? hex_text(bytes) : hash_text(bytes);
  const std::string numbers = numbers_text(type, bytes);
  return numbers.empty() ? hex_text(bytes) : numbers;
}

std::string value_line(const Graph& graph, const Value& value, bool full) {
  std::string out = "value %" + (plain(value.name) ? value.name : quoted(value.name));
  out += std::string(" ") + name_of(value.type) + ' ' + list(value.dims);
  if (value.batched) out += " batched";
  if (value.quantizer) {
    out += std::string(" codes=") + name_of(value.quantizer->codes) + " axis=" + number(value.quantizer->axis);
    out += " scale=" + list(value.quantizer->scale) + " zero=" + list(value.quantizer->zero);
  }
  field(out, "layout", uint32_t(value.layout), 0u);
  if (!value.amaxes.empty()) out += " amaxes=" + list(value.amaxes);
  field(out, "region", value.region, Region::kArena);
  field(out, "bank", uint32_t{value.bank}, 0u);
  field(out, "offset", value.offset, uint64_t{0});
  if (value.first_step != 0 || value.last_step != 0)
    out += " steps=[" + number(value.first_step) + ", " + number(value.last_step) + ']';
  if (value.alias_of != kNone) out += " alias=" + reference(graph, value.alias_of);
  if (value.constant())
    out += std::string(" data=") + name_of(value.stored) + ' ' + data_text(value.stored, *value.data, full);
  else field(out, "stored", value.stored, ElementType::kNone);
  if (value.region == Region::kState) out += std::string(" kept=") + name_of(value.kept);
  if (value.keeps_steps) out += " keeps_steps";
  if (value.fixed) out += " fixed";
  if (value.frozen) out += " frozen";
  if (value.variable) out += " variable";
  if (value.trainable) out += " trainable";
  if (value.initial != nullptr) out += " initial=" + data_text(value.type, *value.initial, full);
  return out;
}

bool is_float(ElementType type) {
  return type == ElementType::kFloat32 || type == ElementType::kFloat16 || type == ElementType::kBfloat16 ||
         type == ElementType::kFloat64;
}

std::string word_text(uint32_t word, Coding coding, bool float_step) {
  if (coding == Coding::kReal || (coding == Coding::kBound && float_step)) return number(std::bit_cast<float>(word));
  return number(int32_t(coding == Coding::kLessOne ? word + 1 : word));
}

// Returns a node's attributes as text. An attribute of several words shows at least one word per axis of the output.
std::string attributes_text(const Graph& graph, const Node& node, const OpRule& rule) {
  const ValueId y = node.outputs.empty() ? kNone : node.outputs[0];
  const Value* output = y >= 0 && size_t(y) < graph.values.size() ? &graph.values[size_t(y)] : nullptr;
  const bool float_step = output != nullptr && is_float(output->type);
  std::string out;
  int first = 0;
  for (const Attribute& a : rule.attributes) {
    int used = 0;
    const auto word = [&](int i) { return size_t(first + i) < node.words.size() ? node.words[size_t(first + i)] : 0u; };
    for (int i = 0; i < a.count; ++i)
      if (word(i) != 0) used = i + 1;
    if (used > 0 && a.count > 1 && output != nullptr)
      used = std::max(used, std::min(a.count, int(std::min<size_t>(output->dims.size(), kMaxRank))));
    for (int i = 0; i < used; ++i)
      out += (i == 0 ? ' ' + std::string(a.name) + (a.count > 1 ? "=[" : "=") : ", ") +
             word_text(word(i), a.coding, float_step);
    if (used > 0 && a.count > 1) out += ']';
    first += a.count;
  }
  return out;
}

// Returns the text of the words that the op's table does not name, or of all words if the op has no rule.
std::string raw_words(const Node& node, const OpRule* rule) {
  size_t known = 0;
  if (rule != nullptr)
    for (const Attribute& a : rule->attributes) known += size_t(a.count);
  std::vector<uint32_t> rest(node.words.begin() + ptrdiff_t(std::min(known, node.words.size())), node.words.end());
  while (!rest.empty() && rest.back() == 0) rest.pop_back();
  return rest.empty() ? "" : " words=" + list(rest);
}

std::string node_line(const Graph& graph, const Node& node) {
  const OpRule* rule = find_rule(node.op);
  std::string out = node.outputs.empty() ? "none" : "";
  for (size_t i = 0; i < node.outputs.size(); ++i) out += (i > 0 ? ", " : "") + reference(graph, node.outputs[i]);
  out += " = " + (rule != nullptr ? std::string(rule->name) : "op" + number(uint32_t(node.op))) + '(';
  for (size_t i = 0; i < node.inputs.size(); ++i) out += (i > 0 ? ", " : "") + reference(graph, node.inputs[i]);
  out += ')';
  if (rule != nullptr) out += attributes_text(graph, node, *rule);
  out += raw_words(node, rule);
  field(out, "rounding", node.rounding, Rounding::kNone);
  if (!node.name.empty()) out += " name=" + quoted(node.name);
  if (node.layer >= 0 && size_t(node.layer) < graph.layers.size())
    out += " layer=" + quoted(graph.layers[size_t(node.layer)].name);
  if (node.guard != kNone) out += " guard=" + reference(graph, node.guard);
  if (node.wide) out += " wide=1";
  return out;
}

std::string binding_line(const Graph& graph, const char* kind, const Binding& binding) {
  return kind + (' ' + quoted(binding.name)) + ' ' + reference(graph, binding.value) +
         (binding.layout.empty() ? "" : " layout=" + quoted(binding.layout));
}

}  // namespace

template <>
std::span<const char* const> names<Kept>() {
  return kKept;
}

std::string dump(const Graph& graph, bool full) {
  std::string out = "graph " + quoted(graph.source) + " batch=" + number(graph.batch);
  field(out, "liveness_bound", graph.liveness_bound, uint64_t{0});
  const auto line = [&out](const std::string& text) { (out += '\n') += text; };
  for (const Bank& b : graph.banks)
    line("bank " + quoted(b.name) + " limit=" + number(b.limit) + " used=" + number(b.used));
  for (const auto& [key, text] : graph.metadata) line("meta " + quoted(key) + ' ' + quoted(text));
  for (const Layer& layer : graph.layers) line(layer_line(layer));
  for (const Value& value : graph.values) line(value_line(graph, value, full));
  for (const Binding& b : graph.inputs) line(binding_line(graph, "input", b));
  for (const Binding& b : graph.outputs) line(binding_line(graph, "output", b));
  for (const Node& node : graph.nodes) line(node_line(graph, node));
  for (const std::string& text : graph.log) line("log " + quoted(text));
  for (const std::string& text : graph.fallbacks) line("fallback " + quoted(text));
  return out + '\n';
}

}  // namespace nacre::tools
