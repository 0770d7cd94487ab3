// Makes random cases of dense layers, convolutions and pools.
#include <algorithm>
#include <cmath>

#include "tests/cases_parts.h"
#include "tests/op_rows.h"

namespace nacre::test {
namespace {

// Adds the words of a fused function, which stand in place of a clamp's words: kind, alpha of leaky_relu, 0.
void add_function(Random& random, Case& made) {
  const uint32_t kind = uint32_t(pick(random, Clamp::kLeakyRelu, Clamp::kGeluTanh));
  made.words.insert(made.words.end(), {kind, kind == Clamp::kLeakyRelu ? bits(between(random, -0.5, 1.5)) : 0, 0});
}

// Returns whether the entry fuses function and residual sum: only that form has inputs 0, 1 and 3 of one float type.
bool is_fused(const KernelEntry& entry) {
  return is_float(entry.operands[0].element) && input_count(entry) == 4 &&
         entry.operands[1].element == entry.operands[0].element &&
         entry.operands[3].element == entry.operands[0].element;
}

// Adds the words {kind, low, high} of a matmul's epilogue.
void add_epilogue_clamp(const KernelEntry& entry, Random& random, Case& made) {
  if (is_fused(entry) && chance(random, 70)) add_function(random, made);
  else add_clamp(entry, random, made);
}

struct Sums {
  int channels, terms;
  int batch;                  // number of rows with a scale of their own in the hybrid form
  std::vector<int32_t> rows;  // dims of x_scale in the other forms; empty: [1]
  std::vector<int32_t> y;
  uint32_t kind;  // the first of the clamp words
};

// Adds scale and zero point of each group of `block` weights: float32 and int8.
void add_groups(const KernelEntry& entry, Random& random, const Sums& sums, Case& made) {
  // Codes of 4 bits are read in vectors if vectors have whole groups, which are mostly of a power of two.
  const int block = chance(random, 50)   ? 8 << pick(random, 0, 5)
                    : chance(random, 30) ? sums.terms
                                         : pick(random, 1, sums.terms + 2);
  const int groups = (sums.terms + block - 1) / block;
  made.words.back() = uint32_t(block);
  const std::vector<int32_t> dims = {sums.channels, groups};
  made.inputs.push_back({.element = entry.operands[3].element, .dims = dims, .low = 0.0005, .high = 0.05});
  made.inputs.push_back({.element = ElementType::kInt8, .dims = dims, .low = -8, .high = 7});
}

// Adds the inputs after x and w, by the entry's form (engine/ops/epilogue.h); the last words are {form, block}. The
// fused form gets small sums: its functions bend near 0.
void add_epilogue(const KernelEntry& entry, Random& random, const Sums& sums, Case& made) {
  const auto type = [&](int slot) { return entry.operands[slot].element; };
  const auto scales = [&](int slot, std::vector<int32_t> dims, double low, double high) {
    made.inputs.push_back({.element = type(slot), .dims = std::move(dims), .low = low, .high = high});
  };
  made.inputs.push_back(input_of(type(2), {sums.channels}));
  if (type(2) == ElementType::kInt32) made.inputs[2].low = -3000, made.inputs[2].high = 3000;
  if ((entry.operands[2].role & kOptional) != 0 && chance(random, 30)) made.inputs[2] = {};
  made.words.insert(made.words.end(), {0, 0});
  const int count = chance(random, 50) ? 1 : sums.channels, inputs = input_count(entry);
  const bool codes = coded(entry), float8 = type(0) == ElementType::kFloat8E4M3;
  if (inputs == 3) return;
  if (is_fused(entry)) {
    for (const size_t slot : {0u, 1u}) made.inputs[slot].low = -1, made.inputs[slot].high = 1;
    const bool absent = sums.kind > Clamp::kBounds && chance(random, 30);
    return made.inputs.push_back(absent ? Input() : input_of(type(3), sums.y));
  }
  if (inputs == 5 && type(4) == ElementType::kInt8) return add_groups(entry, random, sums, made);
  const bool dynamic = inputs == 5 && codes, reciprocal = inputs == 4 && !codes && chance(random, 50);
  made.words[made.words.size() - 2] = reciprocal ? 1 : 0;
  if (is_int16(entry)) made.inputs.push_back(pairs(count, std::exp2(-16), std::exp2(-4)));
  else if (type(3) == ElementType::kInt32) made.inputs.push_back(pairs(count, 1.0 / 4096, 1.0 / 16));
  else if (dynamic) scales(3, {count}, 10, 500);
  else if (reciprocal) scales(3, {count}, 20, 2000);
  else scales(3, {count}, 0.0005, 0.05);
  if (entry.rounding == Rounding::kFloatEven && chance(random, 15)) made.inputs.back().fill = Input::kExtremes;
  if (inputs == 4) return;
  if (type(5) == ElementType::kInt32 && codes && !dynamic) {
    scales(4, {sums.batch}, 0.001, 0.1);
    return scales(5, {sums.batch}, -128, 127);
  }
  const bool one = sums.rows.empty() || (float8 && chance(random, 30));
  scales(4, one ? std::vector<int32_t>{1} : sums.rows, dynamic ? 10 : 0.01, dynamic ? 500 : 5);
  if (inputs > 5) scales(5, {1}, 0.0005, 0.5);
}

void dense_case(const KernelEntry& entry, Random& random, Case& made) {
  const bool many = random.lanes > 0 && chance(random, 6);  // so that fast kernels cut rows and columns
  const int rank = many ? 2 : pick(random, 1, kMaxRank);
  std::vector<int32_t> dims = random_dims(random, rank, 3);
  dims.back() = channels(random, 40);
  const int out = many ? pick(random, 330, 450) : channels(random, 12);
  const bool codes4 = entry.operands[1].element == ElementType::kInt4;
  if (codes4 && random.lanes > 0 && !many && chance(random, 50)) dims.back() = pick(random, 1, 24 * random.lanes);
  if (random.lanes > 0 && rank > 1) dims[0] = many ? pick(random, 20, 60) : pick(random, 1, 30);
  add_epilogue_clamp(entry, random, made);
  made.words.insert(made.words.end(), {zero_word(entry, random), zero_word(entry, random)});
  made.inputs = {input_of(entry.operands[0].element, dims), input_of(entry.operands[1].element, {out, dims.back()})};
  std::vector<int32_t> y = dims;
  y.back() = out;
  const Sums sums = {.channels = out,
                     .terms = dims.back(),
                     .batch = rank > 1 ? dims[0] : 1,
                     .rows = {dims.begin(), dims.end() - 1},
                     .y = y,
                     .kind = made.words[0]};
  add_epilogue(entry, random, sums, made);
  if (rank != 2) made.traits |= kRankTrait;
}

struct Axis {
  int in, kernel, stride, dilation, before, after;
  int out() const { return (in + before + after - (kernel - 1) * dilation - 1) / stride + 1; }
};

Axis random_axis(Random& random, int most_kernel) {
  Axis axis = {.in = pick(random, 1, 9),
               .kernel = pick(random, 1, most_kernel),
               .stride = pick(random, 1, 3),
               .dilation = chance(random, 60) ? 1 : pick(random, 2, 3),
               .before = 0,
               .after = 0};
  const int span = (axis.kernel - 1) * axis.dilation + 1;
  axis.before = pick(random, 0, span - 1);
  axis.after = chance(random, 40) ? axis.before : pick(random, 0, span - 1);
  axis.in = std::max(axis.in, span - axis.before - axis.after);
  return axis;
}

void add_window(const Axis& h, const Axis& w, Case& made) {
  for (const int word :
       {h.stride - 1, w.stride - 1, h.dilation - 1, w.dilation - 1, h.before, w.before, h.after, w.after})
    made.words.push_back(uint32_t(word));
  if ((h.dilation > 1 && h.kernel > 1) || (w.dilation > 1 && w.kernel > 1)) made.traits |= kDilationTrait;
  if (h.before != h.after || w.before != w.after) made.traits |= kAsymmetricTrait;
}

// Makes both axes as most networks have them: fast kernels have forms of their own for such axes.
void make_usual(Random& random, Axis& h, Axis& w) {
  const int stride = pick(random, 1, 2);
  for (Axis* axis : {&h, &w})
    *axis = {.in = pick(random, 3, 13),
             .kernel = 3,
             .stride = stride,
             .dilation = 1,
             .before = pick(random, 0, 2),
             .after = pick(random, 0, 2)};
}

void conv(const KernelEntry& entry, Random& random, Case& made, bool depthwise) {
  Axis h = random_axis(random, 4), w = random_axis(random, 4);
  const bool usual = random.lanes > 0 && chance(random, 30);
  if (usual) make_usual(random, h, w);
  const int batch = pick(random, 1, 2), groups = depthwise || chance(random, 40) ? 1 : pick(random, 2, 3);
  const bool many = depthwise && random.lanes > 0 && chance(random, 8);  // so that fast kernels cut channels
  const int group_in = !many                         ? channels(random, 4)
                       : usual && chance(random, 50) ? 128 * pick(random, 1, 3) + pick(random, 0, 2 * random.lanes)
                                                     : pick(random, 190, 420);
  const int multiplier = depthwise ? usual ? 1 : pick(random, 1, 3) : channels(random, 4);
  const int in_c = groups * group_in, out_c = depthwise ? in_c * multiplier : groups * multiplier;
  add_window(h, w, made);
  add_epilogue_clamp(entry, random, made);
  made.words.insert(made.words.end(), {zero_word(entry, random), zero_word(entry, random), uint32_t(groups - 1)});
  made.inputs = {input_of(entry.operands[0].element, {batch, h.in, w.in, in_c})};
  const std::vector<int32_t> weights = depthwise ? std::vector<int32_t>{h.kernel, w.kernel, out_c}
                                                 : std::vector<int32_t>{out_c, h.kernel, w.kernel, group_in};
  made.inputs.push_back(input_of(entry.operands[1].element, weights));
  const Sums sums = {.channels = out_c,
                     .terms = h.kernel * w.kernel * (depthwise ? 1 : group_in),
                     .batch = batch,
                     .rows = {batch},
                     .y = {batch, h.out(), w.out(), out_c},
                     .kind = made.words[8]};
  add_epilogue(entry, random, sums, made);
  if (groups > 1) made.traits |= kGroupsTrait;
  if (depthwise && multiplier > 1) made.traits |= kMultiplierTrait;
}
void conv2d_case(const KernelEntry& entry, Random& random, Case& made) { conv(entry, random, made, false); }
void depthwise_conv2d_case(const KernelEntry& entry, Random& random, Case& made) { conv(entry, random, made, true); }

void pool_case(const KernelEntry& entry, Random& random, Case& made) {
  Axis h = random_axis(random, 4), w = random_axis(random, 4);
  h.in = std::max(h.in, h.dilation);
  w.in = std::max(w.in, w.dilation);
  const bool count_pads = chance(random, 30);
  if (count_pads && coded(entry)) {
    h.before = h.after = w.before = w.after = 0;
    h.in = std::max(h.in, (h.kernel - 1) * h.dilation + 1);
    w.in = std::max(w.in, (w.kernel - 1) * w.dilation + 1);
  }
  add_window(h, w, made);
  made.words.insert(made.words.end(), {uint32_t(h.kernel - 1), uint32_t(w.kernel - 1), uint32_t(count_pads)});
  add_clamp(entry, random, made);
  made.inputs = {input_of(entry.operands[0].element, {pick(random, 1, 2), h.in, w.in, channels(random, 5)})};
}

}  // namespace

std::span<const OpRow> rows_of_products() {
  static constexpr OpRow kRows[] = {
      {.op = Op::kDense,
       .make = &dense_case,
       .traits = kRankTrait,
       .oracle = &dense,
       .forms = kAllForms,
       .gradient = &drawn<Op::kDense, 0>},
      {.op = Op::kConv2d,
       .make = &conv2d_case,
       .traits = kDilationTrait | kAsymmetricTrait | kGroupsTrait,
       .oracle = &conv,
       .forms = kAllForms,
       .gradient = &drawn<Op::kConv2d, 8>},
      {.op = Op::kDepthwiseConv2d,
       .make = &depthwise_conv2d_case,
       .traits = kDilationTrait | kAsymmetricTrait | kMultiplierTrait,
       .oracle = &conv,
       .forms = kAllForms,
       .gradient = &drawn<Op::kDepthwiseConv2d, 8>},
      {.op = Op::kAveragePool,
       .make = &pool_case,
       .traits = kDilationTrait | kAsymmetricTrait,
       .oracle = &pool,
       .gradient = &drawn<Op::kAveragePool, 11>},
      {.op = Op::kMaxPool,
       .make = &pool_case,
       .traits = kDilationTrait | kAsymmetricTrait,
       .oracle = &pool,
       .gradient = &max_pool},
      {.op = Op::kBiasGradient, .magnitude = &magnitudes::linear},
      {.op = Op::kDenseGradientX, .magnitude = &magnitudes::linear},
      {.op = Op::kDenseGradientW, .magnitude = &magnitudes::linear},
      {.op = Op::kConv2dGradientX, .magnitude = &magnitudes::linear},
      {.op = Op::kConv2dGradientW, .magnitude = &magnitudes::linear},
      {.op = Op::kDepthwiseConv2dGradientX, .magnitude = &magnitudes::linear},
      {.op = Op::kDepthwiseConv2dGradientW, .magnitude = &magnitudes::linear},
  };
  return kRows;
}

}  // namespace nacre::test
