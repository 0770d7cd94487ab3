// Converts VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE and CALL_ONCE. A variable is a value of the stream region (memory
// that lives between runs). A read is a copy, so its result stays when the variable is assigned. CALL_ONCE sets the
// numbers that variables start with. Only zeros are accepted, so zeroing the stream region resets it.
#include <algorithm>

#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {

ValueId Variables::named(const Operation& op, int like) {
  const std::map<int, std::string>& handles = importer_.scope().handles;
  const auto handle = handles.find(op.has_input(0) ? op.inputs[0] : kNone);
  if (handle == handles.end()) importer_.bad(op, "names no variable");
  if (!importer_.file().batch().same) importer_.unsupported(op, "a variable under another batch than the file's");
  Value v = importer_.tensors().value(like);
  if (v.quantizer || v.type == ElementType::kFloat16)
    importer_.unsupported(op, "a variable of another type than float32");
  const auto [found, is_new] = named_.emplace(handle->second, kNone);
  v.dims = importer_.tensors().dims(like);
  if (!is_new) {
    const Value& kept = importer_.value(found->second);
    if (kept.dims != v.dims || kept.type != v.type)
      importer_.bad(op, handle->second + " has shape " + dims_text(kept.dims) + " and " + dims_text(v.dims));
    return found->second;
  }
  importer_.file().check_limits(v.dims, handle->second);
  v.stored = ElementType::kNone;
  return found->second = add(std::move(v), handle->second);
}

ValueId Variables::state(const Operation& op, size_t i, std::vector<int64_t> dims, bool coded) {
  if (!op.has_input(i)) importer_.bad(op, "input " + std::to_string(i) + " is missing");
  const Tensors& tensors = importer_.tensors();
  const int index = op.inputs[i];
  ValueId& s = importer_.scope().values[size_t(index)];
  if (!tensors[index].is_variable() || tensors.has_data(index))
    importer_.unsupported(op, tensors.name(index) + " is a state that the file does not keep in a variable");
  if (s != kNone) importer_.unsupported(op, "reads the variable " + tensors.name(index) + " of another layer");
  int64_t elements = 1, expected = 1;
  for (const int64_t dim : tensors.dims(index)) elements *= dim;
  for (const int64_t dim : dims) expected *= dim;
  const std::vector<int64_t> given = tensors.dims(index);  // an SVDF's variable joins the last two axes
  const bool fits = given.size() != dims.size() || std::equal(given.begin() + 1, given.end(), dims.begin() + 1);
  if (!fits || (importer_.file().batch().same && elements != expected))
    importer_.bad(op, "its variable " + tensors.name(index) + " has shape " + dims_text(given));
  Value v;
  if (coded) v.quantizer = tensors.loop_codes(op, index);
  v.name = importer_.unique(tensors.name(index));
  v.dims = std::move(dims);
  v.region = Region::kStream;
  importer_.file().check_limits(v.dims, v.name);
  return s = importer_.graph().add(std::move(v));
}

ValueId Variables::stream(const std::string& name, std::vector<int64_t> dims) {
  Value v;
  v.type = ElementType::kInt32;
  v.dims = std::move(dims);
  return add(std::move(v), name);
}

ValueId Variables::add(Value v, const std::string& name) {
  v.name = importer_.unique(name);
  v.region = Region::kStream;
  return importer_.graph().add(std::move(v));
}

void Variables::store(ValueId x, ValueId s) {
  const ValueId y = importer_.between(x, "/stored");
  Graph& graph = importer_.graph();
  graph.nodes.push_back(make_step(Op::kStore, Node(), importer_.value(s).name + "/store", {x, s}, {y}));
  infer_shapes(graph, graph.nodes.back());
}

namespace {

void convert_handle(Importer& importer, Operation& op) {
  const auto& options = importer.options<VarHandleOptions>(op);
  const auto text = [](const flatbuffers::String* s) { return s == nullptr ? std::string() : s->str(); };
  const std::string name = text(options.shared_name()), container = text(options.container());
  if (importer.tensors()[op.outputs[0]].type() != TensorType::RESOURCE) importer.bad(op, "gives out no resource");
  importer.scope().handles[op.outputs[0]] = container.empty() ? name : container + "/" + name;
}

void convert_read(Importer& importer, Operation& op) {
  const ValueId s = importer.variables().named(op, op.outputs[0]), y = importer.output(op);
  importer.emit(op, {.op = Op::kCopy, .name = "", .words = {}, .inputs = {s}, .outputs = {y}});
}

void convert_assign(Importer& importer, Operation& op) {
  const ValueId x = importer.input(op, 1), s = importer.variables().named(op, op.inputs[1]);
  if (importer.value(x).quantizer) importer.unsupported(op, "a variable of another type than float32");
  importer.variables().store(x, s);
}

bool is_zero(const Model& model, const SubGraph& graph, int index) {
  if (index < 0 || size_t(index) >= size_of(graph.tensors())) return false;
  const uint32_t id = graph.tensors()->Get(flatbuffers::uoffset_t(index))->buffer();
  if (id >= size_of(model.buffers())) return false;
  const auto* data = model.buffers()->Get(id)->data();
  return data != nullptr && std::all_of(data->begin(), data->end(), [](uint8_t byte) { return byte == 0; });
}

// Accepts a CALL_ONCE only if its subgraph assigns zeros and does nothing else.
void convert_once(Importer& importer, Operation& op) {
  const File& file = importer.file();
  const SubGraph& graph = file.called_graph(op, importer.options<CallOnceOptions>(op).init_subgraph_index());
  for (size_t i = 0; i < size_of(graph.operators()); ++i) {
    const Operator& record = *graph.operators()->Get(flatbuffers::uoffset_t(i));
    if (record.opcode_index() >= size_of(file.model().operator_codes()))
      importer.bad(op, "calls a graph without operator codes");
    const BuiltinOperator code = file.code_of(record);
    if (code == BuiltinOperator::VAR_HANDLE) continue;
    if (code != BuiltinOperator::ASSIGN_VARIABLE || size_of(record.inputs()) != 2)
      importer.unsupported(op, "a graph that is called once and does more than to assign variables");
    if (!is_zero(file.model(), graph, record.inputs()->Get(1)))
      importer.unsupported(op, "a variable that does not start as zeros");
  }
}

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
