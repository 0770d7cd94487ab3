// Random cases of ops with a gradient. An op whose row has cases takes those, without a fused clamp; their values are
// moved to the grid and away from kinks.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "engine/kernels/training.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/unary.h"
#include "tests/op_rows.h"

namespace nacre::test {
namespace {

constexpr ElementType kF64 = ElementType::kFloat64, kF32 = ElementType::kFloat32;

int pick(Random& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

std::vector<int32_t> random_dims(Random& random, int low_rank, int high_rank, int most) {
  std::vector<int32_t> dims;
  for (int rank = pick(random, low_rank, high_rank); rank > 0; --rank) dims.push_back(pick(random, 1, most));
  return dims;
}

// Returns a random size in [1, most] or, if kernels work on vectors of random.lanes numbers, in [1, 5 random.lanes].
int vectors(Random& random, int most) { return pick(random, 1, random.lanes > 0 ? 5 * random.lanes : most); }

// Returns a random number of [low, high], rounded to a multiple of kGrid.
double on_grid(Random& random, double low, double high) {
  return std::round(std::uniform_real_distribution<double>(low, high)(random) / kGrid) * kGrid;
}

Array random_array(Random& random, std::vector<int32_t> dims, double low = -4, double high = 4) {
  Array array = make_array(kF64, std::move(dims));
  for (int64_t i = 0; i < array.elements(); ++i) array.set(i, on_grid(random, low, high));
  return array;
}

// Replaces the elements of `x` that are near a kink.
void avoid(Random& random, Array& x, const std::vector<double>& kinks, double low, double high) {
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto near = [&](double kink) { return std::abs(x.real(i) - kink) < kClear; };
    while (std::any_of(kinks.begin(), kinks.end(), near)) x.set(i, on_grid(random, low, high));
  }
}

// Returns the op's first kernel whose operands are all float64. Throws if there is none.
const KernelEntry& double_entry(Op op) {
  for (const auto& list : {reference::list(), reference::training_list()})
    for (const reference::NamedEntry& named : list) {
      const OperandType* types = named.entry->operands;
      if (named.entry->op == op && std::all_of(types, types + named.entry->operand_count,
                                               [](const OperandType& type) { return type.element == kF64; }))
        return *named.entry;
    }
  throw std::out_of_range("no float64 kernel");
}

// Makes the values of x differ by more than the step of the central differences.
void keep_apart(Random& random, Array& x) {
  std::vector<int> order(size_t(x.elements()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = int(i) - int(order.size()) / 2;
  std::shuffle(order.begin(), order.end(), random);
  for (size_t i = 0; i < order.size(); ++i) x.set(int64_t(i), order[i] * 2 * kClear);
}

// Returns the table of one axis: the first position that each output reads, in ascending order.
Array resize_table(Random& random, int out, int last) {
  std::vector<int> places;
  for (int i = 0; i < out; ++i) places.push_back(pick(random, 0, last));
  std::sort(places.begin(), places.end());
  return array_of<int>(ElementType::kInt32, {out}, places);
}

void dropout(Random& random, GradientCase& made) {
  Array numbers = make_array(ElementType::kUint32, {4});
  for (int i = 0; i < 4; ++i) numbers.set(i, i * 7 + 1);
  made.words = {std::bit_cast<uint32_t>(0.25f * float(pick(random, 0, 3))), uint32_t(pick(random, 0, 9))};
  made.inputs = {random_array(random, {pick(random, 1, 9), vectors(random, 9)}), numbers};
}

// Every channel has two values at least a unit apart, or only one value. So the step h of the central differences is
// small against the channel's deviation, or there is no deviation.
void batch_norm_training(Random& random, GradientCase& made) {
  std::vector<int32_t> dims = random_dims(random, 1, 6, 4);
  dims.back() = vectors(random, 20);
  const std::vector<int32_t> channels = {dims.back()};
  Array x = random_array(random, dims);
  for (int c = 0; c < dims.back() && x.elements() > dims.back(); ++c) {
    x.set(c, on_grid(random, 1, 4));
    x.set(dims.back() + c, on_grid(random, -4, 0));
  }
  made.words = {std::bit_cast<uint32_t>(float(on_grid(random, 0.001, 0.1))), uint32_t(pick(random, 0, 1))};
  made.inputs = {x,
                 random_array(random, channels),
                 random_array(random, channels),
                 random_array(random, channels),
                 random_array(random, channels),
                 array_of<double>(kF32, {1}, {2})};
}

// Adds the sums that a loss updates: `loss` and `count`.
void add_loss_sums(GradientCase& made) {
  made.inputs.push_back(array_of<double>(kF64, {1}, {0.5}));
  made.inputs.push_back(array_of<double>(kF32, {1}, {3}));
}

// Draws labels over all classes. With `ignore`, one of the classes, or a label that does not occur, is not counted.
void softmax_cross_entropy(Random& random, GradientCase& made) {
  std::vector<int32_t> dims = random_dims(random, 1, 4, 4);
  dims.back() = 1 + vectors(random, 11);
  const int classes = dims.back();
  made.words = {std::bit_cast<uint32_t>(pick(random, 0, 1) == 0 ? 0.0f : float(on_grid(random, 0, 1))),
                uint32_t(pick(random, 0, 1)), uint32_t(pick(random, -1, classes - 1))};
  Array labels = make_array(ElementType::kInt32, {dims.begin(), dims.end() - 1});
  for (int64_t i = 0; i < labels.elements(); ++i) labels.set(i, pick(random, 0, classes - 1));
  made.inputs = {random_array(random, dims), labels};
  add_loss_sums(made);
}
void dense_cross_entropy(Random& random, GradientCase& made) {
  std::vector<int32_t> dims = random_dims(random, 1, 4, 4);
  dims.back() = 1 + vectors(random, 11);
  made.words = {std::bit_cast<uint32_t>(pick(random, 0, 1) == 0 ? 0.0f : float(on_grid(random, 0, 1)))};
  made.inputs = {random_array(random, dims), random_array(random, dims, 0, 1)};
  add_loss_sums(made);
}

// Keeps y away from kinks of the loss in y - target: 0, or +-delta.
void elementwise_loss(Random& random, GradientCase& made, const std::vector<double>& kinks) {
  std::vector<int32_t> dims = random_dims(random, 1, 4, 5);
  if (random.lanes > 0) dims.back() = vectors(random, 5);
  made.inputs = {random_array(random, dims), random_array(random, dims, 0, 1)};
  Array &y = made.inputs[0], &target = made.inputs[1];
  for (int64_t i = 0; i < y.elements(); ++i) {
    const auto near = [&](double kink) { return std::abs(y.real(i) - target.real(i) - kink) < kClear; };
    while (std::any_of(kinks.begin(), kinks.end(), near)) y.set(i, on_grid(random, -4, 4));
  }
  add_loss_sums(made);
}
void smooth_loss(Random& random, GradientCase& made) { elementwise_loss(random, made, {}); }
void absolute_error(Random& random, GradientCase& made) { elementwise_loss(random, made, {0}); }
void huber(Random& random, GradientCase& made) {
  const double delta = on_grid(random, 0.25, 2);
  made.words = {std::bit_cast<uint32_t>(float(delta))};
  elementwise_loss(random, made, {-delta, delta});
}

// Makes a fake_quantize case of trained codes (rules 4 and 5), whose third input is the step between two codes: one
// step for all of x, or one per index of `axis`.
void fake_codes(Random& random, GradientCase& made) {
  const Array x = random_array(random, random_dims(random, 1, 4, 4));
  const int axis = pick(random, 0, int(x.dims.size()) - 1), per_channel = pick(random, 0, 1);
  Array step = array_of<double>(kF32, {per_channel == 1 ? x.dims[size_t(axis)] : 1}, {});
  step.bytes.resize(size_t(step.elements()) * sizeof(float));
  for (int64_t i = 0; i < step.elements(); ++i) step.set(i, on_grid(random, 0.01, 0.5));
  made.words = {uint32_t(pick(random, 4, 5)), uint32_t(per_channel), uint32_t(per_channel * axis)};
  made.inputs = {x, Array(), step};
}

// A third of the cases has trained codes, a third a range. x stays well inside or well outside the range, because its
// ends are nudged to codes.
void fake_quantize(Random& random, GradientCase& made) {
  if (pick(random, 0, 2) == 0) return fake_codes(random, made);
  const double low = on_grid(random, -3, -1), high = on_grid(random, 1, 3);
  const bool range = pick(random, 0, 1) == 1;
  Array x = random_array(random, random_dims(random, 1, 4, 4));
  for (int64_t i = 0; range && i < x.elements(); ++i)
    while (std::abs(x.real(i) - low) < 0.25 || std::abs(x.real(i) - high) < 0.25) x.set(i, on_grid(random, -4, 4));
  made.words = {0, 0, 0};
  made.inputs = {x, range ? array_of<double>(kF32, {2}, {low, high}) : Array(), Array()};
}
// Returns the function whose gradient fake_quantize gives. With a range that is x, clipped to the range. With a step
// it is x / step, whose derivative is 1 / step. With neither it is x.
std::vector<Array> straight_through_range(const GradientCase& made) {
  Array y = made.inputs[0];
  const Array &range = made.inputs[1], &step = made.inputs[2];
  int64_t inner = 1;
  for (size_t axis = made.words[2] + 1; made.words[1] == 1 && axis < y.dims.size(); ++axis) inner *= y.dims[axis];
  for (int64_t i = 0; step.present() && i < y.elements(); ++i)
    y.set(i, y.real(i) / step.real(i / inner % step.elements()));
  for (int64_t i = 0; range.present() && i < y.elements(); ++i)
    y.set(i, std::clamp(y.real(i), range.real(0), range.real(1)));
  return {y};
}

void fake_float8(Random& random, GradientCase& made) {
  made.words = {uint32_t(pick(random, 0, 1)), uint32_t(pick(random, 0, 1))};
  made.inputs = {random_array(random, random_dims(random, 0, 4, 4)), array_of<double>(kF32, {1}, {1}),
                 array_of<double>(ElementType::kUint32, {1}, {0})};
}
std::vector<Array> straight_through(const GradientCase& made) { return {made.inputs[0]}; }

}  // namespace

void draw(Op op, int clamp, Random& random, GradientCase& made) {
  const Case drawn = random_case(double_entry(op), random);
  made.words = drawn.words;
  for (int i = clamp; clamp >= 0 && i < clamp + 3; ++i) made.words[size_t(i)] = 0;
  made.inputs = random_inputs(drawn, random);
  for (Array& input : made.inputs)
    for (int64_t i = 0; input.present() && i < input.elements(); ++i)
      input.set(i, std::round(input.real(i) / kGrid) * kGrid);
}

void max_pool(Random& random, GradientCase& made) {
  draw(Op::kMaxPool, 11, random, made);
  keep_apart(random, made.inputs[0]);
}

void reduce(Random& random, GradientCase& made) {
  draw(Op::kReduce, -1, random, made);
  if (made.words[0] == Reduce::kMax || made.words[0] == Reduce::kMin) keep_apart(random, made.inputs[0]);
}

void clamp(Random& random, GradientCase& made) {
  draw(Op::kClamp, -1, random, made);
  if (made.words[0] == 0) return;
  for (int i = 1; i <= 2; ++i) {  // multiples of 1/16, which float16 and bfloat16 hold too
    const double bound = std::bit_cast<float>(made.words[size_t(i)]);
    if (std::isfinite(bound)) made.words[size_t(i)] = std::bit_cast<uint32_t>(float(std::round(bound * 16) / 16));
  }
  avoid(random, made.inputs[0], {std::bit_cast<float>(made.words[1]), std::bit_cast<float>(made.words[2])}, -4, 4);
}

void leaky_relu(Random& random, GradientCase& made) {
  draw(Op::kLeakyRelu, -1, random, made);
  avoid(random, made.inputs[0], {0}, -10, 10);
}

void hard_swish(Random& random, GradientCase& made) {
  draw(Op::kHardSwish, -1, random, made);
  avoid(random, made.inputs[0], {-3, 3}, -10, 10);
}

void unary_function(Random& random, GradientCase& made) {
  draw(Op::kUnary, -1, random, made);
  std::vector<double> kinks;
  const uint32_t function = made.words[0];
  const bool steps = function == Unary::kFloor || function == Unary::kCeil || function == Unary::kRound;
  for (double kink = -11; steps && kink <= 11; kink += 0.5) kinks.push_back(kink);
  for (const uint32_t bent : {Unary::kAbs, Unary::kSign, Unary::kElu, Unary::kSelu, Unary::kSoftsign})
    if (function == bent) kinks.push_back(0);
  avoid(random, made.inputs[0], kinks, -10, 10);
}

// Avoids kinks: for maximum and minimum no a equals a b, and for floor_div no quotient is near an integer.
void binary_function(Random& random, GradientCase& made) {
  draw(Op::kBinary, -1, random, made);
  const uint32_t function = made.words[0];
  Array &a = made.inputs[0], &b = made.inputs[1];
  const auto set_each = [&](Array& array, auto f) {
    for (int64_t i = 0; i < array.elements(); ++i) array.set(i, f(array.real(i)));
  };
  if (function == Binary::kMaximum || function == Binary::kMinimum) {
    set_each(a, [](double v) { return std::round(v * 8) / 8; });
    set_each(b, [](double v) { return std::round(v * 8) / 8 + 1.0 / 16; });
  } else if (function == Binary::kFloorDiv) {
    set_each(a, [](double v) { return std::floor(v) + 0.5; });
    set_each(b, [](double) { return 1; });
  }
}

// A large epsilon bounds 1 / sqrt(variance + epsilon), and so the derivatives in the error of the differences.
void layer_norm(Random& random, GradientCase& made) {
  draw(Op::kLayerNorm, -1, random, made);
  made.words = {std::bit_cast<uint32_t>(0.125f)};
}

void embedding(Random& random, GradientCase& made) {
  const int entries = pick(random, 1, 9), negative = pick(random, 0, 1);
  Array ids = make_array(ElementType::kInt32, {pick(random, 1, 4), pick(random, 1, 4)});
  for (int64_t i = 0; i < ids.elements(); ++i) ids.set(i, pick(random, negative != 0 ? -entries : 0, entries - 1));
  made.words = {uint32_t(negative)};
  made.inputs = {random_array(random, {entries, vectors(random, 7)}), ids};
}

void resize(Random& random, GradientCase& made) {
  int in[2], out[2], taps[2];
  for (int axis = 0; axis < 2; ++axis) {
    in[axis] = pick(random, 1, 6);
    out[axis] = pick(random, 1, 7);
    taps[axis] = pick(random, 0, std::min(in[axis], 3));  // 0: no weights
  }
  made.inputs = {random_array(random, {pick(random, 1, 2), in[0], in[1], vectors(random, 5)})};
  for (int axis = 0; axis < 2; ++axis)
    made.inputs.push_back(resize_table(random, out[axis], in[axis] - std::max(taps[axis], 1)));
  for (int axis = 0; axis < 2; ++axis)
    made.inputs.push_back(taps[axis] == 0 ? Array{} : random_array(random, {out[axis], taps[axis]}, -1, 1));
}

std::span<const OpRow> rows_of_training() {
  static constexpr OpRow kRows[] = {
      {.op = Op::kDropout, .gradient = &dropout},
      {.op = Op::kBatchNormTraining, .gradient = &batch_norm_training},
      {.op = Op::kSoftmaxCrossEntropy, .gradient = &softmax_cross_entropy, .bounds = &bounds::cross_entropy},
      {.op = Op::kSoftmaxCrossEntropyGradient, .bounds = &bounds::cross_entropy},
      {.op = Op::kDenseCrossEntropy, .gradient = &dense_cross_entropy, .bounds = &bounds::cross_entropy},
      {.op = Op::kDenseCrossEntropyGradient, .bounds = &bounds::cross_entropy},
      {.op = Op::kSigmoidCrossEntropy, .gradient = &smooth_loss, .bounds = &bounds::number_loss},
      {.op = Op::kSigmoidCrossEntropyGradient, .bounds = &bounds::number_loss},
      {.op = Op::kSquaredError, .gradient = &smooth_loss, .bounds = &bounds::number_loss},
      {.op = Op::kSquaredErrorGradient, .bounds = &bounds::number_loss},
      {.op = Op::kAbsoluteError, .gradient = &absolute_error, .bounds = &bounds::number_loss},
      {.op = Op::kAbsoluteErrorGradient, .bounds = &bounds::number_loss},
      {.op = Op::kHuber, .gradient = &huber, .bounds = &bounds::number_loss},
      {.op = Op::kHuberGradient, .bounds = &bounds::number_loss},
      {.op = Op::kFakeQuantize, .gradient = &fake_quantize, .surrogate = &straight_through_range},
      {.op = Op::kFakeQuantizeGradientScale, .bounds = &bounds::fake_quantize_range},
      {.op = Op::kBatchNormTrainingGradientX, .magnitude = &magnitudes::norm_x},
      {.op = Op::kBatchNormTrainingGradientScale, .magnitude = &magnitudes::norm_scale},
      {.op = Op::kFakeFloat8, .gradient = &fake_float8, .surrogate = &straight_through},
      {.op = Op::kFakeFloat8Gradient, .gradient = &fake_float8},
  };
  return kRows;
}

}  // namespace nacre::test
