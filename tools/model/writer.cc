#include "tools/model/writer.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "tools/base/error.h"
#include "tools/graph/layouts.h"
#include "tools/model/gpu.h"
#include "tools/model/model_file.h"
#include "tools/model/model_limits.h"

namespace nacre::tools {
namespace {

// Collects the contents of the file before they are laid out. Ids are final as soon as they are given: weights first,
// then what persists between runs, then the arena tensors of each program.
class Writer {
 public:
  explicit Writer(const WriteOptions& options) : options_(options) {}

  std::vector<uint8_t> write(std::span<const ProgramSource> programs) {
    for (const ProgramSource& p : programs) {
      require_steps(*p.graph);
      require_names(*p.graph);
      add_constants(*p.graph);
    }
    for (const ProgramSource& p : programs) collect_persistent(*p.graph);
    for (const Region region : {Region::kState, Region::kStream, Region::kDerived, Region::kStep})
      add_persistent(region);
    for (size_t i = 0; i < programs.size(); ++i) find_persistent(*programs[i].graph, ids_[i]);
    for (const ProgramSource& p : programs) add_program(p);
    require_tensors(*programs[0].graph, tables_.tensors.size());
    if (options_.names)
      // The names of scales and zero points are new here.
      for (const std::string& name : tables_.names) require_value_name(*programs[0].graph, name);
    return model_file(tables_, programs, options_);
  }

 private:
  using Ids = std::vector<uint32_t>;  // of a graph's values

  // ---- Weights ----

  uint32_t add_weights(ElementType type, std::span<const int64_t> dims, std::span<const uint8_t> bytes,
                       const std::string& name, Layout layout = Layout::kRowMajor) {
    std::string key = {char(type), char(layout)};
    for (const int64_t d : dims) key += std::to_string(d) + ",";
    key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto [found, is_new] = shared_.emplace(std::move(key), uint32_t(tables_.tensors.size()));
    if (!is_new) return found->second;
    tables_.weights.resize((tables_.weights.size() + kAlignment - 1) / kAlignment * kAlignment);
    TensorRecord record = blank(type, dims);
    record.layout = layout;
    record.bytes = bytes.size();
    record.region = Region::kWeights;
    record.offset = tables_.weights.size();
    tables_.weights.insert(tables_.weights.end(), bytes.begin(), bytes.end());
    return add_record(record, name);
  }

  void add_constants(const Graph& graph) {
    Ids ids(graph.values.size(), kNoIndex);
    for (const Node& node : graph.nodes)
      for (const ValueId input : node.inputs) {
        if (input == kNone || !graph.values[size_t(input)].constant() || ids[size_t(input)] != kNoIndex) continue;
        const Value& v = graph.values[size_t(input)];
        const uint32_t id = add_weights(v.type, v.dims, *v.data, v.name, v.layout);
        ids[size_t(input)] = id;
        if (v.quantizer && v.quantizer->codes == v.type) set_quantizer(id, v);
      }
    for (const Value& v : graph.values)
      if ((v.region == Region::kDerived || v.region == Region::kState) && v.quantizer && v.quantizer->codes == v.type &&
          !persistent_quantizers_.contains(v.name))
        persistent_quantizers_.emplace(v.name, add_quantizer(*v.quantizer, v.name));
    for (const Value& v : graph.values)
      if (v.initial && !initial_.contains(v.name))
        initial_.emplace(v.name, add_weights(v.type, v.dims, *v.initial, v.name));
    ids_.push_back(std::move(ids));
  }

  void set_quantizer(uint32_t id, const Value& value) {
    const uint32_t quantizer = add_quantizer(*value.quantizer, value.name);
    tables_.tensors[id].quantizer = quantizer;
  }

  uint32_t add_quantizer(const Quantizer& q, const std::string& name) {
    QuantizerRecord record = {.scale = 0,
                              .zero = int32_t(q.zero.empty() ? 0 : q.zero[0]),
                              .scales = kNoIndex,
                              .zeros = kNoIndex,
                              .codes = q.codes,
                              .axis = uint8_t(std::max(0, q.axis)),
                              .form = ScaleForm::kStep,
                              .reserved = 0};
    if (q.scale.size() == 1) {
      record.scale = q.scale[0];
    } else {
      const int64_t count = int64_t(q.scale.size());
      record.scales = add_weights(ElementType::kFloat32, {&count, 1}, as_bytes(q.scale), name + "/scale");
      const bool differ = std::any_of(q.zero.begin(), q.zero.end(), [&](int64_t z) { return z != q.zero[0]; });
      if (differ) {
        const std::vector<int32_t> zeros(q.zero.begin(), q.zero.end());
        record.zeros = add_weights(ElementType::kInt32, {&count, 1}, as_bytes(zeros), name + "/zero");
      }
    }
    for (size_t i = 0; i < tables_.quantizers.size(); ++i)
      if (std::memcmp(&tables_.quantizers[i], &record, sizeof record) == 0) return uint32_t(i);
    tables_.quantizers.push_back(record);
    return uint32_t(tables_.quantizers.size() - 1);
  }

  // ---- State, stream, derived, step: one record for the values of one name in all programs ----

  struct Persistent {
    const Value* value;
    const Value* root = nullptr;  // the value that an alias refers to
    uint32_t id = kNoIndex;
  };

  void collect_persistent(const Graph& graph) {
    for (const Value& v : graph.values) {
      if (!v.persists()) continue;
      const Value* root = v.alias_of == kNone ? nullptr : &graph.values[size_t(v.alias_of)];
      const auto [found, is_new] = persistent_.emplace(v.name, Persistent{&v, root});
      const Value& first = *found->second.value;
      if (is_new) names_in_order_.push_back(v.name);
      else if (first.type != v.type || first.dims != v.dims || first.region != v.region || first.layout != v.layout)
        throw Error(kFailed, v.name, "two programs mean different tensors by this name");
    }
  }

  // Adds the values of a region. They are sorted by Value::kept, then by first occurrence; aliases come after their
  // targets. The initial value of a state tensor is stored among the weights.
  void add_persistent(Region region) {
    std::vector<Persistent*> members;
    for (const std::string& name : names_in_order_)
      if (Persistent& p = persistent_.at(name); p.value->region == region) members.push_back(&p);
    std::ranges::stable_sort(members, {},
                             [](const Persistent* p) { return std::pair(p->root != nullptr, p->value->kept); });
    uint64_t& bytes = tables_.region_bytes[size_t(region)];
    for (Persistent* p : members) {
      const Value& v = *p->value;
      TensorRecord record = blank(v.type, v.dims);
      record.layout = v.layout;
      record.bytes = bytes_as(v.type, v);
      record.region = region;
      record.flags = uint16_t((v.batched ? kBatched : 0) | (v.trainable ? kTrainable : 0));
      if (p->root != nullptr) {
        record.alias_of = persistent_.at(p->root->name).id;
        record.offset = v.offset;
      } else {
        record.offset = bytes;
        bytes = (bytes + record.bytes + kAlignment - 1) / kAlignment * kAlignment;
      }
      if (v.initial) record.initial = initial_.at(v.name);
      if (const auto found = persistent_quantizers_.find(v.name); found != persistent_quantizers_.end())
        record.quantizer = found->second;
      p->id = add_record(record, v.name);
    }
  }

  void find_persistent(const Graph& graph, Ids& ids) const {
    for (size_t i = 0; i < graph.values.size(); ++i)
      if (graph.values[i].persists()) ids[i] = persistent_.at(graph.values[i].name).id;
  }

  // ---- Programs ----

  void add_program(const ProgramSource& source) {
    const Graph& graph = *source.graph;
    Ids& ids = ids_[tables_.programs.size()];
    ModelTables::ProgramRecord program = {.first_step = uint32_t(tables_.steps.size()),
                                          .step_count = uint32_t(graph.nodes.size()),
                                          .first_tensor = uint32_t(tables_.tensors.size()),
                                          .tensor_count = 0,
                                          .inputs = {},
                                          .outputs = {}};
    add_arena(graph, ids);
    program.tensor_count = uint32_t(tables_.tensors.size()) - program.first_tensor;
    for (const Binding& b : graph.inputs) program.inputs.push_back(bind(ids, b, kInput));
    for (const Binding& b : graph.outputs) program.outputs.push_back(bind(ids, b, kOutput));
    const Ids layers = add_layers(graph);
    for (const Node& node : graph.nodes) add_step(source, node, ids, layers);
    StepRecord* const steps = tables_.steps.data() + tables_.steps.size() - graph.nodes.size();
    const uint8_t place = is_gpu_target(source.target) ? kGpuPlace : 0;
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      steps[i].place = i < source.places.size() ? source.places[i] : place;
    tables_.programs.push_back(std::move(program));
  }

  // Programs of one network have equal layers. They are stored once, as the first program has them.
  Ids add_layers(const Graph& graph) {
    Ids ids;
    for (const Layer& layer : graph.layers) {
      const auto [found, is_new] = layer_ids_.emplace(layer.name, uint32_t(tables_.layers.size()));
      if (is_new) tables_.layers.push_back(layer);
      ids.push_back(found->second);
    }
    return ids;
  }

  // Adds the used arena values, sorted by first step, aliases last. With equal first steps inputs come first: they
  // exist before the step and may hand their bytes to its outputs.
  void add_arena(const Graph& graph, Ids& ids) {
    std::vector<bool> used(graph.values.size(), false);
    const auto use = [&](ValueId id) {
      for (; id != kNone && !used[size_t(id)]; id = graph.values[size_t(id)].alias_of) used[size_t(id)] = true;
    };
    for (const Node& node : graph.nodes) {
      for (const ValueId id : node.inputs) use(id);
      for (const ValueId id : node.outputs) use(id);
      use(node.guard);
    }
    std::vector<bool> is_input(graph.values.size(), false);
    for (const Binding& b : graph.inputs) {
      use(b.value);
      is_input[size_t(b.value)] = true;
    }
    for (const Binding& b : graph.outputs) use(b.value);
    std::vector<ValueId> order;
    for (ValueId id = 0; id < ValueId(graph.values.size()); ++id)
      if (used[size_t(id)] && !graph.values[size_t(id)].constant() && !graph.values[size_t(id)].persists())
        order.push_back(id);
    std::stable_sort(order.begin(), order.end(), [&](ValueId a, ValueId b) {
      const Value &va = graph.values[size_t(a)], &vb = graph.values[size_t(b)];
      if ((va.alias_of != kNone) != (vb.alias_of != kNone)) return vb.alias_of != kNone;
      if (va.first_step != vb.first_step) return va.first_step < vb.first_step;
      return is_input[size_t(a)] && !is_input[size_t(b)];
    });
    for (const ValueId id : order) {
      const Value& v = graph.values[size_t(id)];
      TensorRecord record = blank(v.type, v.dims);
      record.layout = v.layout;
      record.bytes = bytes_as(v.type, v);
      record.region = v.region;
      record.bank = v.bank;
      record.offset = v.offset;
      record.first_step = v.first_step;
      record.last_step = v.last_step;
      record.alias_of = v.alias_of == kNone ? kNoIndex : ids[size_t(v.alias_of)];
      record.flags = v.batched ? kBatched : 0;
      if (v.quantizer && v.quantizer->codes == v.type && v.quantizer->scale.size() == 1)
        record.quantizer = add_quantizer(*v.quantizer, v.name);
      ids[size_t(id)] = add_record(record, v.name);
    }
  }

  uint32_t bind(const Ids& ids, const Binding& binding, TensorFlags flag) {
    const uint32_t id = ids[size_t(binding.value)];
    tables_.tensors[id].flags = uint16_t(tables_.tensors[id].flags | flag);
    return id;
  }

  void add_step(const ProgramSource& source, const Node& node, const Ids& ids, const Ids& layers) {
    const std::vector<ValueId> inputs = inputs_of_kernel(*source.graph, node, source.kernels);
    std::vector<uint32_t> words = node.words;
    while (!words.empty() && words.back() == 0) words.pop_back();
    StepRecord step = {};
    step.op = node.op;
    step.word_count = uint8_t(words.size());
    step.operand_count = uint8_t(inputs.size() + node.outputs.size());
    step.first_word = add_words(words);
    step.first_operand = uint32_t(tables_.operands.size());
    step.layer = node.layer == kNone ? kNoIndex : layers[size_t(node.layer)];
    step.guard = node.guard == kNone ? kNoIndex : ids[size_t(node.guard)];
    step.rounding = node.rounding;
    const auto operand = [&](ValueId id, Role role) {
      tables_.operands.push_back(id == kNone ? kNoOperand : ids[size_t(id)] | uint32_t(role) << 30);
    };
    const OpRule* rule = find_rule(node.op);
    for (size_t i = 0; i < inputs.size(); ++i)
      operand(inputs[i], rule != nullptr && is_updated(*rule, i) ? Role::kUpdate : Role::kIn);
    for (const ValueId id : node.outputs) operand(id, Role::kOut);
    tables_.steps.push_back(step);
  }

  // Stores the attribute words of a step and returns the index of the first. Equal lists of words are stored once.
  uint32_t add_words(const std::vector<uint32_t>& words) {
    const auto [found, is_new] = runs_.emplace(words, uint32_t(tables_.words.size()));
    if (is_new) tables_.words.insert(tables_.words.end(), words.begin(), words.end());
    return found->second;
  }

  // ---- Records ----

  static TensorRecord blank(ElementType type, std::span<const int64_t> dims) {
    TensorRecord record = {};
    record.element = type;
    record.rank = uint8_t(dims.size());
    uint64_t elements = 1;
    for (size_t i = 0; i < dims.size(); ++i) {
      record.dims[i] = int32_t(dims[i]);
      elements *= uint64_t(dims[i]);
    }
    record.bytes = storage_bytes(type, elements);
    record.alias_of = record.quantizer = record.initial = kNoIndex;
    return record;
  }

  uint32_t add_record(const TensorRecord& record, const std::string& name) {
    tables_.tensors.push_back(record);
    tables_.names.push_back(name);
    return uint32_t(tables_.tensors.size() - 1);
  }

  template <class T>
  static std::span<const uint8_t> as_bytes(const std::vector<T>& v) {
    return {reinterpret_cast<const uint8_t*>(v.data()), v.size() * sizeof(T)};
  }

  const WriteOptions& options_;
  std::map<std::string, uint32_t> shared_;          // type, dims and bytes of a constant -> tensor id
  std::map<std::vector<uint32_t>, uint32_t> runs_;  // attributes -> first word
  std::vector<Ids> ids_;                            // per program
  std::map<std::string, Persistent> persistent_;    // by name
  std::vector<std::string> names_in_order_;         // of persistent values, as first met
  std::map<std::string, uint32_t> initial_;         // of state values: tensor ids
  // name of a state or derived value -> the quantizer of its codes
  std::map<std::string, uint32_t> persistent_quantizers_;
  std::map<std::string, uint32_t> layer_ids_;  // by name
  ModelTables tables_;
};

}  // namespace

std::vector<uint8_t> write_model(std::span<const ProgramSource> programs, const WriteOptions& options) {
  return Writer(options).write(programs);
}

}  // namespace nacre::tools
