// Imports operators over axes: Softmax, LogSoftmax, BatchNormalization, LayerNormalization, Reduce*, ArgMax, ArgMin.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/ops/reduce_axes.h"
#include "engine/ops/unary.h"
#include "tools/base/option_id.h"
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

template <Op kOp>
ValueId softmax_step(Import& import, ValueId x, int axis, const std::string& name) {
  Node node = import.step(kOp);
  set_integer(node, "axis", axis);
  if (kOp == Op::kSoftmax) set_real(node, "beta", 1);
  node.inputs = {x};
  return import.append(std::move(node), name);
}

// Imports Softmax and LogSoftmax. From opset 13 on they run over one axis. Before, x is read as a matrix [prod
// dims[:axis], prod dims[axis:]], and each row is normalized.
template <Op kOp>
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
  if (one_axis && x->prefers_channels_last()) {
    const int last = channels_last_axis(axis, rank);
    return import.give_channels_last(0, softmax_step<kOp>(import, import.channels_last(x), last, import.output_name()));
  }
  const ValueId plain = import.plain(x);
  if (one_axis) return import.give_plain(0, softmax_step<kOp>(import, plain, axis, import.output_name()));
  const int64_t rows = std::accumulate(x->dims.begin(), split, int64_t{1}, std::multiplies<>());
  ValueId y = import.reshaped(plain, {rows, columns}, x->name + "/matrix");
  y = softmax_step<kOp>(import, y, 1, import.output_name());
  import.give_plain(0, import.reshaped(y, x->dims, import.output_name() + "/shape"));
}

// Returns whether a BatchNormalization in training_mode becomes the op batch_norm: in a graph that is to be trained, if
// the network does not read the new running statistics. Otherwise several nodes compute it (normalize_by_batch).
bool trains_by_batch(const Import& import, const Source& source) {
  return import.options().train && !source.wants(1) && !source.wants(2);
}

// y = scale (x - mean) / sqrt(variance + epsilon) + bias over axis 1, with running statistics.
void batch_normalization(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  const bool training = source.integer("training_mode", 0) != 0;
  if (training && !trains_by_batch(import, source)) return normalize_by_batch(import, source);
  if (source.opset < 7 && source.integer("is_test", 0) == 0)
    source.refuse("is_test is not set", "export for inference");
  if (source.integer("spatial", 1) == 0) source.refuse("spatial is 0: statistics per element");
  for (int i = 1; i < 5; ++i)
    if (source.wants(i)) source.refuse("its statistics outputs are used", "export for inference");
  if (training)
    import.log().note(
        fmt::format("runs by its batch in training and by running statistics in inference; the file keeps {:g} "
                    "of these in each step: {batch_norm_momentum} says how much this training keeps",
                    source.real("momentum", 0.9f), fmt::arg("batch_norm_momentum", option("batch-norm-momentum"))));
  Node node = import.step(Op::kBatchNorm);
  set_real(node, "epsilon", source.real("epsilon", 1e-5f));
  node.inputs = {import.channels_last(x)};
  for (int i = 1; i < 5; ++i) {
    need_float32(source, *source.operand(i));
    node.inputs.push_back(import.plain(source.operand(i)));
  }
  import.give_channels_last(0, import.append(std::move(node), import.output_name()));
}

Node reduction(Import& import, Reduce::Function function) {
  Node node = import.step(Op::kReduce);
  set_integer(node, "function", int(function));
  return node;
}

ValueId function_step(Import& import, Unary::Function function, ValueId x, const std::string& name) {
  Node node = import.step(Op::kUnary);
  set_integer(node, "function", int(function));
  node.inputs = {x};
  return import.append(std::move(node), name);
}

// Returns the axes. They are an attribute until opset 17 (for ReduceSum 12), and later an input. If the node gives no
// axes, returns all axes, or nullopt with noop_with_empty_axes.
std::optional<std::vector<int64_t>> axes_of(const Source& source, int rank) {
  std::vector<int64_t> axes = source.integers_or_input("axes", 1).value_or(std::vector<int64_t>{});
  if (axes.empty() && source.integer("noop_with_empty_axes", 0) != 0) return std::nullopt;
  if (axes.empty()) {
    axes.resize(size_t(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes) axis = source.axis(axis, rank);
  return axes;
}

// Imports y = after(node(before(x))); `node` reduces over the axes. before and after are functions of Unary, or none.
struct Functions {
  std::optional<Unary::Function> before = {}, after = {};
};

void reduce(Import& import, const Source& source, Node node, const Functions& functions = {}) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  const int rank = x->rank();
  const std::optional<std::vector<int64_t>> axes = axes_of(source, rank);
  if (!axes && (functions.before || functions.after))
    source.refuse("noop_with_empty_axes is set and no axes are given", "give the axes");
  if (!axes) return import.give(0, x);
  const bool keep = source.integer("keepdims", 1) != 0;
  // If all spatial axes are reduced and not kept, channels_last gives [n, c], which has only one layout.
  const bool last = x->prefers_channels_last();
  const auto spatial = std::count_if(axes->begin(), axes->end(), [](int64_t axis) { return axis > 1; });
  const bool all_spatial = spatial == rank - 2 && int(axes->size()) == spatial;
  const bool in_place = last && (keep || all_spatial);
  int mask = 0;
  for (const int64_t axis : *axes) mask |= 1 << (in_place ? channels_last_axis(int(axis), rank) : int(axis));
  set_integer(node, "axes", mask);
  set_integer(node, "keep_dims", keep ? 1 : 0);
  ValueId in = in_place ? import.channels_last(x) : import.plain(x);
  const std::string name = import.output_name();
  if (functions.before) in = function_step(import, *functions.before, in, name + "/before");
  node.inputs = {in};
  ValueId y = import.append(std::move(node), functions.after ? name + "/reduced" : name);
  if (functions.after) y = function_step(import, *functions.after, y, name);
  if (in_place && keep) return import.give_channels_last(0, y);
  import.give_plain(0, y);
}

void reduce_mean(Import& import, const Source& source) { reduce(import, source, import.step(Op::kMean)); }

template <Reduce::Function kFunction>
void reduce_by(Import& import, const Source& source) {
  reduce(import, source, reduction(import, kFunction));
}

void reduce_l1(Import& import, const Source& source) {
  reduce(import, source, reduction(import, Reduce::kSum), {.before = Unary::kAbs});
}
void reduce_l2(Import& import, const Source& source) {
  reduce(import, source, reduction(import, Reduce::kSum), {.before = Unary::kSquare, .after = Unary::kSqrt});
}
void reduce_sum_square(Import& import, const Source& source) {
  reduce(import, source, reduction(import, Reduce::kSum), {.before = Unary::kSquare});
}
void reduce_log_sum(Import& import, const Source& source) {
  reduce(import, source, reduction(import, Reduce::kSum), {.after = Unary::kLog});
}

// y = m + ln sum exp(x - m), m = max x over the axes
void reduce_log_sum_exp(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  const std::optional<std::vector<int64_t>> axes = axes_of(source, x->rank());
  if (!axes) source.refuse("noop_with_empty_axes is set and no axes are given", "give the axes");
  std::vector<int64_t> dims;
  int mask = 0;
  for (const int64_t axis : *axes) mask |= 1 << axis;
  const bool keep = source.integer("keepdims", 1) != 0;
  for (int axis = 0; axis < x->rank(); ++axis)
    if ((mask >> axis & 1) == 0 || keep) dims.push_back((mask >> axis & 1) != 0 ? 1 : x->dims[size_t(axis)]);
  const std::string name = import.output_name();
  const auto step = [&](Node node, std::vector<ValueId> inputs, const char* suffix) {
    node.inputs = std::move(inputs);
    return import.append(std::move(node), name + suffix);
  };
  const auto reduced = [&](Reduce::Function function, ValueId value, const char* suffix) {
    Node node = reduction(import, function);
    set_integer(node, "axes", mask);
    set_integer(node, "keep_dims", 1);
    return step(std::move(node), {value}, suffix);
  };
  const ValueId in = import.plain(x), peak = reduced(Reduce::kMax, in, "/max");
  const ValueId shifted = step(import.step(Op::kSub), {in, peak}, "/shifted");
  const ValueId sum = reduced(Reduce::kSum, function_step(import, Unary::kExp, shifted, name + "/exp"), "/sum");
  const ValueId log = function_step(import, Unary::kLog, sum, name + "/log");
  const ValueId y = step(import.step(Op::kAdd), {log, peak}, keep ? "" : "/kept");
  import.give_plain(0, import.reshaped(y, dims, name));
}

// Computes the product of a stored list of integers at import, because it often is the number of elements of a shape.
void reduce_prod(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  if (!x->constant || !is_integer(x->constant->stored) || x->constant->quantizer || x->rank() > 1)
    return reduce_by<Reduce::kProd>(import, source);
  const std::vector<int64_t> numbers = integers(*x->constant);
  int64_t product = 1;
  for (const int64_t number : numbers) product = int64_t(uint64_t(product) * uint64_t(number));
  const bool keep = source.integer("keepdims", 1) != 0 && x->rank() == 1;
  import.give_constant(0, make_constant("", x->type, keep ? std::vector<int64_t>{1} : std::vector<int64_t>{},
                                        std::vector<int64_t>{product}));
}

template <bool kMinimum>
void arg_max(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  if (x->rank() == 0) source.refuse("its input has rank 0");
  Node node = import.step(Op::kArgMax);
  set_integer(node, "axis", source.axis(source.integer("axis", 0), x->rank()));
  set_integer(node, "keep_dims", source.integer("keepdims", 1) != 0 ? 1 : 0);
  set_integer(node, "minimum", kMinimum ? 1 : 0);
  set_integer(node, "last", source.integer("select_last_index", 0) != 0 ? 1 : 0);
  node.inputs = {import.plain(x)};
  import.give_plain(0, import.append(std::move(node), import.output_name(), ElementType::kInt64));
}

ValueId mean_of_rows(Import& import, ValueId x, const std::string& name) {
  Node node = import.step(Op::kMean);
  set_integer(node, "axes", 2);
  set_integer(node, "keep_dims", 1);
  node.inputs = {x};
  return import.append(std::move(node), name);
}

// Gives the mean (output 1) and 1 / sqrt(variance + epsilon) (output 2) of the rows of x [rows, width]. A batch_norm
// of ones computes output 2.
void give_moments(Import& import, const Source& source, ValueId x, const std::vector<int64_t>& dims, float epsilon) {
  const int64_t rows = import.value(x).dims[0];
  const ValueId mean = mean_of_rows(import, x, source.name + "/mean");
  if (source.wants(1)) import.give_plain(1, import.reshaped(mean, dims, import.output_name(1) + "/shape"));
  if (!source.wants(2)) return;
  Node difference = import.step(Op::kSub);
  difference.inputs = {x, mean};
  const ValueId d = import.append(std::move(difference), source.name + "/difference");
  Node square = import.step(Op::kMul);
  square.inputs = {d, d};
  const ValueId variance =
      mean_of_rows(import, import.append(std::move(square), source.name + "/square"), source.name + "/variance");
  Node norm = import.step(Op::kBatchNorm);
  set_real(norm, "epsilon", epsilon);
  import.spend(4 * uint64_t(rows) * sizeof(float));
  const auto fill = [&](const char* name, std::vector<int64_t> shape, float number) {
    return import.reals(source.name + name, std::move(shape), std::vector<float>(size_t(rows), number));
  };
  norm.inputs = {fill("/ones", {1, rows}, 1), fill("/scale", {rows}, 1), fill("/bias", {rows}, 0),
                 fill("/zeros", {rows}, 0), import.reshaped(variance, {rows}, source.name + "/variances")};
  const ValueId inverse = import.append(std::move(norm), source.name + "/inverse_deviation");
  import.give_plain(2, import.reshaped(inverse, dims, import.output_name(2) + "/shape"));
}

// Returns the scale or bias as [width]. `dims` are the sizes of the normalized axes of x, and width is their product.
ValueId norm_parameter(Import& import, const Source& source, int input, const std::vector<int64_t>& dims,
                       int64_t width) {
  if (!source.given(input)) return kNone;
  const OperandPtr& given = source.operand(input);
  need_float32(source, *given);
  if (given->constant && given->dims.size() <= dims.size() && given->dims != dims) {
    import.spend(uint64_t(checked_elements(source.place, dims)) * sizeof(float));
    Value wide = reshaped(expanded(decoded(*given->constant), dims), {width});
    if (wide.elements() != width) source.malformed("its scale or bias does not fit its input");
    wide.name = given->name;
    const bool repeated = given->constant->elements() != width;
    return import.parameters().parameter(
        given, {repeated ? Move::other("repeated to " + std::to_string(width)) : Move::reshape({width})},
        std::move(wide));
  }
  if (given->dims != dims) source.refuse("a scale or bias of another shape than its normalized axes");
  return import.reshaped(import.plain(given), {width}, given->name + "/row");
}

// Normalizes over all axes from `axis` on. The graph's layer_norm works on the last axis, so x is reshaped if there
// are several.
void layer_normalization(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  const int rank = x->rank();
  if (rank == 0) source.malformed("its input has no axis");
  const int axis = source.axis(source.integer("axis", -1), rank);
  const float epsilon = source.real("epsilon", 1e-5f);
  if (!(epsilon >= 0) || std::isinf(epsilon)) source.malformed("its epsilon is no positive number");
  const std::vector<int64_t> normalized(x->dims.begin() + axis, x->dims.end());
  const auto product = [](auto first, auto last) {
    return std::accumulate(first, last, int64_t{1}, std::multiplies<>());
  };
  const int64_t width = product(normalized.begin(), normalized.end()),
                rows = product(x->dims.begin(), x->dims.begin() + axis);
  ValueId in = import.plain(x);
  if (normalized.size() > 1) {
    std::vector<int64_t> dims(x->dims.begin(), x->dims.begin() + axis);
    dims.push_back(width);
    in = import.reshaped(in, dims, x->name + "/rows");
  }
  Node node = import.step(Op::kLayerNorm);
  set_real(node, "epsilon", epsilon);
  node.inputs = {in, norm_parameter(import, source, 1, normalized, width),
                 norm_parameter(import, source, 2, normalized, width)};
  const ValueId y = import.append(std::move(node), import.output_name());
  import.give_plain(0, import.reshaped(y, x->dims, import.output_name() + "/shape"));
  if (!source.wants(1) && !source.wants(2)) return;
  std::vector<int64_t> moments(x->dims.begin(), x->dims.begin() + axis);
  moments.resize(size_t(rank), 1);
  give_moments(import, source, import.reshaped(in, {rows, width}, x->name + "/matrix"), moments, epsilon);
}

constexpr OperatorImporter kReduceImporters[] = {{"Softmax", softmax<Op::kSoftmax>},
                                                 {"LogSoftmax", softmax<Op::kLogSoftmax>},
                                                 {"BatchNormalization", batch_normalization},
                                                 {"LayerNormalization", layer_normalization},
                                                 {"ReduceMean", reduce_mean},
                                                 {"ReduceSum", reduce_by<Reduce::kSum>},
                                                 {"ReduceMin", reduce_by<Reduce::kMin>},
                                                 {"ReduceProd", reduce_prod},
                                                 {"ReduceL1", reduce_l1},
                                                 {"ReduceL2", reduce_l2},
                                                 {"ReduceSumSquare", reduce_sum_square},
                                                 {"ReduceLogSum", reduce_log_sum},
                                                 {"ReduceLogSumExp", reduce_log_sum_exp},
                                                 {"ArgMax", arg_max<false>},
                                                 {"ArgMin", arg_max<true>}};

}  // namespace

void maximum_over_axes(Import& import, const Source& source) { reduce_by<Reduce::kMax>(import, source); }

std::span<const OperatorImporter> reduce_importers() { return kReduceImporters; }

}  // namespace nacre::tools::onnx_import
