// Reads the inputs of an ONNX graph: their types and sizes. An open axis may get the batch as its size.
#include <algorithm>
#include <cctype>

#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/graph/row_places.h"
#include "tools/importers/onnx/declared.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {

void DeclaredValues::read_open_axes(const ::onnx::GraphProto& graph) {
  for (const auto& input : graph.input()) {
    shapes_.push_back({input.name(), std::nullopt});
    if (!input.type().tensor_type().has_shape()) continue;
    std::vector<OpenShape::Axis>& axes = shapes_.back().axes.emplace();
    for (const auto& dim : input.type().tensor_type().shape().dim())  // some exporters write -1 for "any"
      axes.push_back({dim.has_dim_value() && dim.dim_value() >= 0 ? dim.dim_value() : -1, dim.dim_param()});
  }
  std::erase_if(shapes_, [&](const OpenShape& shape) {  // IR < 4 lists the weights among the inputs
    return std::ranges::any_of(graph.initializer(), [&](const auto& tensor) { return tensor.name() == shape.name; });
  });
  fix_open_axes(shapes_, options_.shapes, graph_.source);
}

namespace {

bool names_batch(std::string symbol) {
  std::ranges::transform(symbol, symbol.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return symbol.find("batch") != std::string::npos || symbol == "n" || symbol == "b" || symbol == "bs";
}

// Returns the axis that is the batch, among those that the file leaves open, or -1 if there is none. It is the first
// axis unless only the symbol of another axis names the batch: [time, "batch", width].
int batch_axis(const std::vector<OpenShape::Axis>& axes) {
  const bool first = !axes.empty() && axes[0].size < 0;
  if (first && names_batch(axes[0].symbol)) return 0;
  for (size_t i = 1; i < axes.size(); ++i)
    if (axes[i].size < 0 && names_batch(axes[i].symbol)) return int(i);
  return first ? 0 : -1;
}

// Casts an input of 16 bits to float32, because reals are float32 values inside the graph. The layers that read it
// compute in its type.
ValueId as_real(Import& import, ValueId input) {
  if (!is_other_real(import.value(input).type) || import.value(input).type == ElementType::kFloat64) return input;
  Node node = make_step(Op::kCast, Node(), import.value(input).name + "/cast", {input}, {});
  return import.append(std::move(node), import.value(input).name + "/float32");
}

}  // namespace

// Returns the sizes of an input. The file may leave open one axis, the batch, and the axes that have the batch's
// symbol. The file or --shape must give the sizes of the other axes; else a refusal is noted.
std::vector<int64_t> DeclaredValues::input_dims(const ::onnx::ValueInfoProto& input) {
  const std::string place = "input " + input.name();
  const OpenShape& shape = *std::ranges::find(shapes_, input.name(), &OpenShape::name);
  if (!shape.axes)
    throw Error(kUnsupported, place, "has no shape", "give it one: " + option("shape", input.name()) + "=1x..");
  std::vector<int64_t> dims;
  const int batch_at = batch_axis(*shape.axes);
  for (const auto& [size, symbol] : *shape.axes) {
    const int64_t batch = options_.batch > 0 ? options_.batch : 1;
    if (size >= 0) {
      dims.push_back(size);
    } else if (int(dims.size()) == batch_at || (!symbol.empty() && symbols_.contains(symbol))) {
      symbolic_batch_ = true;
      const bool elsewhere = int(dims.size()) == batch_at && batch_at > 0;
      if (elsewhere && (!symbols_.contains(symbol) || rows_elsewhere_)) {
        rows_elsewhere_ = true;
        graph_.metadata.emplace_back(rows_metadata(input.name()), std::to_string(batch_at));
      }
      if (!symbol.empty()) symbols_[symbol] = batch;
      dims.push_back(batch);
    } else {
      import_.log().note_refusal(Error(kUnsupported, place,
                                       "axis " + std::to_string(dims.size()) + " has no fixed size" +
                                           (symbol.empty() ? "" : " ('" + symbol + "')") + " in " + text_of({shape}),
                                       symbol.empty()
                                           ? "give all of its sizes: " + option("shape", input.name()) + "=1x.."
                                           : "give it one: " + option("shape", symbol) + "=N"));
      dims.push_back(kOpenSize);
    }
  }
  if (dims.size() > size_t(kMaxRank)) throw Error(kUnsupported, place, "has more than 8 axes");
  if (checked_elements(place, dims) == 0) throw Error(kUnsupported, place, "is empty: it has no elements");
  return dims;
}

void DeclaredValues::read_input(Scope& scope, const ::onnx::ValueInfoProto& input) {
  const std::string place = "input " + input.name();
  if (!input.type().has_tensor_type()) throw Error(kUnsupported, place, "is no tensor");
  const int data_type = input.type().tensor_type().elem_type();
  Value v;
  v.type = element_type(data_type);
  const bool other_real = is_other_real(v.type), uint16 = data_type == ::onnx::TensorProto::UINT16;
  if ((!at_run_time(v.type) && !other_real) || uint16)  // only constants of uint16 are widened to uint32
    throw Error(kUnsupported, place, "has type " + type_name(data_type), "export the network in float32");
  if (data_type == ::onnx::TensorProto::UINT64)
    import_.log().add(place, "is read as int64: its numbers are below 2^63");
  if (other_real && options_.train) v.type = ElementType::kFloat32;
  auto operand = std::make_shared<Operand>();
  operand->name = v.name = input.name();
  operand->type = other_real ? ElementType::kFloat32 : v.type;
  if (is_other_real(v.type)) operand->kept = v.type;
  operand->dims = v.dims = input_dims(input);
  operand->uses = scope.uses[input.name()];
  const bool last = options_.io_nhwc && operand->rank() == 4;
  if (last) v.dims = channels_last_dims(v.dims);
  const ValueId id = graph_.add(std::move(v));
  graph_.inputs.push_back({input.name(), id, ""});
  (last ? operand->channels_last : operand->plain) = as_real(import_, id);
  if (!scope.operands.emplace(input.name(), std::move(operand)).second) throw Error(kBadInput, place, "is given twice");
}

void read_initializers(Scope& scope, const ::onnx::GraphProto& graph) {
  for (const auto& tensor : graph.initializer())
    if (!scope.initializers.emplace(tensor.name(), &tensor).second)
      throw Error(kBadInput, tensor.name(), "is two initializers");
  for (const auto& tensor : graph.sparse_initializer())
    scope.initializers.emplace(tensor.values().name(), nullptr);  // a sparse tensor is refused if a node reads it
}

void DeclaredValues::read_inputs(Scope& scope, const ::onnx::GraphProto& graph) {
  for (const auto& value : graph.value_info()) declared_.emplace(value.name(), &value);
  for (const auto& output : graph.output()) declared_.emplace(output.name(), &output);
  read_initializers(scope, graph);
  read_open_axes(graph);
  for (const auto& input : graph.input()) {
    if (scope.initializers.contains(input.name())) continue;  // IR < 4 lists the weights among the inputs
    try {
      read_input(scope, input);
    } catch (const Error& error) {
      import_.log().note_refusal(error);
      scope.operands.emplace(input.name(), stand_in(input, true));
    }
  }
}

}  // namespace nacre::tools::onnx_import
