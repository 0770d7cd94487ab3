// VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE and CALL_ONCE: what one run leaves for the next, values of the stream
// region. A read is a copy: what it gives stays while the variable is assigned anew. CALL_ONCE gives variables the
// numbers that they start with, which zeros alone may be: so a stream that is zeroed is reset.
#include <algorithm>

#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {

void Importer::name_variable(const Operation& op) {
  const auto& options = this->options<VarHandleOptions>(op);
  const auto text = [](const flatbuffers::String* s) { return s == nullptr ? std::string() : s->str(); };
  const std::string name = text(options.shared_name()), container = text(options.container());
  if (tensor(op.outputs[0]).type() != TensorType::RESOURCE) bad(op, "gives out no resource");
  scope_.handles[op.outputs[0]] = container.empty() ? name : container + "/" + name;
}

ValueId Importer::variable(const Operation& op, int like) {
  const auto handle = scope_.handles.find(has_input(op, 0) ? op.inputs[0] : kNone);
  if (handle == scope_.handles.end()) bad(op, "names no variable");
  if (!same_batch_) unsupported(op, "a variable under another batch than the file's");
  Value v = make_value(like);
  if (v.quantizer || v.type == ElementType::kFloat16) unsupported(op, "a variable of another type than float32");
  const auto [found, is_new] = variables_.emplace(handle->second, kNone);
  v.dims = dims_of(like);
  if (!is_new) {
    const Value& kept = value(found->second);
    if (kept.dims != v.dims || kept.type != v.type)
      bad(op, handle->second + " has shape " + dims_text(kept.dims) + " and " + dims_text(v.dims));
    return found->second;
  }
  check_limits(v.dims, handle->second);
  v.stored = ElementType::kNone;
  v.region = Region::kStream;
  v.name = unique(handle->second);
  return found->second = graph_.add(std::move(v));
}

void Importer::store(ValueId x, ValueId s) {
  const ValueId y = between(x, "/stored");
  graph_.nodes.push_back(make_step(Op::kStore, Node(), value(s).name + "/store", {x, s}, {y}));
  infer_shapes(graph_, graph_.nodes.back());
}

// The subgraph of a CALL_ONCE assigns zeros, and does nothing else.
void Importer::check_initial(const Operation& op) const {
  const int index = options<CallOnceOptions>(op).init_subgraph_index();
  if (index < 1 || size_t(index) >= model_->subgraphs()->size()) bad(op, "calls a graph that does not exist");
  const SubGraph& graph = *model_->subgraphs()->Get(flatbuffers::uoffset_t(index));
  for (size_t i = 0; graph.operators() != nullptr && i < graph.operators()->size(); ++i) {
    const Operator& record = *graph.operators()->Get(flatbuffers::uoffset_t(i));
    if (record.opcode_index() >= model_->operator_codes()->size()) bad(op, "calls a graph without operator codes");
    const BuiltinOperator code = code_of(record);
    if (code == BuiltinOperator::VAR_HANDLE) continue;
    if (code != BuiltinOperator::ASSIGN_VARIABLE || record.inputs() == nullptr || record.inputs()->size() != 2)
      unsupported(op, "a graph that is called once and does more than to assign variables");
    if (!is_zero(graph, record.inputs()->Get(1))) unsupported(op, "a variable that does not start as zeros");
  }
}

bool Importer::is_zero(const SubGraph& graph, int index) const {
  if (graph.tensors() == nullptr || index < 0 || size_t(index) >= graph.tensors()->size()) return false;
  const uint32_t id = graph.tensors()->Get(flatbuffers::uoffset_t(index))->buffer();
  if (model_->buffers() == nullptr || id >= model_->buffers()->size()) return false;
  const auto* data = model_->buffers()->Get(id)->data();
  return data != nullptr && std::all_of(data->begin(), data->end(), [](uint8_t byte) { return byte == 0; });
}

namespace {

void convert_handle(Importer& importer, Operation& op) { importer.name_variable(op); }

void convert_read(Importer& importer, Operation& op) {
  const ValueId s = importer.variable(op, op.outputs[0]), y = importer.output(op);
  importer.emit(op, {.op = Op::kCopy, .name = "", .words = {}, .inputs = {s}, .outputs = {y}});
}

void convert_assign(Importer& importer, Operation& op) {
  const ValueId x = importer.input(op, 1), s = importer.variable(op, op.inputs[1]);
  if (importer.value(x).quantizer) importer.unsupported(op, "a variable of another type than float32");
  importer.store(x, s);
}

void convert_once(Importer& importer, Operation& op) { importer.check_initial(op); }

}  // namespace

std::span<const Converter> variable_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::VAR_HANDLE, &convert_handle},
      {BuiltinOperator::READ_VARIABLE, &convert_read},
      {BuiltinOperator::ASSIGN_VARIABLE, &convert_assign},
      {BuiltinOperator::CALL_ONCE, &convert_once},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
