// Implements import_tflite, which reads a whole file.
#include "tools/importers/tflite/reader.h"

#include <algorithm>

#include "tools/base/option_id.h"
#include "tools/graph/batch.h"
#include "tools/importers/shared/import_end.h"

namespace nacre::tools {
namespace tflite {
namespace {

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

Reader::Reader(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options)
    : file_(bytes, name, options), importer_(file_, *this), scope_(importer_.scope()), graph_(importer_.graph()),
      tensors_(importer_.tensors()) {}

Operation Reader::read_operation(size_t index) const {
  const Operator& record = *tensors_.graph().operators()->Get(flatbuffers::uoffset_t(index));
  Operation op{.record = &record};
  const std::string place = "operator " + std::to_string(index);
  if (record.opcode_index() >= size_of(file_.model().operator_codes())) file_.bad(place, "has no operator code");
  const OperatorCode& code = *file_.model().operator_codes()->Get(record.opcode_index());
  op.code = file_.code_of(record);
  const char* known = EnumNameBuiltinOperator(op.code);
  op.code_name = *known != '\0' ? known : "operator code " + std::to_string(int(op.code));
  if (op.code == BuiltinOperator::CUSTOM)
    op.code_name =
        "CUSTOM " + (code.custom_code() != nullptr ? code.custom_code()->str() : std::string("without a name"));
  op.inputs = tensors_.operands(record.inputs(), place);
  op.outputs = tensors_.operands(record.outputs(), place);
  const bool gives = std::erase(op.outputs, kNone) == 0 && !op.outputs.empty();
  const bool may_not = op.code == BuiltinOperator::CALL_ONCE || op.code == BuiltinOperator::ASSIGN_VARIABLE;
  if (!gives && !may_not && find_converter(op.code) != nullptr) file_.bad(place, "has no output");
  op.name = op.outputs.empty() ? place : tensors_.name(op.outputs[0]);  // CALL_ONCE and ASSIGN_VARIABLE have no outputs
  for (const int id : op.outputs)
    if (tensors_.has_data(id)) importer_.bad(op, "writes " + tensors_.name(id) + ", which is a constant");
  return op;
}

// Decides whether axis 0 is a batch: every input has it open or 1, and all agree.
void Reader::find_batch() {
  if (!file_.options().shapes.empty())
    throw Error(kUsage, file_.name(),
                option("shape") + " is about ONNX files: axes of a TensorFlow Lite file are fixed when it is made",
                "leave it out, and export the network with the shape");
  const std::vector<int> inputs = tensors_.operands(tensors_.graph().inputs(), "the list of inputs");
  bool is_batch = !inputs.empty();
  int64_t batch = 0;
  for (const int id : inputs) {
    if (id == kNone) file_.bad("the list of inputs", "names no tensor");
    const std::vector<int64_t> dims = tensors_.dims(id);
    const auto* open = tensors_[id].shape_signature();
    const bool is_open = size_of(open) == dims.size() && !dims.empty() && open->Get(0) == -1;
    const bool fits = !dims.empty() && (is_open || dims[0] == 1) && (batch == 0 || dims[0] == batch);
    if (!fits && file_.options().batch > 0 && !file_.options().batch_if_open)
      throw Error(kUsage, file_.name(),
                  "input " + tensors_.name(id) + " of shape " + dims_text(dims) + " has no batch on its first axis",
                  "leave out " + option("batch"));
    if (fits) batch = dims[0];
    is_batch = is_batch && fits;
  }
  graph_.batch = !is_batch ? 1 : file_.options().batch > 0 ? file_.options().batch : int(batch);
  file_.batch() = {.open = is_batch, .same = !is_batch || graph_.batch == batch, .of_file = batch};
}

// Reports sizes of an input that the file leaves open, other than the batch: no shape after it would be known.
void Reader::find_open_axes(int id) {
  const auto* open = tensors_[id].shape_signature();
  const std::vector<int64_t> dims = tensors_.dims(id);
  for (size_t i = 1; i < dims.size() && size_of(open) == dims.size(); ++i) {
    if (open->Get(flatbuffers::uoffset_t(i)) == -1 && dims[i] == 1)
      file_.problems().push_back("input " + tensors_.name(id) + ": axis " + std::to_string(i) +
                                 " has no fixed size: export it with a fixed shape");
  }
}

// Returns the value of an input. An input that is not supported counts as float32, so that later operators are checked
// too.
Value Reader::input_value(int id) {
  try {
    const Value v = tensors_.value(id);
    if (v.type == ElementType::kFloat16) file_.unsupported(tensors_.name(id), "is a float16 input");
    return v;
  } catch (const Error& error) {
    if (error.code != kUnsupported) throw;
    const std::string what = without_file(error.what(), file_.name());
    file_.problems().push_back("input " + what.substr(0, what.find(kNotSupported)));
    return {};
  }
}

void Reader::read_inputs() {
  find_batch();
  for (const int id : tensors_.operands(tensors_.graph().inputs(), "the list of inputs")) {
    if (tensors_.has_data(id)) file_.bad(tensors_.name(id), "is an input and a constant");
    if (scope_.values[size_t(id)] != kNone) file_.bad(tensors_.name(id), "is two inputs");
    find_open_axes(id);
    Value v = input_value(id);
    v.name = importer_.unique(tensors_.name(id));
    v.stored = ElementType::kNone;
    v.dims = tensors_.dims(id);
    if (file_.batch().open) v.dims[0] = graph_.batch;
    file_.check_limits(v.dims, tensors_.name(id));
    scope_.values[size_t(id)] = graph_.add(std::move(v));
    graph_.inputs.push_back({graph_.values.back().name, scope_.values[size_t(id)], ""});
  }
}

void Reader::convert(Operation& op) {
  const size_t steps = graph_.nodes.size();
  const bool gives = !op.outputs.empty();
  const bool noted =
      gives &&
      (note_rows(importer_, op) || fold_shape_arithmetic(importer_, op) || fold_integers(importer_, op) ||
       convert_whole(importer_, op) || convert_complex(importer_, op) || convert_signal(importer_, op) ||
       (op.code == BuiltinOperator::CUSTOM && (convert_list(importer_, op) || convert_detection(importer_, op))));
  if (!noted) {
    const Converter* converter = find_converter(op.code);
    if (converter == nullptr) importer_.unsupported(op, "an operator that the engine does not have");
    converter->convert(importer_, op);
  }
  log_change(op, graph_.nodes.size() - steps);
}

// Logs an operator that became several nodes or a constant, in the main graph only, not for each turn of a loop.
void Reader::log_change(const Operation& op, size_t steps) {
  if (scope_.depth > 0) return;
  const auto log = [&](const std::string& what) { graph_.log.push_back("import: " + op.place() + ": " + what); };
  const auto is_constant = [&](int id) {
    const ValueId y = scope_.values[size_t(id)];
    return y != kNone && importer_.value(y).constant();
  };
  if (steps > 1) log("is " + std::to_string(steps) + " steps");
  if (steps == 0 && !op.outputs.empty() && std::ranges::all_of(op.outputs, is_constant))
    log("is computed at import: what it reads is constant");
}

// Throws if an inferred shape differs from the file's, where the file has one.
void Reader::check_outputs(const Operation& op) {
  for (const int id : op.outputs) {
    if (scope_.handles.contains(id) || scope_.front_end.holds(id)) continue;
    if (tensors_.is_list(id) && scope_.rows.contains(id)) continue;
    const ValueId y = scope_.values[size_t(id)];
    const auto rows = scope_.rows.find(id);
    if (y == kNone && rows == scope_.rows.end()) importer_.bad(op, "gives out more tensors than it has");
    const std::vector<int64_t> expected = tensors_.dims(id),
                               found = y == kNone ? rows->second.dims : importer_.value(y).dims;
    if (!file_.batch().same || tensors_[id].shape() == nullptr) continue;
    bool equal = expected.size() == found.size();
    for (size_t i = 0; equal && i < expected.size(); ++i) {
      const auto* open = tensors_[id].shape_signature();
      equal =
          expected[i] == found[i] || (size_of(open) == expected.size() && open->Get(flatbuffers::uoffset_t(i)) == -1);
    }
    if (!equal)
      importer_.bad(
          op, "the file gives its output shape " + dims_text(expected) + ", the operator computes " + dims_text(found));
  }
}

// Returns "name (CONV_2D): reason" from the text of an Error.
std::string Reader::problem(const Operation& op, std::string what) const {
  for (const std::string& prefix : {escaped(file_.name()) + ": ", escaped(op.name, true) + ": "})
    if (what.starts_with(prefix)) what.erase(0, prefix.size());
  return op.place() + ": " + what.substr(0, what.find(kNotSupported));
}

// Returns a value for an output of an operator that is not supported, as the file declares it.
ValueId Reader::stand_in(int id) {
  Value v;
  try {
    v = tensors_.value(id);
  } catch (const Error&) {  // its type is not supported either
  }
  if (v.type == ElementType::kFloat16 || (v.quantizer && v.quantizer->scale.size() > 1)) v = {};
  v.stored = ElementType::kNone;
  v.name = importer_.unique(tensors_.name(id));
  if (size_of(tensors_[id].shape()) <= size_t(kMaxRank)) v.dims = tensors_.dims(id);
  if (!v.dims.empty() && file_.batch().open && !file_.batch().same && v.dims[0] == file_.batch().of_file)
    v.dims[0] = graph_.batch;
  return graph_.add(std::move(v));
}

void Reader::read_operations() {
  for (size_t i = 0; i < size_of(tensors_.graph().operators()); ++i) {
    Operation op = read_operation(i);
    for (const int id : op.outputs) {
      if (scope_.written[size_t(id)] || scope_.values[size_t(id)] != kNone)
        importer_.bad(op, "writes " + tensors_.name(id) + " a second time");
      if (std::count(op.inputs.begin(), op.inputs.end(), id) > 0)
        importer_.bad(op, "reads " + tensors_.name(id) + ", which it writes");
      scope_.written[size_t(id)] = true;
    }
    try {
      convert(op);
      check_outputs(op);
    } catch (const Error& error) {
      // Otherwise the error may follow from earlier problems: a stand-in has the file's shape.
      if (error.code != kUnsupported && file_.problems().empty()) throw;
      if (error.code == kUnsupported) file_.problems().push_back(problem(op, error.what()));
      for (const int id : op.outputs)  // so that later operators are checked too
        if (scope_.values[size_t(id)] == kNone || importer_.value(scope_.values[size_t(id)]).dims.empty())
          scope_.values[size_t(id)] = stand_in(id);
    }
  }
}

void Reader::read_outputs() {
  for (const int id : tensors_.operands(tensors_.graph().outputs(), "the list of outputs")) {
    if (id == kNone) file_.bad("the list of outputs", "names no tensor");
    const ValueId y = importer_.made(id);
    if (y == kNone || (!scope_.written[size_t(id)] && importer_.value(y).constant()))
      file_.bad(tensors_.name(id), "is an output that no operator writes");
    if (importer_.value(y).constant())
      file_.problems().push_back(tensors_.name(id) + ": is an output that does not depend on the inputs");
    graph_.outputs.push_back({importer_.value(y).name, y, ""});
  }
  if (graph_.outputs.empty()) throw Error(kBadInput, file_.name(), "has no output");
}

// Names inputs and outputs as the first signature of this graph does, if the file has one. Marks image inputs.
void Reader::name_bindings() {
  for (size_t i = 0; i < size_of(file_.model().signature_defs()); ++i) {
    const SignatureDef& signature = *file_.model().signature_defs()->Get(flatbuffers::uoffset_t(i));
    if (signature.subgraph_index() != 0) continue;
    const auto rename = [&](const flatbuffers::Vector<flatbuffers::Offset<TensorMap>>* maps,
                            std::vector<Binding>& bindings) {
      for (size_t j = 0; j < size_of(maps) && j < kMaxOperands; ++j) {
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

void Reader::describe() {
  const auto* text = file_.model().description();
  if (text != nullptr && text->size() > 0 && text->size() <= 1024)
    graph_.metadata.emplace_back("description", text->str());
  graph_.metadata.emplace_back("format", "tflite");
  for (auto& pair : read_metadata(file_.model(), file_.bytes(), file_.name(), graph_))
    graph_.metadata.push_back(std::move(pair));
}

Graph Reader::run() {
  read_inputs();
  read_operations();
  read_outputs();
  report_problems(file_.name(), file_.problems(),
                  ", of " + std::to_string(size_of(tensors_.graph().operators())) + " operators");
  name_bindings();
  describe();
  mark_batched(graph_, file_.batch().open);
  return std::move(graph_);
}

}  // namespace tflite

Graph import_tflite(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options) {
  return tflite::Reader(bytes, name, options).run();
}

}  // namespace nacre::tools
