#include "tools/writer.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "engine/base/crc32c.h"
#include "model_generated.h"
#include "tools/error.h"
#include "tools/graph/operands.h"
#include "tools/model_limits.h"

namespace nacre::tools {
namespace {

using flatbuffers::Offset;

std::vector<uint8_t> digest(std::span<const uint8_t> bytes) {
  std::vector<uint8_t> hash(32);
  unsigned length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), hash.data(), &length, EVP_sha256(), nullptr) != 1 || length != hash.size())
    throw Error(kFailed, "SHA-256", "the library refused");
  return hash;
}

// Everything of the file before it is laid out. Ids are final as soon as they are given: weights first, then the arena
// records of each program.
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
    for (const Region region : {Region::kState, Region::kStream, Region::kDerived, Region::kStep}) add_persistent(region);
    for (size_t i = 0; i < programs.size(); ++i) find_persistent(*programs[i].graph, ids_[i]);
    for (const ProgramSource& p : programs) add_program(p);
    require_tensors(*programs[0].graph, tensors_.size());
    if (options_.names)
      for (const std::string& name : names_) require_value_name(*programs[0].graph, name);  // those of scales and zero points are new
    return pack(build(programs));
  }

 private:
  struct ProgramRecord {
    uint32_t first_step, step_count, first_tensor, tensor_count;
    std::vector<uint32_t> inputs, outputs;
  };
  using Ids = std::vector<uint32_t>;  // of a graph's values

  // ---- Weights ----

  uint32_t add_weights(ElementType type, std::span<const int64_t> dims, std::span<const uint8_t> bytes, const std::string& name) {
    std::string key(1, char(type));
    for (const int64_t d : dims) key += std::to_string(d) + ",";
    key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto [found, is_new] = shared_.emplace(std::move(key), uint32_t(tensors_.size()));
    if (!is_new) return found->second;
    weights_.resize((weights_.size() + kAlignment - 1) / kAlignment * kAlignment);
    TensorRecord record = blank(type, dims);
    record.region = Region::kWeights;
    record.offset = weights_.size();
    weights_.insert(weights_.end(), bytes.begin(), bytes.end());
    return add_record(record, name);
  }

  void add_constants(const Graph& graph) {
    Ids ids(graph.values.size(), kNoIndex);
    for (const Node& node : graph.nodes)
      for (const ValueId input : node.inputs) {
        if (input == kNone || !graph.values[size_t(input)].constant() || ids[size_t(input)] != kNoIndex) continue;
        const Value& v = graph.values[size_t(input)];
        const uint32_t id = add_weights(v.type, v.dims, *v.data, v.name);
        ids[size_t(input)] = id;
        if (v.quantizer && v.quantizer->codes == v.type) set_quantizer(id, v);
      }
    for (const Value& v : graph.values)
      if (v.region == Region::kDerived && v.quantizer && v.quantizer->codes == v.type && !derived_quantizers_.contains(v.name))
        derived_quantizers_.emplace(v.name, add_quantizer(*v.quantizer, v.name));
    for (const Value& v : graph.values)
      if (v.initial && !initial_.contains(v.name)) initial_.emplace(v.name, add_weights(v.type, v.dims, *v.initial, v.name));
    ids_.push_back(std::move(ids));
  }

  void set_quantizer(uint32_t id, const Value& value) {
    const uint32_t quantizer = add_quantizer(*value.quantizer, value.name);
    tensors_[id].quantizer = quantizer;
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
    for (size_t i = 0; i < quantizers_.size(); ++i)
      if (std::memcmp(&quantizers_[i], &record, sizeof record) == 0) return uint32_t(i);
    quantizers_.push_back(record);
    return uint32_t(quantizers_.size() - 1);
  }

  // ---- State, stream, derived, step: one record for the values of one name in all programs ----

  struct Persistent {
    const Value* value;
    const Value* root = nullptr;  // of an alias
    uint32_t id = kNoIndex;
  };

  void collect_persistent(const Graph& graph) {
    for (const Value& v : graph.values) {
      if (!v.persists()) continue;
      const Value* root = v.alias_of == kNone ? nullptr : &graph.values[size_t(v.alias_of)];
      const auto [found, is_new] = persistent_.emplace(v.name, Persistent{&v, root});
      const Value& first = *found->second.value;
      if (is_new) names_in_order_.push_back(v.name);
      else if (first.type != v.type || first.dims != v.dims || first.region != v.region)
        throw Error(kFailed, v.name, "two programs mean different tensors by this name");
    }
  }

  // State is sorted by what it keeps, then all as they were met; aliases after their targets. The initial value of a state
  // tensor stands among the weights.
  void add_persistent(Region region) {
    std::vector<Persistent*> members;
    for (const std::string& name : names_in_order_)
      if (Persistent& p = persistent_.at(name); p.value->region == region) members.push_back(&p);
    std::ranges::stable_sort(members, {}, [](const Persistent* p) { return std::pair(p->root != nullptr, p->value->kept); });
    uint64_t& bytes = region_bytes_[size_t(region)];
    for (Persistent* p : members) {
      const Value& v = *p->value;
      TensorRecord record = blank(v.type, v.dims);
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
      if (const auto found = derived_quantizers_.find(v.name); found != derived_quantizers_.end()) record.quantizer = found->second;
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
    Ids& ids = ids_[programs_.size()];
    ProgramRecord program = {.first_step = uint32_t(steps_.size()),
                             .step_count = uint32_t(graph.nodes.size()),
                             .first_tensor = uint32_t(tensors_.size()),
                             .tensor_count = 0,
                             .inputs = {},
                             .outputs = {}};
    add_arena(graph, ids);
    program.tensor_count = uint32_t(tensors_.size()) - program.first_tensor;
    for (const Binding& b : graph.inputs) program.inputs.push_back(bind(ids, b, kInput));
    for (const Binding& b : graph.outputs) program.outputs.push_back(bind(ids, b, kOutput));
    const Ids layers = add_layers(graph);
    for (const Node& node : graph.nodes) add_step(graph, node, ids, layers);
    programs_.push_back(std::move(program));
  }

  // Programs of one network have the same layers: stored once, as the first of them has it.
  Ids add_layers(const Graph& graph) {
    Ids ids;
    for (const Layer& layer : graph.layers) {
      const auto [found, is_new] = layer_ids_.emplace(layer.name, uint32_t(layers_.size()));
      if (is_new) layers_.push_back(layer);
      ids.push_back(found->second);
    }
    return ids;
  }

  // Used arena values, sorted by first step, aliases last. Of one first step inputs come first: they are there before the
  // step, and may hand their bytes to what it writes.
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
      if (used[size_t(id)] && !graph.values[size_t(id)].constant() && !graph.values[size_t(id)].persists()) order.push_back(id);
    std::stable_sort(order.begin(), order.end(), [&](ValueId a, ValueId b) {
      const Value &va = graph.values[size_t(a)], &vb = graph.values[size_t(b)];
      if ((va.alias_of != kNone) != (vb.alias_of != kNone)) return vb.alias_of != kNone;
      if (va.first_step != vb.first_step) return va.first_step < vb.first_step;
      return is_input[size_t(a)] && !is_input[size_t(b)];
    });
    for (const ValueId id : order) {
      const Value& v = graph.values[size_t(id)];
      TensorRecord record = blank(v.type, v.dims);
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
    tensors_[id].flags = uint16_t(tensors_[id].flags | flag);
    return id;
  }

  void add_step(const Graph& graph, const Node& node, const Ids& ids, const Ids& layers) {
    const std::vector<ValueId> inputs = inputs_of_kernel(graph, node);
    std::vector<uint32_t> words = node.words;
    while (!words.empty() && words.back() == 0) words.pop_back();
    StepRecord step = {};
    step.op = node.op;
    step.word_count = uint8_t(words.size());
    step.operand_count = uint8_t(inputs.size() + node.outputs.size());
    step.first_word = add_words(words);
    step.first_operand = uint32_t(operands_.size());
    step.layer = node.layer == kNone ? kNoIndex : layers[size_t(node.layer)];
    step.guard = node.guard == kNone ? kNoIndex : ids[size_t(node.guard)];
    step.rounding = node.rounding;
    const auto operand = [&](ValueId id, Role role) {
      operands_.push_back(id == kNone ? kNoOperand : ids[size_t(id)] | uint32_t(role) << 30);
    };
    const OpRule* rule = find_rule(node.op);
    for (size_t i = 0; i < inputs.size(); ++i)
      operand(inputs[i], rule != nullptr && is_updated(*rule, i) ? Role::kUpdate : Role::kIn);
    for (const ValueId id : node.outputs) operand(id, Role::kOut);
    steps_.push_back(step);
  }

  // Equal runs of attributes are stored once.
  uint32_t add_words(const std::vector<uint32_t>& words) {
    const auto [found, is_new] = runs_.emplace(words, uint32_t(words_.size()));
    if (is_new) words_.insert(words_.end(), words.begin(), words.end());
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
    tensors_.push_back(record);
    names_.push_back(name);
    return uint32_t(tensors_.size() - 1);
  }

  template <class T>
  static std::span<const uint8_t> as_bytes(const std::vector<T>& v) {
    return {reinterpret_cast<const uint8_t*>(v.data()), v.size() * sizeof(T)};
  }

  // ---- FlatBuffer and file ----

  template <class Record, class T>
  static auto structs(flatbuffers::FlatBufferBuilder& b, const std::vector<T>& records) {
    static_assert(sizeof(Record) == sizeof(T));
    return b.CreateVectorOfStructs(reinterpret_cast<const Record*>(records.data()), records.size());
  }

  Offset<schema::Program> build_program(flatbuffers::FlatBufferBuilder& b, const ProgramSource& source, const ProgramRecord& p) {
    const Graph& graph = *source.graph;
    std::vector<uint64_t> banks;
    std::vector<std::string> bank_names, names[2], layouts[2];
    for (const Bank& bank : graph.banks) {
      banks.push_back(bank.used);
      bank_names.push_back(bank.name);
    }
    const std::vector<Binding>* bindings[] = {&graph.inputs, &graph.outputs};
    for (int side = 0; side < 2; ++side)
      for (const Binding& binding : *bindings[side]) {
        names[side].push_back(binding.name);
        layouts[side].push_back(binding.layout);
      }
    return schema::CreateProgram(
        b, uint8_t(source.entry), b.CreateString(source.target), p.first_step, p.step_count, p.first_tensor, p.tensor_count,
        uint32_t(graph.batch), structs<schema::BankRecord>(b, banks), b.CreateVectorOfStrings(bank_names),
        b.CreateVector(p.inputs), b.CreateVector(p.outputs), b.CreateVectorOfStrings(names[0]),
        b.CreateVectorOfStrings(names[1]), b.CreateVectorOfStrings(layouts[0]), b.CreateVectorOfStrings(layouts[1]),
        graph.liveness_bound);
  }

  flatbuffers::DetachedBuffer build(std::span<const ProgramSource> sources) {
    flatbuffers::FlatBufferBuilder b;
    std::vector<Offset<schema::Program>> programs;
    for (size_t i = 0; i < sources.size(); ++i) programs.push_back(build_program(b, sources[i], programs_[i]));
    std::vector<Offset<schema::Layer>> layers;
    for (const Layer& layer : layers_) {
      schema::PolicyRecord policy;
      std::memcpy(static_cast<void*>(&policy), &layer.policy, sizeof policy);
      const auto name = b.CreateString(layer.name), op = b.CreateString(layer.source_op);
      layers.push_back(schema::CreateLayer(b, name, op, &policy));
    }
    std::vector<Offset<schema::KeyValue>> metadata;
    for (const auto& [key, value] : sources[0].graph->metadata) {
      const auto k = b.CreateString(key), v = b.CreateString(value);
      metadata.push_back(schema::CreateKeyValue(b, k, v));
    }
    std::vector<Offset<schema::Golden>> golden;
    for (const GoldenPair& pair : options_.golden) {
      const auto in = b.CreateVector(pair.inputs), out = b.CreateVector(pair.outputs);
      golden.push_back(schema::CreateGolden(b, pair.program, in, out, pair.tolerance));
    }
    const std::vector<SegmentRecord> segments = {{.offset = 0, .bytes = weights_.size(), .crc = 0, .reserved = 0}};
    const auto tensors = structs<schema::TensorRecord>(b, tensors_);
    const auto quantizers = structs<schema::QuantizerRecord>(b, quantizers_);
    const auto steps = structs<schema::StepRecord>(b, steps_);
    const auto segment_vector = structs<schema::SegmentRecord>(b, segments);
    const auto words = b.CreateVector(words_), operands = b.CreateVector(operands_);
    const auto program_vector = b.CreateVector(programs);
    const auto layer_vector = b.CreateVector(layers);
    const auto names = options_.names ? b.CreateVectorOfStrings(names_) : 0;
    const auto metadata_vector = b.CreateVector(metadata);
    const auto golden_vector = golden.empty() ? 0 : b.CreateVector(golden);
    b.Finish(schema::CreateModel(b, tensors, quantizers, steps, words, operands, segment_vector, program_vector, layer_vector,
                                 region_bytes_[size_t(Region::kState)], region_bytes_[size_t(Region::kStream)],
                                 region_bytes_[size_t(Region::kDerived)], region_bytes_[size_t(Region::kStep)], names, metadata_vector, golden_vector));
    return b.Release();
  }

  // Header, FlatBuffer, weights; then what is known only now: offsets, checksums and the hash.
  std::vector<uint8_t> pack(const flatbuffers::DetachedBuffer& flatbuffer) {
    const size_t end = sizeof(FileHeader) + flatbuffer.size();
    const size_t weights = (end + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
    std::vector<uint8_t> file(weights + weights_.size());
    std::memcpy(file.data() + sizeof(FileHeader), flatbuffer.data(), flatbuffer.size());
    std::copy(weights_.begin(), weights_.end(), file.begin() + std::ptrdiff_t(weights));

    const schema::Model* root = schema::GetModel(file.data() + sizeof(FileHeader));
    const auto* record = reinterpret_cast<const uint8_t*>(root->segments()->Get(0));
    const SegmentRecord segment = {
        .offset = weights, .bytes = weights_.size(), .crc = crc32c(std::as_bytes(std::span(weights_))), .reserved = 0};
    std::memcpy(file.data() + (record - file.data()), &segment, sizeof segment);

    FileHeader header = {};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.version = kFileVersion;
    header.byte_order = kByteOrderMark;
    header.total_bytes = file.size();
    header.flatbuffer_offset = sizeof(FileHeader);
    header.flatbuffer_bytes = uint32_t(flatbuffer.size());
    const std::vector<uint8_t> hash = digest(std::span(file).subspan(sizeof(FileHeader)));
    std::copy_n(hash.begin(), sizeof header.hash, header.hash);
    std::memcpy(file.data(), &header, sizeof header);
    const auto bytes = std::as_bytes(std::span(file));
    header.crc = crc32c(bytes.subspan(16, end - 16), crc32c(bytes.first(12)));
    std::memcpy(file.data(), &header, sizeof header);
    return file;
  }

  const WriteOptions& options_;
  std::map<std::string, uint32_t> shared_;                // type, dims and bytes of a constant -> tensor id
  std::map<std::vector<uint32_t>, uint32_t> runs_;        // attributes -> first word
  std::vector<Ids> ids_;                                  // per program
  std::map<std::string, Persistent> persistent_;          // by name
  std::vector<std::string> names_in_order_;               // of persistent values, as first met
  std::map<std::string, uint32_t> initial_;               // of state values: tensor ids
  std::map<std::string, uint32_t> derived_quantizers_;    // of derived values: what their codes mean
  uint64_t region_bytes_[size_t(Region::kCount)] = {};
  std::vector<TensorRecord> tensors_;
  std::vector<std::string> names_;
  std::vector<QuantizerRecord> quantizers_;
  std::vector<StepRecord> steps_;
  std::vector<uint32_t> words_, operands_;
  std::vector<ProgramRecord> programs_;
  std::map<std::string, uint32_t> layer_ids_;
  std::vector<Layer> layers_;
  std::vector<uint8_t> weights_;
};

}  // namespace

std::string sha256(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest(bytes)) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::vector<uint8_t> write_model(std::span<const ProgramSource> programs, const WriteOptions& options) {
  return Writer(options).write(programs);
}

}  // namespace nacre::tools
