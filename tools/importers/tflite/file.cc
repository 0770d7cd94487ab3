// import_tflite: the file as a whole. Nothing in it is trusted: the FlatBuffers Verifier comes first, and every index
// is checked before it is used.
#include "tools/base/option_id.h"
#include "tools/importers/tflite/importer.h"

#include <algorithm>
#include <limits>

#include "tools/graph/batch.h"
#include "tools/importers/shared/import_end.h"

namespace nacre::tools {
namespace tflite {
namespace {

// Far above any real network (the largest of 238 examined has 170 operators), and few enough that no step below takes
// long.
constexpr size_t kMaxTensors = 20000;
constexpr size_t kMaxOperands = 1024;  // of one operator
constexpr const char* kNotSupported = ", which is not supported";

template <class T>
size_t count(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

const Converter* find_converter(BuiltinOperator code) {
  for (const auto& rows :
       {matmul_converters(), pointwise_converters(), move_converters(), slice_converters(), resize_converters(),
        space_converters(), transposed_converters(), recurrent_converters(), variable_converters(), rnn_converters(),
        repeat_converters(), control_converters(), whole_converters(), place_converters(), order_converters(),
        volume_converters(), dynamic_converters(), angle_converters(), detection_converters()})
    for (const Converter& row : rows)
      if (row.code == code) return &row;
  return nullptr;
}

}  // namespace

Importer::Importer(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options)
    : bytes_(bytes), name_(name), options_(options) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % 16 != 0) {
    aligned_.assign(bytes.begin(), bytes.end());
    bytes_ = aligned_;
  }
  graph_.source = name_;
}

void Importer::bad(const std::string& place, const std::string& fact) const {
  throw Error(kBadInput, name_, place + ": " + fact);
}
void Importer::bad(const Operation& op, const std::string& fact) const {
  bad(op.name + " (" + op.code_name + ")", fact);
}
void Importer::unsupported(const std::string& place, const std::string& reason) const {
  throw Error(kUnsupported, name_, place + ": " + reason + kNotSupported);
}
void Importer::unsupported(const Operation& op, const std::string& reason) const { unsupported(op.name, reason); }

const Model& verified_model(std::span<const uint8_t> bytes, const std::string& name) {
  // A file of 2 GiB or more keeps its data behind the FlatBuffer; offsets inside that are signed 32-bit.
  const size_t verified = std::min(bytes.size(), size_t{FLATBUFFERS_MAX_BUFFER_SIZE} - 1);
  flatbuffers::Verifier verifier(bytes.data(), verified);
  if (bytes.size() < 8 || !VerifyModelBuffer(verifier))
    throw Error(kBadInput, name, "is damaged: its FlatBuffer does not verify");
  return *GetModel(bytes.data());
}

void Importer::check_counts() {
  model_ = &verified_model(bytes_, name_);
  if (model_->version() != 3)
    throw Error(kUnsupported, name_, "is of schema version " + std::to_string(model_->version()) + ", only 3 is known");
  if (count(model_->subgraphs()) == 0) throw Error(kBadInput, name_, "has no graph");
}

void Importer::enter(const SubGraph& graph) {
  const size_t tensors = count(graph.tensors()), operators = count(graph.operators());
  if (tensors > kMaxTensors || operators > kMaxTensors)
    throw Error(kUnsupported, name_,
                "has " + std::to_string(std::max(tensors, operators)) + " tensors or operators, the limit is " +
                    std::to_string(kMaxTensors),
                "split the network into several");
  scope_ = {.graph = &graph, .depth = scope_.depth + 1};
  scope_.values.assign(tensors, kNone);
  scope_.written.assign(tensors, false);
  scope_.beside_quantize.assign(tensors, false);
  scope_.beside_signal.assign(tensors, false);
  find_int32_codes();
  find_signals();
}

// What is wrong with an operator is said where it is read.
void Importer::find_int32_codes() {
  const auto* codes = model_->operator_codes();
  for (size_t i = 0; i < count(scope_.graph->operators()); ++i) {
    const Operator& record = *scope_.graph->operators()->Get(flatbuffers::uoffset_t(i));
    if (record.opcode_index() >= count(codes) || code_of(record) != BuiltinOperator::QUANTIZE) continue;
    for (const auto* ids : {record.inputs(), record.outputs()})
      for (size_t j = 0; j < count(ids); ++j)
        if (const auto id = size_t(ids->Get(flatbuffers::uoffset_t(j))); id < scope_.beside_quantize.size())
          scope_.beside_quantize[id] = true;
  }
}

std::vector<int> Importer::operands(const flatbuffers::Vector<int32_t>* ids, const std::string& place) const {
  std::vector<int> result;
  if (count(ids) > kMaxOperands) unsupported(place, "has " + std::to_string(ids->size()) + " tensors");
  for (size_t i = 0; i < count(ids); ++i) {
    const int id = ids->Get(flatbuffers::uoffset_t(i));
    if (id < -1 || id >= int(scope_.values.size()))
      bad(place, "names tensor " + std::to_string(id) + ", which does not exist");
    result.push_back(id);
  }
  return result;
}

// Old files have only the byte; new ones repeat it there, or say 127 where it does not fit.
BuiltinOperator Importer::code_of(const Operator& record) const {
  const OperatorCode& code = *model_->operator_codes()->Get(record.opcode_index());
  return std::max(code.builtin_code(), BuiltinOperator(code.deprecated_builtin_code()));
}

Operation Importer::read_operation(const Operator& record, size_t index) const {
  Operation op;
  op.record = &record;
  const std::string place = "operator " + std::to_string(index);
  if (record.opcode_index() >= count(model_->operator_codes())) bad(place, "has no operator code");
  const OperatorCode& code = *model_->operator_codes()->Get(record.opcode_index());
  op.code = code_of(record);
  const char* known = EnumNameBuiltinOperator(op.code);
  op.code_name = *known != '\0' ? known : "operator code " + std::to_string(int(op.code));
  if (op.code == BuiltinOperator::CUSTOM)
    op.code_name =
        "CUSTOM " + (code.custom_code() != nullptr ? code.custom_code()->str() : std::string("without a name"));
  op.inputs = operands(record.inputs(), place);
  op.outputs = operands(record.outputs(), place);
  const bool gives = std::erase(op.outputs, kNone) == 0 && !op.outputs.empty();
  const bool may_not = op.code == BuiltinOperator::CALL_ONCE || op.code == BuiltinOperator::ASSIGN_VARIABLE;
  if (!gives && !may_not && find_converter(op.code) != nullptr) bad(place, "has no output");
  op.name = op.outputs.empty() ? place : tensor_name(op.outputs[0]);  // CALL_ONCE, ASSIGN_VARIABLE give out nothing
  for (const int id : op.outputs)
    if (has_data(id)) bad(op, "writes " + tensor_name(id) + ", which is a constant");
  return op;
}

// Axis 0 is a batch if every input has it open, or 1, and all agree.
void Importer::find_batch() {
  if (!options_.shapes.empty())
    throw Error(kUsage, name_,
                option("shape") + " is about ONNX files: axes of a TensorFlow Lite file are fixed when it is made",
                "leave it out, and export the network with the shape");
  const std::vector<int> inputs = operands(scope_.graph->inputs(), "the list of inputs");
  batchable_ = !inputs.empty();
  int64_t batch = 0;
  for (const int id : inputs) {
    if (id == kNone) bad("the list of inputs", "names no tensor");
    const std::vector<int64_t> dims = dims_of(id);
    const auto* open = tensor(id).shape_signature();
    const bool is_open = count(open) == dims.size() && !dims.empty() && open->Get(0) == -1;
    const bool fits = !dims.empty() && (is_open || dims[0] == 1) && (batch == 0 || dims[0] == batch);
    if (!fits && options_.batch > 0 && !options_.batch_if_open)
      throw Error(kUsage, name_,
                  "input " + tensor_name(id) + " of shape " + dims_text(dims) + " has no batch on its first axis",
                  "leave out " + option("batch"));
    if (fits) batch = dims[0];
    batchable_ = batchable_ && fits;
  }
  graph_.batch = !batchable_ ? 1 : options_.batch > 0 ? options_.batch : int(batch);
  same_batch_ = !batchable_ || graph_.batch == batch;
  file_batch_ = batch;
}

// Sizes that the file leaves open, beyond the batch: nothing after them has a known shape.
void Importer::find_open_axes(int id) {
  const auto* open = tensor(id).shape_signature();
  const std::vector<int64_t> dims = dims_of(id);
  for (size_t i = 1; i < dims.size() && count(open) == dims.size(); ++i) {
    if (open->Get(flatbuffers::uoffset_t(i)) == -1 && dims[i] == 1)
      problems_.push_back("input " + tensor_name(id) + ": axis " + std::to_string(i) +
                          " has no fixed size: export it with a fixed shape");
  }
}

// Of an input that is not supported what follows is looked at as if it were float32.
Value Importer::input_value(int id) {
  try {
    const Value v = make_value(id);
    if (v.type == ElementType::kFloat16) unsupported(tensor_name(id), "is a float16 input");
    return v;
  } catch (const Error& error) {
    if (error.code != kUnsupported) throw;
    const std::string what = without_file(error.what(), name_);
    problems_.push_back("input " + what.substr(0, what.find(kNotSupported)));
    return {};
  }
}

void Importer::read_inputs() {
  find_batch();
  for (const int id : operands(scope_.graph->inputs(), "the list of inputs")) {
    if (has_data(id)) bad(tensor_name(id), "is an input and a constant");
    if (scope_.values[size_t(id)] != kNone) bad(tensor_name(id), "is two inputs");
    find_open_axes(id);
    Value v = input_value(id);
    v.name = unique(tensor_name(id));
    v.stored = ElementType::kNone;
    v.dims = dims_of(id);
    if (batchable_) v.dims[0] = graph_.batch;
    check_limits(v.dims, tensor_name(id));
    scope_.values[size_t(id)] = graph_.add(std::move(v));
    graph_.inputs.push_back({graph_.values.back().name, scope_.values[size_t(id)], ""});
  }
}

bool convert_custom(Importer& importer, Operation& op) {
  return convert_list(importer, op) || convert_detection(importer, op);
}

void Importer::convert(Operation& op) {
  const size_t steps = graph_.nodes.size();
  const bool gives = !op.outputs.empty();
  const bool noted = gives && (note_rows(*this, op) || fold_shape_arithmetic(*this, op) || fold_integers(*this, op) ||
                               convert_whole(*this, op) || convert_complex(*this, op) || convert_signal(*this, op) ||
                               (op.code == BuiltinOperator::CUSTOM && convert_custom(*this, op)));
  if (!noted) {
    const Converter* converter = find_converter(op.code);
    if (converter == nullptr) unsupported(op, "an operator that the engine does not have");
    converter->convert(*this, op);
  }
  log_change(op, graph_.nodes.size() - steps);
}

// What no step tells of; of the network's own graph, not of each turn of a loop.
void Importer::log_change(const Operation& op, size_t steps) {
  if (scope_.depth > 0) return;
  const auto log = [&](const std::string& what) {
    graph_.log.push_back("import: " + op.name + " (" + op.code_name + "): " + what);
  };
  const auto is_constant = [&](int id) {
    const ValueId y = scope_.values[size_t(id)];
    return y != kNone && value(y).constant();
  };
  if (steps > 1) log("is " + std::to_string(steps) + " steps");
  if (steps == 0 && !op.outputs.empty() && std::ranges::all_of(op.outputs, is_constant))
    log("is computed at import: what it reads is constant");
}

// What was inferred must be what the file says, where it says something.
void Importer::check_outputs(const Operation& op) {
  for (const int id : op.outputs) {
    if (scope_.handles.contains(id) || scope_.complexes.contains(id) || scope_.sums.contains(id)) continue;
    if (is_list(id) && scope_.rows.contains(id)) continue;
    const ValueId y = scope_.values[size_t(id)];
    const auto rows = scope_.rows.find(id);
    if (y == kNone && rows == scope_.rows.end()) bad(op, "gives out more tensors than it has");
    const std::vector<int64_t> expected = dims_of(id), found = y == kNone ? rows->second.dims : value(y).dims;
    if (!same_batch_ || tensor(id).shape() == nullptr) continue;
    bool equal = expected.size() == found.size();
    for (size_t i = 0; equal && i < expected.size(); ++i) {
      const auto* open = tensor(id).shape_signature();
      equal = expected[i] == found[i] || (count(open) == expected.size() && open->Get(flatbuffers::uoffset_t(i)) == -1);
    }
    if (!equal)
      bad(op, "the file gives its output shape " + dims_text(expected) + ", the operator computes " + dims_text(found));
  }
}

// "name (CONV_2D): reason", from the sentence of an Error.
std::string Importer::problem(const Operation& op, std::string what) const {
  for (const std::string& prefix : {escaped(name_) + ": ", escaped(op.name, true) + ": "})
    if (what.starts_with(prefix)) what.erase(0, prefix.size());
  return op.name + " (" + op.code_name + "): " + what.substr(0, what.find(kNotSupported));
}

// What an operator that is not supported gives, as the file declares it.
ValueId Importer::stand_in(int id) {
  Value v;
  try {
    v = make_value(id);
  } catch (const Error&) {  // a type that is not supported either
  }
  if (v.type == ElementType::kFloat16 || (v.quantizer && v.quantizer->scale.size() > 1)) v = {};
  v.stored = ElementType::kNone;
  v.name = unique(tensor_name(id));
  if (count(tensor(id).shape()) <= size_t(kMaxRank)) v.dims = dims_of(id);
  if (!v.dims.empty() && batchable_ && !same_batch_ && v.dims[0] == file_batch_) v.dims[0] = graph_.batch;
  return graph_.add(std::move(v));
}

void Importer::read_operations() {
  for (size_t i = 0; i < count(scope_.graph->operators()); ++i) {
    Operation op = read_operation(*scope_.graph->operators()->Get(flatbuffers::uoffset_t(i)), i);
    for (const int id : op.outputs) {
      if (scope_.written[size_t(id)] || scope_.values[size_t(id)] != kNone)
        bad(op, "writes " + tensor_name(id) + " a second time");
      if (std::count(op.inputs.begin(), op.inputs.end(), id) > 0)
        bad(op, "reads " + tensor_name(id) + ", which it writes");
      scope_.written[size_t(id)] = true;
    }
    try {
      convert(op);
      check_outputs(op);
    } catch (const Error& error) {
      // else perhaps their consequence: what gives no shape leaves the file's
      if (error.code != kUnsupported && problems_.empty()) throw;
      if (error.code == kUnsupported) problems_.push_back(problem(op, error.what()));
      for (const int id : op.outputs)  // so that what follows is looked at too
        if (scope_.values[size_t(id)] == kNone || value(scope_.values[size_t(id)]).dims.empty())
          scope_.values[size_t(id)] = stand_in(id);
    }
  }
}

void Importer::read_outputs() {
  for (const int id : operands(scope_.graph->outputs(), "the list of outputs")) {
    if (id == kNone) bad("the list of outputs", "names no tensor");
    const ValueId y = made(id);
    if (y == kNone || (!scope_.written[size_t(id)] && value(y).constant()))
      bad(tensor_name(id), "is an output that no operator writes");
    if (value(y).constant()) problems_.push_back(tensor_name(id) + ": is an output that does not depend on the inputs");
    graph_.outputs.push_back({value(y).name, y, ""});
  }
  if (graph_.outputs.empty()) throw Error(kBadInput, name_, "has no output");
}

// Names of the first signature of this graph, where the file has one; "NHWC" where a spatial operator reads an input.
void Importer::name_bindings() {
  for (size_t i = 0; i < count(model_->signature_defs()); ++i) {
    const SignatureDef& signature = *model_->signature_defs()->Get(flatbuffers::uoffset_t(i));
    if (signature.subgraph_index() != 0) continue;
    const auto rename = [&](const flatbuffers::Vector<flatbuffers::Offset<TensorMap>>* maps,
                            std::vector<Binding>& bindings) {
      for (size_t j = 0; j < count(maps) && j < kMaxOperands; ++j) {
        const TensorMap& map = *maps->Get(flatbuffers::uoffset_t(j));
        if (map.name() == nullptr || map.tensor_index() >= scope_.values.size()) continue;
        for (Binding& b : bindings)
          if (b.value == scope_.values[map.tensor_index()]) b.name = map.name()->str();
      }
    };
    rename(signature.inputs(), graph_.inputs);
    rename(signature.outputs(), graph_.outputs);
    break;
  }
  name_image_inputs(graph_);
}

void Importer::describe() {
  if (model_->description() != nullptr && model_->description()->size() > 0 && model_->description()->size() <= 1024)
    graph_.metadata.emplace_back("description", model_->description()->str());
  graph_.metadata.emplace_back("format", "tflite");
  for (auto& pair : read_metadata(*model_, bytes_, name_, graph_)) graph_.metadata.push_back(std::move(pair));
}

Graph Importer::run() {
  check_counts();
  enter(*model_->subgraphs()->Get(0));
  read_inputs();
  read_operations();
  read_outputs();
  report_problems(name_, problems_, ", of " + std::to_string(count(scope_.graph->operators())) + " operators");
  name_bindings();
  describe();
  mark_batched(graph_, batchable_);
  return std::move(graph_);
}

}  // namespace tflite

Graph import_tflite(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options) {
  return tflite::Importer(bytes, name, options).run();
}

}  // namespace nacre::tools
