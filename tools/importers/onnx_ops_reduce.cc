// Softmax, batch normalization and means: what sums over axes.
#include <algorithm>
#include <numeric>

#include "tools/importers/onnx.h"

namespace nacre::tools::onnx_import {
namespace {

ValueId softmax_step(Import& import, ValueId x, int axis, const std::string& name) {
  Node node = import.step(Op::kSoftmax);
  set_integer(node, "axis", axis);
  set_real(node, "beta", 1);
  node.inputs = {x};
  return import.append(std::move(node), name);
}

// From opset 13 over one axis. Before, x is read as a matrix [prod dims[:axis], prod dims[axis:]] and its rows are
// normalized.
void softmax(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  const int rank = x->rank();
  if (rank == 0) source.refuse("its input has rank 0");
  const bool matrix = source.opset < 13;
  const int axis = source.axis(source.integer("axis", matrix ? 1 : -1), matrix && rank == 1 ? 2 : rank);
  const auto split = x->dims.begin() + std::min(axis, rank);
  const int64_t columns = std::accumulate(split, x->dims.end(), int64_t{1}, std::multiplies<>());
  const bool one_axis = !matrix || (axis < rank && x->dims[size_t(axis)] == columns);
  if (one_axis && import.prefers_channels_last(*x)) {
    const int last = channels_last_axis(axis, rank);
    return import.give_channels_last(0, softmax_step(import, import.channels_last(x), last, import.output_name()));
  }
  const ValueId plain = import.plain(x);
  if (one_axis) return import.give_plain(0, softmax_step(import, plain, axis, import.output_name()));
  const int64_t rows = std::accumulate(x->dims.begin(), split, int64_t{1}, std::multiplies<>());
  ValueId y = import.reshaped(plain, {rows, columns}, x->name + "/matrix");
  y = softmax_step(import, y, 1, import.output_name());
  import.give_plain(0, import.reshaped(y, x->dims, import.output_name() + "/shape"));
}

// y = scale (x - mean) / sqrt(variance + epsilon) + bias over axis 1, with running statistics.
void batch_normalization(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  if (source.integer("training_mode", 0) != 0) source.refuse("training_mode is set", "export for inference");
  if (source.opset < 7 && source.integer("is_test", 0) == 0)
    source.refuse("is_test is not set", "export for inference");
  if (source.integer("spatial", 1) == 0) source.refuse("spatial is 0: statistics per element");
  for (int i = 1; i < 5; ++i)
    if (source.wants(i)) source.refuse("its statistics outputs are used", "export for inference");
  Node node = import.step(Op::kBatchNorm);
  set_real(node, "epsilon", source.real("epsilon", 1e-5f));
  node.inputs = {import.channels_last(x)};
  for (int i = 1; i < 5; ++i) {
    need_float32(source, *source.operand(i));
    node.inputs.push_back(import.plain(source.operand(i)));
  }
  import.give_channels_last(0, import.append(std::move(node), import.output_name()));
}

// Axes as an attribute until opset 17, as an input from 18. None: all, or with noop_with_empty_axes none.
void reduce_mean(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  const int rank = x->rank();
  std::vector<int64_t> axes = source.integers_or_input("axes", 1).value_or(std::vector<int64_t>{});
  if (axes.empty() && source.integer("noop_with_empty_axes", 0) != 0) return import.give(0, x);
  if (axes.empty()) {
    axes.resize(size_t(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  const bool keep = source.integer("keepdims", 1) != 0;
  // Over all spatial axes without keeping them, channels_last gives [n, c], which has one layout.
  const bool last = import.prefers_channels_last(*x);
  int mask = 0, spatial = 0;
  for (const int64_t given : axes) {
    const int axis = source.axis(given, rank);
    if (axis > 1) ++spatial;
    mask |= 1 << (last ? channels_last_axis(axis, rank) : axis);
  }
  const bool all_spatial = spatial == rank - 2 && int(axes.size()) == spatial;
  Node node = import.step(Op::kMean);
  const bool in_place = last && (keep || all_spatial);
  if (last && !in_place) {
    mask = 0;
    for (const int64_t given : axes) mask |= 1 << source.axis(given, rank);
  }
  set_integer(node, "axes", mask);
  set_integer(node, "keep_dims", keep ? 1 : 0);
  node.inputs = {in_place ? import.channels_last(x) : import.plain(x)};
  const ValueId y = import.append(std::move(node), import.output_name());
  if (in_place && keep) return import.give_channels_last(0, y);
  import.give_plain(0, y);
}

constexpr OperatorImporter kImporters[] = {
    {"Softmax", softmax}, {"BatchNormalization", batch_normalization}, {"ReduceMean", reduce_mean}};

}  // namespace

std::span<const OperatorImporter> reduce_importers() { return kImporters; }

}  // namespace nacre::tools::onnx_import
