// Random cases of every op with a gradient: one row per op. Where cases.cc has cases of the op they are drawn there, without a
// fused clamp, and their values moved to the grid and away from kinks.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "engine/kernels/training.h"
#include "tests/cases.h"
#include "tests/gradient_check.h"

namespace nacre::tests {
namespace {

constexpr ElementType kF64 = ElementType::kFloat64, kF32 = ElementType::kFloat32;

int pick(Random& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

// A multiple of kGrid in [low, high].
double on_grid(Random& random, double low, double high) {
  return std::round(std::uniform_real_distribution<double>(low, high)(random) / kGrid) * kGrid;
}

Array random_array(Random& random, std::vector<int32_t> dims, double low = -4, double high = 4) {
  Array array = make_array(kF64, std::move(dims));
  for (int64_t i = 0; i < array.elements(); ++i) array.set(i, on_grid(random, low, high));
  return array;
}

// New values for those of `x` that are near a kink.
void avoid(Random& random, Array& x, const std::vector<double>& kinks, double low, double high) {
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto near = [&](double kink) { return std::abs(x.real(i) - kink) < kClear; };
    while (std::any_of(kinks.begin(), kinks.end(), near)) x.set(i, on_grid(random, low, high));
  }
}

// The float64 entry of an op in which every operand is real.
const KernelEntry& double_entry(Op op) {
  for (const auto& list : {reference::list(), reference::training_list()})
    for (const reference::NamedEntry& named : list) {
      const OperandType* types = named.entry->operands;
      if (named.entry->op == op && std::all_of(types, types + named.entry->operand_count, [](const OperandType& type) {
            return type.element == kF64;
          }))
        return *named.entry;
    }
  throw std::out_of_range("no float64 kernel");
}

// A case of cases.cc; `clamp` is the first word of a fused clamp to be left out, or -1.
void draw(Op op, int clamp, Random& random, GradientCase& made) {
  const Case drawn = random_case(double_entry(op), random);
  made.words = drawn.words;
  for (int i = clamp; clamp >= 0 && i < clamp + 3; ++i) made.words[size_t(i)] = 0;
  made.inputs = random_inputs(drawn, random);
  for (Array& input : made.inputs)
    for (int64_t i = 0; input.present() && i < input.elements(); ++i)
      input.set(i, std::round(input.real(i) / kGrid) * kGrid);
}
template <Op kOp, int kClamp = -1>
void drawn(Random& random, GradientCase& made) {
  draw(kOp, kClamp, random, made);
}

// The values of a window differ by more than what x is moved by.
void max_pool(Random& random, GradientCase& made) {
  draw(Op::kMaxPool, 11, random, made);
  Array& x = made.inputs[0];
  std::vector<int> order(size_t(x.elements()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = int(i) - int(order.size()) / 2;
  std::shuffle(order.begin(), order.end(), random);
  for (size_t i = 0; i < order.size(); ++i) x.set(int64_t(i), order[i] * 2 * kClear);
}

void clamp(Random& random, GradientCase& made) {
  draw(Op::kClamp, -1, random, made);
  if (made.words[0] == 0) return;
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

// Every channel has two values a unit apart, or only one: h is small beside the deviation, or there is none.
void batch_norm_training(Random& random, GradientCase& made) {
  std::vector<int32_t> dims;
  for (int rank = pick(random, 1, 6); rank > 0; --rank) dims.push_back(pick(random, 1, 4));
  dims.back() = pick(random, 1, 20);
  const std::vector<int32_t> channels = {dims.back()};
  Array x = random_array(random, dims);
  for (int c = 0; c < dims.back() && x.elements() > dims.back(); ++c) {
    x.set(c, on_grid(random, 1, 4));
    x.set(dims.back() + c, on_grid(random, -4, 0));
  }
  made.words = {std::bit_cast<uint32_t>(float(on_grid(random, 0.001, 0.1))), uint32_t(pick(random, 0, 1))};
  made.inputs = {x, random_array(random, channels), random_array(random, channels), random_array(random, channels),
                 random_array(random, channels), array_of<double>(kF32, {1}, {2})};
}

constexpr GradientRow kRows[] = {
    {Op::kDense, &drawn<Op::kDense, 0>},
    {Op::kConv2d, &drawn<Op::kConv2d, 8>},
    {Op::kDepthwiseConv2d, &drawn<Op::kDepthwiseConv2d, 8>},
    {Op::kAveragePool, &drawn<Op::kAveragePool, 11>},
    {Op::kMaxPool, &max_pool},
    {Op::kAdd, &drawn<Op::kAdd, 0>},
    {Op::kSub, &drawn<Op::kSub, 0>},
    {Op::kMul, &drawn<Op::kMul, 0>},
    {Op::kClamp, &clamp},
    {Op::kLeakyRelu, &leaky_relu},
    {Op::kSigmoid, &drawn<Op::kSigmoid>},
    {Op::kTanh, &drawn<Op::kTanh>},
    {Op::kHardSwish, &hard_swish},
    {Op::kSoftmax, &drawn<Op::kSoftmax>},
    {Op::kBatchNorm, &drawn<Op::kBatchNorm>},
    {Op::kMean, &drawn<Op::kMean>},
    {Op::kBatchNormTraining, &batch_norm_training},
    {Op::kReshape, &drawn<Op::kReshape>},
    {Op::kTranspose, &drawn<Op::kTranspose>},
    {Op::kConcat, &drawn<Op::kConcat>},
    {Op::kPad, &drawn<Op::kPad>},
    {Op::kSlice, &drawn<Op::kSlice>},
    {Op::kCopy, &drawn<Op::kCopy>},
};

}  // namespace

const GradientRow* find_gradient_row(Op op) {
  const auto* found = std::find_if(std::begin(kRows), std::end(kRows), [&](const GradientRow& row) { return row.op == op; });
  return found == std::end(kRows) ? nullptr : found;
}

}  // namespace nacre::tests
