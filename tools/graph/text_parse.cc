// parse() reads the text form that text.cc describes. People write such text, so an error of syntax, or a name that is
// not defined, throws an Error with its line number.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <unordered_map>

#include "tools/graph/graph.h"
#include "tools/graph/text_line.h"

namespace nacre::tools {
namespace {

template <class T>
std::vector<uint8_t> number_bytes(Line& line) {
  std::vector<uint8_t> bytes;
  for (const T item : line.list<T>('{', '}')) {
    bytes.resize(bytes.size() + sizeof(T));
    std::memcpy(bytes.data() + bytes.size() - sizeof(T), &item, sizeof(T));
  }
  return bytes;
}

std::vector<uint8_t> hex_bytes(Line& line) {
  const std::string text = line.word();
  std::vector<uint8_t> bytes;
  if (text == "empty") return bytes;
  if (text.size() % 2 != 0) line.fail("hex data has an odd number of digits");
  for (size_t i = 0; i < text.size(); i += 2) {
    uint8_t b = 0;
    if (std::from_chars(&text[i], &text[i] + 2, b, 16).ptr != &text[i] + 2) line.fail("hex data has another character");
    bytes.push_back(b);
  }
  return bytes;
}

std::vector<uint8_t> data_bytes(Line& line, ElementType type) {
  if (!line.at('{')) {
    const std::string form = line.word();
    if (form == "hash") line.fail("data given as a hash: this text was not dumped in full");
    if (form != "hex") line.fail("expected {numbers} or hex, not '" + form + "'");
    return hex_bytes(line);
  }
  switch (type) {
    case ElementType::kFloat32: return number_bytes<float>(line);
    case ElementType::kInt8: return number_bytes<int8_t>(line);
    case ElementType::kUint8:
    case ElementType::kBool: return number_bytes<uint8_t>(line);
    case ElementType::kInt16: return number_bytes<int16_t>(line);
    case ElementType::kInt32: return number_bytes<int32_t>(line);
    case ElementType::kInt64: return number_bytes<int64_t>(line);
    case ElementType::kUint32: return number_bytes<uint32_t>(line);
    default: line.fail(std::string("elements of type ") + name_of(type) + " are given as hex");
  }
}

class Parser {
 public:
  Graph run(const std::string& text) {
    graph_.banks.clear();
    int number = 0;
    for (size_t first = 0; first < text.size();) {
      const size_t last = std::min(text.find('\n', first), text.size());
      Line line(std::string_view(text).substr(first, last - first), ++number);
      if (!line.end()) record(line);
      if (!line.end()) line.fail("more text after the end of the record");
      first = last + 1;
    }
    for (const auto& [id, name, line] : aliases_) graph_.values[size_t(id)].alias_of = find(line, name);
    if (graph_.banks.empty()) graph_.banks = Graph().banks;
    return std::move(graph_);
  }

 private:
  void record(Line& line) {
    if (line.at('%')) return node(line);
    const std::string kind = line.word();
    if (kind == "none") return node(line, true);
    if (kind == "graph") return graph(line);
    if (kind == "bank") return bank(line);
    if (kind == "layer") return layer(line);
    if (kind == "value") return value(line);
    if (kind == "input") return graph_.inputs.push_back(binding(line));
    if (kind == "output") return graph_.outputs.push_back(binding(line));
    if (kind == "log") return graph_.log.push_back(line.string());
    if (kind == "fallback") return graph_.fallbacks.push_back(line.string());
    if (kind != "meta") line.fail("unknown record '" + kind + "'");
    std::string key = line.string();
    graph_.metadata.emplace_back(std::move(key), line.string());
  }

  // Reads pairs of `key=` and a value until the line ends. `field(key)` reads the value.
  template <class F>
  static void fields(Line& line, F field) {
    while (!line.end()) {
      const std::string key = line.word();
      line.expect('=');
      if (!field(key)) line.fail("unknown field '" + key + "'");
    }
  }

  void graph(Line& line) {
    graph_.source = line.string();
    fields(line, [&](const std::string& key) {
      if (key == "batch") graph_.batch = line.number<int>();
      else if (key == "liveness_bound") graph_.liveness_bound = line.number<uint64_t>();
      else return false;
      return true;
    });
  }

  void bank(Line& line) {
    Bank bank{line.string()};
    fields(line, [&](const std::string& key) {
      if (key == "limit") bank.limit = line.number<uint64_t>();
      else if (key == "used") bank.used = line.number<uint64_t>();
      else return false;
      return true;
    });
    graph_.banks.push_back(bank);
  }

  void layer(Line& line) {
    Layer layer = {.name = line.string(), .source_op = "", .policy = {}};
    Policy& p = layer.policy;
    fields(line, [&](const std::string& key) {
      if (key == "source") layer.source_op = line.string();
      else if (key == "says") layer.source_policy = line.string();
      else if (key == "asked") layer.asked = line.number<uint8_t>() != 0;
      else if (key == "variable") p.variable = line.one_of<ElementType>("an element type");
      else if (key == "compute") p.compute = line.one_of<ElementType>("an element type");
      else if (key == "output") p.output = line.one_of<ElementType>("an element type");
      else if (key == "quantization") p.quantization = line.one_of<Quantization>("a quantization");
      else if (key == "amax_history_length") p.amax_history_length = line.number<uint16_t>();
      else if (key == "margin") p.margin = line.number<int8_t>();
      else if (key == "update_order") p.update_order = line.one_of<UpdateOrder>("an update order");
      else if (key == "amax_rule") p.amax_rule = line.one_of<AmaxRule>("an amax rule");
      else if (key == "scale_form") p.scale_form = line.one_of<ScaleForm>("a scale form");
      else if (key == "rounding") p.rounding = uint8_t(line.one_of<Rounding>("a rounding"));
      else if (key == "loss_scale") p.loss_scale = line.one_of<LossScale>("a loss scale");
      else if (key == "block") p.block = line.number<uint32_t>();
      else if (key == "loss_scale_value") p.loss_scale_value = line.number<float>();
      else if (key == "activation_zero") p.activation_zero = line.number<uint8_t>();
      else if (key == "group_range") p.group_range = line.one_of<GroupRange>("a group range");
      else if (key == "operation_rounding") p.operation_rounding = line.one_of<OperationRounding>("last or each");
      else if (key == "weight_fit") p.weight_fit = line.one_of<WeightFit>("a weight fit");
      else if (key == "weight_bits") p.weight_bits = line.number<uint8_t>();
      else if (key == "activation_order") p.activation_order = line.number<uint8_t>();
      else return false;
      return true;
    });
    if (!layers_.emplace(layer.name, int(graph_.layers.size())).second) line.fail("two layers are named " + layer.name);
    graph_.layers.push_back(layer);
  }

  void value(Line& line) {
    Value v;
    line.expect('%');
    v.name = line.name();
    v.type = line.one_of<ElementType>("an element type");
    v.dims = line.list<int64_t>();
    const auto id = ValueId(graph_.values.size());
    if (!values_.emplace(v.name, id).second) line.fail("two values are named " + v.name);
    while (!line.end()) {
      const std::string key = line.word();
      bool* const flag = key == "batched"       ? &v.batched
                         : key == "trainable"   ? &v.trainable
                         : key == "keeps_steps" ? &v.keeps_steps
                         : key == "fixed"       ? &v.fixed
                         : key == "frozen"      ? &v.frozen
                         : key == "variable"    ? &v.variable
                                                : nullptr;
      if (flag != nullptr) {
        *flag = true;
        continue;
      }
      line.expect('=');
      value_field(line, key, v, id);
    }
    graph_.values.push_back(std::move(v));
  }

  void value_field(Line& line, const std::string& key, Value& v, ValueId id) {
    const auto quantizer = [&v]() -> Quantizer& { return v.quantizer ? *v.quantizer : v.quantizer.emplace(); };
    if (key == "codes") quantizer().codes = line.one_of<ElementType>("an element type");
    else if (key == "axis") quantizer().axis = line.number<int>();
    else if (key == "scale") quantizer().scale = line.list<float>();
    else if (key == "zero") quantizer().zero = line.list<int64_t>();
    else if (key == "amaxes") v.amaxes = line.list<float>();
    else if (key == "layout") v.layout = Layout(line.number<uint8_t>());
    else if (key == "region") v.region = line.one_of<Region>("a region");
    else if (key == "bank") v.bank = line.number<uint8_t>();
    else if (key == "offset") v.offset = line.number<uint64_t>();
    else if (key == "stored") v.stored = line.one_of<ElementType>("an element type");
    else if (key == "steps") steps(line, v);
    else if (key == "alias") line.expect('%'), aliases_.push_back({id, line.name(), line});
    else if (key == "data") data(line, v);
    else if (key == "kept") v.kept = line.one_of<Kept>("what state keeps");
    else if (key == "initial") v.initial = std::make_shared<const std::vector<uint8_t>>(data_bytes(line, v.type));
    else line.fail("unknown field '" + key + "'");
  }

  static void steps(Line& line, Value& v) {
    const std::vector<uint32_t> range = line.list<uint32_t>();
    if (range.size() != 2) line.fail("steps needs a first and a last step");
    v.first_step = range[0];
    v.last_step = range[1];
  }

  static void data(Line& line, Value& v) {
    v.stored = line.one_of<ElementType>("an element type");
    v.data = std::make_shared<const std::vector<uint8_t>>(data_bytes(line, v.stored));
  }

  Binding binding(Line& line) {
    Binding binding{line.string(), reference(line), ""};
    fields(line, [&](const std::string& key) {
      if (key == "layout") binding.layout = line.string();
      return key == "layout";
    });
    return binding;
  }

  ValueId find(const Line& line, const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) line.fail("no value is named " + name);
    return found->second;
  }

  ValueId reference(Line& line) {
    if (line.take('%')) return find(line, line.name());
    if (line.word() != "none") line.fail("expected a %value or none");
    return kNone;
  }

  void node(Line& line, bool none_taken = false) {
    Node node;
    if (!none_taken) node.outputs.push_back(reference(line));
    while (line.take(',')) node.outputs.push_back(reference(line));
    line.expect('=');
    const std::string op = line.word();
    const OpRule* rule = find_rule(op.c_str());
    if (rule != nullptr) node.op = rule->op;
    else node.op = unknown_op(line, op);
    line.expect('(');
    while (!line.take(')')) {
      if (!node.inputs.empty()) line.expect(',');
      node.inputs.push_back(reference(line));
    }
    fields(line, [&](const std::string& key) { return node_field(line, key, node, rule); });
    while (!node.words.empty() && node.words.back() == 0) node.words.pop_back();
    graph_.nodes.push_back(std::move(node));
  }

  static Op unknown_op(const Line& line, const std::string& name) {
    uint16_t id = 0;
    const char* last = name.data() + name.size();
    if (!name.starts_with("op") || name.size() < 3 || std::from_chars(name.data() + 2, last, id).ptr != last)
      line.fail("unknown op '" + name + "'");
    return Op(id);
  }

  bool node_field(Line& line, const std::string& key, Node& node, const OpRule* rule) {
    size_t first = 0;
    if (rule != nullptr)
      for (const Attribute& a : rule->attributes) {
        if (key == a.name) return attribute(line, node, a, first), true;
        first += size_t(a.count);
      }
    if (key == "guard") node.guard = reference(line);
    else if (key == "rounding") node.rounding = line.one_of<Rounding>("a rounding");
    else if (key == "name") node.name = line.string();
    else if (key == "wide") node.wide = line.number<uint8_t>() != 0;
    else if (key == "layer") node.layer = layer_of(line, line.string());
    else if (key == "words") put_words(line, node, line.list<uint32_t>(), first);
    else return false;
    return true;
  }

  int layer_of(const Line& line, const std::string& name) const {
    const auto found = layers_.find(name);
    if (found == layers_.end()) line.fail("no layer is named " + name);
    return found->second;
  }

  static void put_words(const Line& line, Node& node, const std::vector<uint32_t>& words, size_t first) {
    if (words.size() > 255) line.fail("a step has at most 255 words");
    node.words.resize(std::max(node.words.size(), first + words.size()));
    std::copy(words.begin(), words.end(), node.words.begin() + ptrdiff_t(first));
  }

  void attribute(Line& line, Node& node, const Attribute& a, size_t first) const {
    const ElementType y = node.outputs.empty() ? ElementType::kNone : graph_.values[size_t(node.outputs[0])].type;
    const bool float_step = y == ElementType::kFloat32 || y == ElementType::kFloat16 || y == ElementType::kBfloat16 ||
                            y == ElementType::kFloat64;
    std::vector<uint32_t> words;
    if (a.coding == Coding::kReal || (a.coding == Coding::kBound && float_step)) {
      for (const float f : a.count > 1 ? line.list<float>() : std::vector<float>{line.number<float>()})
        words.push_back(std::bit_cast<uint32_t>(f));
    } else {
      for (const int32_t i : a.count > 1 ? line.list<int32_t>() : std::vector<int32_t>{line.number<int32_t>()})
        words.push_back(uint32_t(i) - (a.coding == Coding::kLessOne ? 1u : 0u));
    }
    if (words.size() > size_t(a.count))
      line.fail(std::string(a.name) + " has at most " + std::to_string(a.count) + " numbers");
    put_words(line, node, words, first);
  }

  struct Alias {
    ValueId id;
    std::string name;
    Line line;
  };

  Graph graph_;
  std::unordered_map<std::string, ValueId> values_;
  std::unordered_map<std::string, int> layers_;
  std::vector<Alias> aliases_;
};

}  // namespace

Graph parse(const std::string& text) { return Parser().run(text); }

}  // namespace nacre::tools
