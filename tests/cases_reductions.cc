// Cases of ops that sum or compare along axes: softmax, norms, means, reductions.
#include <cmath>

#include "engine/ops/reduce_axes.h"
#include "tests/cases_parts.h"
#include "tests/op_rows.h"
#include "tools/passes/policy/quantize_multiplier.h"

namespace nacre::test {
namespace {

void softmax_case(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 1, kMaxRank);
  std::vector<int32_t> dims = random_dims(random, rank, 3);
  const int axis = coded(entry) ? rank - 1 : pick(random, 0, rank - 1);
  dims[size_t(axis)] = channels(random, 30);
  if (rank != 4) made.traits |= kRankTrait;
  made.words = {uint32_t(axis)};
  if (entry.op == Op::kSoftmax) made.words.push_back(bits(between(random, 0.1, 2)));
  made.inputs = {input_of(entry.operands[0].element, dims)};
  if (!coded(entry)) return;
  if (is_int16(entry)) {
    const FixedPoint units = tools::quantize_multiplier(std::exp2(between(random, -3, 3)));
    made.words.insert(made.words.end(), {uint32_t(units.multiplier), uint32_t(units.shift)});
    return made.inputs.push_back({.element = ElementType::kInt32, .dims = {2, 513}, .low = 8000, .high = 32767});
  }
  // Words as micro/kernels/softmax_common.cc computes them for beta = 1 and a scale in [1/1024, 1/2].
  const FixedPoint scale = tools::quantize_multiplier(std::exp2(between(random, -10, -1)) * (1 << 26));
  made.words.insert(made.words.end(), {uint32_t(scale.multiplier), uint32_t(scale.shift),
                                       uint32_t(-int(std::floor(std::ldexp(31.0 * (1 << 26), -int(scale.shift)))))});
}

void batch_norm_case(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 1, kMaxRank);
  std::vector<int32_t> dims = random_dims(random, rank, 5);
  if (random.lanes > 0) dims.back() = channels(random, 5);
  if (rank != 4) made.traits |= kRankTrait;
  made.words = {bits(between(random, 1e-5, 1e-2))};
  made.inputs = {input_of(entry.operands[0].element, dims)};
  for (int i = 0; i < 4; ++i) made.inputs.push_back(input_of(entry.operands[i + 1].element, {dims.back()}));
  made.inputs[4].low = 0.01;
}

// With random.lanes, neighbouring axes are mostly reduced together, and one of the axes has `channels`.
std::vector<int32_t> reduced_dims(Random& random, int rank, int most, uint32_t& axes) {
  std::vector<int32_t> dims = random_dims(random, rank, most);
  if (random.lanes == 0 || rank == 0) return dims;
  dims[size_t(pick(random, 0, rank - 1))] = channels(random, most);
  if (chance(random, 70)) {
    const int first = pick(random, 0, rank - 1), end = pick(random, first, rank);
    axes = (1u << end) - (1u << first);
  }
  return dims;
}

void mean_case(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 0, kMaxRank);
  if (rank != 4) made.traits |= kRankTrait;
  made.words = {uint32_t(pick(random, 0, (1 << rank) - 1)), uint32_t(pick(random, 0, 1)), zero_word(entry, random),
                zero_word(entry, random)};
  made.inputs = {input_of(entry.operands[0].element, reduced_dims(random, rank, 5, made.words[0]))};
  if (coded(entry)) made.inputs.push_back(chance(random, 60) ? pairs(1, 0.1, 4) : Input());
}

// Draws the factors of a product near 1, or all near -1: a product of thousands of them stays in range.
void reduce_case(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 0, kMaxRank);
  if (rank != 4) made.traits |= kRankTrait;
  made.words = {uint32_t(pick(random, 1, int(Reduce::kLast))), uint32_t(pick(random, 0, (1 << rank) - 1)),
                uint32_t(pick(random, 0, 1))};
  made.inputs = {input_of(entry.operands[0].element, reduced_dims(random, rank, 4, made.words[1]))};
  if (made.words[0] != Reduce::kProd) return;
  const double sign = chance(random, 50) ? 1 : -1;
  made.inputs[0].low = sign < 0 ? -1.001 : 0.999;
  made.inputs[0].high = sign < 0 ? -0.999 : 1.001;
}

// In half of the cases the values are so near each other that types of at most 16 bits hold many equal ones.
void arg_max_case(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 1, kMaxRank);
  if (rank != 4) made.traits |= kRankTrait;
  std::vector<int32_t> dims = random_dims(random, rank, 3);
  const int axis = pick(random, 0, rank - 1);
  dims[size_t(axis)] = channels(random, 30);
  made.words = {uint32_t(axis), uint32_t(pick(random, 0, 1)), uint32_t(pick(random, 0, 1)),
                uint32_t(pick(random, 0, 1))};
  made.inputs = {input_of(entry.operands[0].element, dims)};
  if (chance(random, 50)) made.inputs[0].low = 1, made.inputs[0].high = 1.01;
}

}  // namespace

std::span<const OpRow> rows_of_reductions() {
  static constexpr OpRow kRows[] = {
      {.op = Op::kSoftmax,
       .make = &softmax_case,
       .traits = kRankTrait,
       .oracle = &softmax,
       .gradient = &drawn<Op::kSoftmax>},
      {.op = Op::kLogSoftmax,
       .make = &softmax_case,
       .traits = kRankTrait,
       .oracle = &log_softmax,
       .forms = kRealForms,
       .gradient = &drawn<Op::kLogSoftmax>},
      {.op = Op::kBatchNorm,
       .make = &batch_norm_case,
       .traits = kRankTrait,
       .oracle = &batch_norm,
       .forms = kRealForms,
       .gradient = &drawn<Op::kBatchNorm>},
      {.op = Op::kMean, .make = &mean_case, .traits = kRankTrait, .oracle = &mean, .gradient = &drawn<Op::kMean>},
      {.op = Op::kReduce,
       .make = &reduce_case,
       .traits = kRankTrait,
       .oracle = &reduce,
       .forms = kRealForms,
       .gradient = &reduce},
      {.op = Op::kArgMax, .make = &arg_max_case, .traits = kRankTrait, .oracle = &arg_max, .forms = kOther},
      {.op = Op::kAveragePoolGradient, .magnitude = &magnitudes::linear},
      {.op = Op::kMeanGradient, .magnitude = &magnitudes::linear},
      {.op = Op::kMaxPoolGradient, .magnitude = &magnitudes::max_pool},
      {.op = Op::kReduceGradient, .magnitude = &magnitudes::product},
      {.op = Op::kSoftmaxGradient, .bounds = &bounds::softmax, .magnitude = &magnitudes::softmax},
      {.op = Op::kLogSoftmaxGradient, .bounds = &bounds::softmax, .magnitude = &magnitudes::log_softmax},
      {.op = Op::kBatchNormGradientX, .magnitude = &magnitudes::linear},
      {.op = Op::kBatchNormGradientScale, .magnitude = &magnitudes::norm_scale},
  };
  return kRows;
}

}  // namespace nacre::test
