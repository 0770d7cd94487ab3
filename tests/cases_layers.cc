// Cases of other layers: layer_norm, gelu, resize, embedding, batched_matmul, recurrent layers, svdf, tree_ensemble,
// non_max_suppression and signal.
#include <algorithm>
#include <cmath>

#include "engine/ops/signal.h"
#include "tests/cases_random.h"
#include "tests/op_rows.h"
#include "tools/passes/policy/quantize_multiplier.h"

namespace nacre::test {
namespace {
Input input(const KernelEntry& entry, int slot, std::vector<int32_t> dims, double most) {
  return {.element = entry.operands[slot].element, .dims = std::move(dims), .low = -most, .high = most};
}

void absent_or(Random& random, Case& made, Input given) {
  made.inputs.push_back(chance(random, 40) ? Input() : std::move(given));
}

void gelu_case(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 0, kMaxRank);
  if (rank != 4) made.traits |= kRankTrait;
  made.words = {uint32_t(pick(random, 0, 1))};
  std::vector<int32_t> dims = random_dims(random, rank, 4);
  if (rank > 0 && random.lanes > 0) dims.back() = channels(random, 4);
  made.inputs = {input(entry, 0, dims, 10)};
}

void layer_norm_case(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 1, kMaxRank);
  std::vector<int32_t> dims = random_dims(random, rank, 3);
  dims.back() = channels(random, 20);
  if (rank != 4) made.traits |= kRankTrait;
  made.words = {bits(between(random, 1e-5, 1e-2))};
  made.inputs = {input(entry, 0, dims, 4)};
  for (const int slot : {1, 2}) absent_or(random, made, input(entry, slot, {dims.back()}, 4));
}

void resize_case(const KernelEntry& entry, Random& random, Case& made) {
  made.inputs = {input(entry, 0, {pick(random, 1, 2), pick(random, 1, 6), pick(random, 1, 6), pick(random, 1, 40)}, 4)};
  for (int axis = 1; axis < 3; ++axis) {
    const int in = made.inputs[0].dims[size_t(axis)], taps = pick(random, 0, std::min(in, 4)), out = pick(random, 1, 7);
    Input table = input(entry, axis, {out}, 0), weights = input(entry, axis + 2, {out, taps}, 1);
    table.low = 0;
    table.high = in - std::max(taps, 1);
    if (weights.element == ElementType::kInt32) weights.low = -256, weights.high = 512;  // keeps sums below 2^31
    if (taps == 0) weights = {};
    made.inputs.insert(made.inputs.begin() + axis, table);
    made.inputs.push_back(weights);
  }
}

void embedding_case(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 0, kMaxRank - 1), entries = pick(random, 1, 9), negative = pick(random, 0, 1);
  if (rank != 2) made.traits |= kRankTrait;
  made.words = {uint32_t(negative)};
  made.inputs = {input(entry, 0, {entries, pick(random, 1, 7)}, 4), input(entry, 1, random_dims(random, rank, 3), 0)};
  made.inputs[1].low = negative != 0 ? -entries : 0;
  made.inputs[1].high = entries - 1;
}

// In half of the cases some features equal thresholds, are infinite or are NaN.
void tree_ensemble_case(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 1, 4), nodes = pick(random, 1, 12), targets = pick(random, 1, 4);
  const int trees = pick(random, 1, 20), entries = pick(random, 1, 9);
  std::vector<int32_t> dims = random_dims(random, rank, 4);
  if (rank != 2) made.traits |= kRankTrait;
  made.words = {uint32_t(targets), uint32_t(nodes), uint32_t(pick(random, 0, 2))};
  made.inputs = {input(entry, 0, dims, 1),    input(entry, 1, {nodes, 3}, 0), input(entry, 2, {nodes}, 1),
                 input(entry, 3, {trees}, 0), input(entry, 4, {entries}, 0),  input(entry, 5, {entries}, 4)};
  if (chance(random, 50)) made.inputs[0].fill = made.inputs[2].fill = Input::kExtremes;
  made.inputs[1].fill = Input::kTrees;
  made.inputs[1].low = dims.back();
  made.inputs[1].high = entries;
  made.inputs[3].low = -entries;
  made.inputs[3].high = nodes - 1;
  made.inputs[4].high = 2 * targets - 1;
}

void non_max_suppression_case(const KernelEntry& entry, Random& random, Case& made) {
  const int batch = pick(random, 1, 2), classes = pick(random, 1, 3), boxes = pick(random, 1, 24);
  const auto real = [](double v) { return std::bit_cast<uint32_t>(float(v)); };
  made.words = {uint32_t(pick(random, 1, boxes + 2)), real(between(random, 0, 0.6)),
                real(between(random, -1, 0.5)),       real(chance(random, 50) ? between(random, 0.25, 2) : 0),
                uint32_t(pick(random, 0, 1)),         uint32_t(pick(random, 0, 1)),
                uint32_t(pick(random, -1, 0))};
  made.inputs = {input(entry, 0, {batch, boxes, 4}, 1), input(entry, 1, {batch, classes, boxes}, 1)};
  const bool soft = made.words[3] != 0;  // no extremes: decayed scores that are tiny are too near each other
  if (!soft && chance(random, 50)) made.inputs[1].fill = Input::kExtremes;
}

// Filter banks have one channel here; ops/signal_test.cc has more.
void signal_case(const KernelEntry& entry, Random& random, Case& made) {
  using F = Signal;
  const auto function = uint32_t(pick(random, F::kHeadroom, F::kLog));
  std::vector<int32_t> dims = random_dims(random, pick(random, 1, 3), 6);
  const int size = function == F::kFft ? 8 << pick(random, 0, 2) : 1;
  made.words = {function, uint32_t(size), uint32_t(pick(random, 0, 31)), uint32_t(pick(random, 0, 40)),
                uint32_t(pick(random, 0, 1))};
  if (function == F::kSubtract || function == F::kLog) made.words[F::kFactor] = uint32_t(pick(random, 0, 20000));
  made.inputs = {input(entry, 0, dims, 0), {}, {}};
  made.inputs[0].low = chance(random, 50) ? -40000 : INT32_MIN;
  made.inputs[0].high = chance(random, 50) ? 40000 : INT32_MAX;
  const auto give = [&](int slot, std::vector<int32_t> shape, double low, double high) {
    made.inputs[size_t(slot)] = input(entry, slot, shape, 0);
    made.inputs[size_t(slot)].low = low;
    made.inputs[size_t(slot)].high = high;
  };
  const int n = dims.back();
  if (function == F::kFft) give(1, {size / 4 * 3}, INT32_MIN, INT32_MAX);
  if (function == F::kNoise) give(1, {n, 2}, 0, INT32_MAX);
  if (function == F::kGain) give(1, {F::kGainTable}, INT16_MIN, INT16_MAX);
  if (function == F::kLog) give(1, {F::kLogTable}, 0, 6000);
  if (function == F::kNoise || function == F::kSubtract || function == F::kGain) give(2, dims, INT32_MIN, INT32_MAX);
  if (function != F::kFilterBank) return;
  give(1, {pick(random, 1, 9), 2}, 0, n - 1);
  dims.back() = 1;
  give(2, dims, -1, 33);
}

void batched_matmul_case(const KernelEntry& entry, Random& random, Case& made) {
  const bool vectors = random.lanes > 0;
  const int rank = pick(random, 2, vectors ? 4 : kMaxRank), m = pick(random, 1, vectors && chance(random, 40) ? 60 : 5);
  const int n = channels(random, 5), k = vectors ? channels(random, 40) : pick(random, 1, 9);
  std::vector<int32_t> a = random_dims(random, rank - 2, 3), b = a;
  if (chance(random, 60)) {
    for (int32_t& dim : a) dim = chance(random, 30) ? 1 : dim;
    for (int32_t& dim : b) dim = chance(random, 30) ? 1 : dim;
    std::vector<int32_t>& shorter = chance(random, 50) ? a : b;
    shorter.erase(shorter.begin(), shorter.begin() + pick(random, 0, rank - 2));
  }
  if (a != b) made.traits |= kBroadcastTrait;
  if (rank != 4) made.traits |= kRankTrait;
  made.words = {uint32_t(pick(random, 0, 1)), uint32_t(pick(random, 0, 1))};
  const auto add = [](std::vector<int32_t>& dims, bool transposed, int rows, int columns) {
    dims.insert(dims.end(), {transposed ? columns : rows, transposed ? rows : columns});
  };
  add(a, made.words[0] != 0, m, k);
  add(b, made.words[1] != 0, k, n);
  made.inputs = {input(entry, 0, a, 4), input(entry, 1, b, 4)};
  if (entry.rounding == Rounding::kNone) return;
  const bool wide = entry.operands[0].element == ElementType::kInt16;
  for (int i = 0; i < 3; ++i) made.words.push_back(wide ? 0 : uint32_t(pick(random, -128, 127)));
  const double unit = wide ? 0x1p-18 : 0x1p-12;
  made.inputs.push_back(
      {.element = ElementType::kInt32, .dims = {1, 2}, .low = unit, .high = 256 * unit, .fill = Input::kPairs});
}

void recurrent_case(const KernelEntry& entry, Random& random, Case& made, int gates, int states) {
  const int batch = pick(random, 1, random.lanes > 0 ? 6 : 3), time = pick(random, 1, 5), width = channels(random, 6);
  made.inputs = {input(entry, 0, {batch, time, gates * width}, 2),
                 input(entry, 1, {gates * width, width}, std::min(0.8, 4.0 / width))};
  absent_or(random, made, input(entry, 2, {gates * width}, 1));
  const bool given = chance(random, 60);
  for (int i = 0; i < states; ++i) made.inputs.push_back(given ? input(entry, 3 + i, {batch, width}, 1) : Input());
}

void lstm_case(const KernelEntry& entry, Random& random, Case& made) { recurrent_case(entry, random, made, 4, 2); }

void gru_case(const KernelEntry& entry, Random& random, Case& made) {
  recurrent_case(entry, random, made, 3, 1);
  made.words = {uint32_t(pick(random, 0, 1))};
}

void add_pair(Random& random, Case& made, double low, double high) {
  const FixedPoint pair = tools::quantize_multiplier(std::exp2(between(random, std::log2(low), std::log2(high))));
  made.words.insert(made.words.end(), {uint32_t(pair.multiplier), uint32_t(pair.shift)});
}

// The oracle knows h only to within one code, so it cannot predict a second step of time. Fast kernels, which are
// compared with the reference kernel, run several.
void integer_lstm_case(const KernelEntry& entry, Random& random, Case& made) {
  const int batch = pick(random, 1, 3), time = random.lanes > 0 ? pick(random, 1, 4) : 1, width = channels(random, 6);
  const auto code = [&] { return uint32_t(pick(random, -128, 127)); };
  made.words = {chance(random, 50) ? 0 : uint32_t(pick(random, 1, 32767)), uint32_t(pick(random, 9, 15)), code(),
                code()};
  for (int k = 0; k < 4; ++k) add_pair(random, made, 1.0 / 64, 1.0 / 2);
  add_pair(random, made, 1.0 / (1 << 24), 1.0 / (1 << 22));
  made.inputs = {input(entry, 0, {batch, time, 4 * width}, 32767), input(entry, 1, {4 * width, width}, 127)};
  absent_or(random, made, input(entry, 2, {4 * width}, 9000));
  made.inputs.push_back(input(entry, 3, {batch, width}, 127));
  made.inputs.push_back(input(entry, 4, {batch, width}, 32767));
  if (entry.operand_count > 6)
    made.inputs.push_back({.element = ElementType::kInt32, .dims = {256}, .fill = Input::kCurve});
}

void stream_lstm_case(const KernelEntry& entry, Random& random, Case& made) {
  if (entry.operands[0].element == ElementType::kInt16) return integer_lstm_case(entry, random, made);
  const int batch = pick(random, 1, 3), time = pick(random, 1, 5), width = channels(random, 6);
  made.words = {chance(random, 50) ? 0 : bits(between(random, 0.1, 1))};
  made.inputs = {input(entry, 0, {batch, time, 4 * width}, 2),
                 input(entry, 1, {4 * width, width}, std::min(0.8, 4.0 / width))};
  absent_or(random, made, input(entry, 2, {4 * width}, 1));
  for (const int slot : {3, 4}) made.inputs.push_back(input(entry, slot, {batch, width}, 1));
}

void svdf_case(const KernelEntry& entry, Random& random, Case& made) {
  const int batch = pick(random, 1, 3), rank = pick(random, 1, 3), filters = rank * channels(random, 4);
  const int memory = channels(random, 6);
  const bool wide = entry.operands[0].element == ElementType::kInt16, codes = entry.rounding == Rounding::kDouble;
  const double most = wide ? 3000 : codes ? 127 : 4;
  made.words = {uint32_t(rank - 1)};
  if (codes) {
    made.words.insert(made.words.end(),
                      {wide ? 0 : uint32_t(pick(random, -128, 127)), uint32_t(pick(random, -128, 127))});
    if (wide) add_pair(random, made, 1.0 / (1 << 20), 1.0 / (1 << 16));
    else add_pair(random, made, 1.0 / 4096, 1.0 / 64);
  }
  made.inputs = {input(entry, 0, {batch, filters}, most), input(entry, 1, {filters, memory}, most)};
  absent_or(random, made, input(entry, 2, {filters / rank}, codes ? 9000 : 4));
  made.inputs.push_back(input(entry, 3, {batch, filters, memory}, most));
}

}  // namespace

std::span<const OpRow> rows_of_layers() {
  static constexpr OpRow kRows[] = {
      {.op = Op::kResize, .make = &resize_case, .oracle = &resize, .gradient = &resize},
      {.op = Op::kGelu,
       .make = &gelu_case,
       .traits = kRankTrait,
       .oracle = &gated,
       .forms = kRealForms,
       .gradient = &drawn<Op::kGelu>},
      {.op = Op::kLayerNorm,
       .make = &layer_norm_case,
       .traits = kRankTrait,
       .oracle = &layer_norm,
       .forms = kRealForms,
       .gradient = &layer_norm},
      {.op = Op::kEmbedding,
       .make = &embedding_case,
       .traits = kRankTrait,
       .oracle = &embedding,
       .forms = kRealForms,
       .gradient = &embedding},
      {.op = Op::kBatchedMatmul,
       .make = &batched_matmul_case,
       .traits = kRankTrait | kBroadcastTrait,
       .oracle = &batched_matmul,
       .gradient = &drawn<Op::kBatchedMatmul>,
       .shape_only = 1 << 0 | 1 << 9},
      {.op = Op::kLstm,
       .make = &lstm_case,
       .oracle = &lstm,
       .forms = kRealForms,
       .gradient = &drawn<Op::kLstm>,
       .shape_only = 1 << 3,
       .bounds = &bounds::lstm},
      {.op = Op::kGru,
       .make = &gru_case,
       .oracle = &gru,
       .forms = kRealForms,
       .gradient = &drawn<Op::kGru>,
       .bounds = &bounds::gru},
      {.op = Op::kStreamLstm,
       .make = &stream_lstm_case,
       .oracle = &stream_lstm,
       .forms = kRealForms | kOther,
       .bounds = &bounds::stream_lstm},
      {.op = Op::kSvdf, .make = &svdf_case, .oracle = &svdf, .forms = kAllForms, .bounds = &bounds::svdf},
      {.op = Op::kTreeEnsemble,
       .make = &tree_ensemble_case,
       .traits = kRankTrait,
       .oracle = &tree_ensemble,
       .forms = kFloat32 | kFloat64},
      {.op = Op::kNonMaxSuppression,
       .make = &non_max_suppression_case,
       .oracle = &non_max_suppression,
       .forms = kOther},
      {.op = Op::kSignal, .make = &signal_case, .oracle = &signal, .forms = 0},
      {.op = Op::kResizeGradient, .magnitude = &magnitudes::linear},
      {.op = Op::kGeluGradient, .bounds = &bounds::gelu},
      {.op = Op::kLayerNormGradientX, .bounds = &bounds::layer_norm_x},
      {.op = Op::kLayerNormGradientScale, .bounds = &bounds::layer_norm_scale},
      {.op = Op::kLstmGradient, .bounds = &bounds::lstm_gradient},
      {.op = Op::kGruGradient, .bounds = &bounds::gru_gradient},
  };
  return kRows;
}

}  // namespace nacre::test
