#include "tests/claims/kernels_correct_reference.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <stdexcept>

#include "engine/kernels/training.h"
#include "tests/cases_random.h"
#include "tests/claims/kernels_correct_bounds.h"
#include "tests/claims/kernels_correct_quantizers.h"
#include "tests/gradient_check.h"
#include "tests/op_rows.h"
#include "tests/oracle_rounding.h"
#include "tests/random_conv.h"

namespace nacre::test {
namespace {

constexpr bool is_real(ElementType type) {
  return type == ElementType::kFloat32 || type == ElementType::kFloat16 || type == ElementType::kBfloat16;
}

// A kernel's promise about its results, if the op's row has no bounds (op_rows.h).
enum Promise {
  kExact,  // the bits of the reference kernel
  kSums,   // sums of products in another order: n terms are within (n + 2) epsilon of the sum of their magnitudes
  kNorm,   // real numbers within 4 ulp of the float64 kernel: the verdict, NUMERICS.md section 12, and a quotient
};
// The ops of training with a row. All others promise kExact, and their steps are gradient or loss steps.
struct Row {
  Op op;
  Promise promise;
  // Makes a step; null: the gradient tables make it.
  void (*make)(const KernelEntry& entry, Random& random, ReferenceCase& made) = nullptr;
};

Array numbers(ElementType type, int count, Random& random, double low, double high) {
  Array array = make_array(type, {count});
  for (int64_t i = 0; i < count; ++i) array.set(i, between(random, low, high));
  return array;
}
int length(Random& random) { return chance(random, 30) ? pick(random, 1, 300) : channels(random, 90); }

// Makes the words {clip_value, weight_decay} and the optimizer's own. Some gradients and moments are 0.
void optimizer(const KernelEntry& entry, Random& random, ReferenceCase& made) {
  const auto one_of = [&](std::initializer_list<double> list) {
    return bits(list.begin()[pick(random, 0, int(list.size()) - 1)]);
  };
  made.words = {one_of({0, 0, 0.5}), one_of({0, 0.01})};
  if (entry.op != Op::kSgd && entry.op != Op::kAdagrad) made.words.push_back(one_of({0.0, 0.9, 0.5}));
  const bool adam = entry.op == Op::kAdam || entry.op == Op::kAdamW;
  if (adam) made.words.push_back(one_of({0.999, 0.99, 0}));
  if (adam || entry.op == Op::kRmsprop || entry.op == Op::kAdagrad) made.words.push_back(one_of({1e-8, 1e-3, 1}));
  if (adam || entry.op == Op::kRmsprop || entry.op == Op::kAdagrad)
    made.words.push_back(uint32_t(pick(random, 0, 1)));  // epsilon_before, epsilon_in_root
  const int n = length(random);
  made.inputs = {numbers(ElementType::kFloat32, n, random, -2, 2),
                 array_of<double>(ElementType::kFloat32, {4}, {between(random, 0.1, 2), 0, 0, 0}),
                 array_of<double>(ElementType::kFloat32, {1}, {between(random, 0, 0.1)})};
  if (adam) made.inputs.push_back(array_of<int>(ElementType::kUint32, {1}, {pick(random, 0, 1000)}));
  while (made.inputs.size() < entry.operand_count)
    made.inputs.push_back(numbers(entry.operands[made.inputs.size()].element, n, random, 0, 2));
  for (Array* array : {&made.inputs[0], &made.inputs.back()})
    for (int64_t i = 0; i < n; ++i)
      if (chance(random, 10)) array->set(i, 0);
}

// Makes the words of engine/ops/optimize_onnx.h, and rate, count, x, gradient and states.
void onnx_optimizer(const KernelEntry& entry, Random& random, ReferenceCase& made) {
  made.words = {bits(chance(random, 50) ? 0 : 0.01)};
  switch (entry.op) {
    case Op::kOnnxMomentum:
      made.words.insert(made.words.end(), {bits(0.9), bits(0.5), uint32_t(pick(random, 0, 1))});
      break;
    case Op::kOnnxAdam: made.words.insert(made.words.end(), {bits(0.9), bits(0.99), bits(1e-6), bits(0.01)}); break;
    default: made.words.insert(made.words.end(), {bits(0.01), bits(1e-6)});
  }
  const int n = length(random);
  made.inputs = {numbers(entry.operands[0].element, 1, random, 0, 0.1),
                 array_of<int64_t>(entry.operands[1].element, {1}, {pick(random, 0, 9)})};
  while (entry.operands[made.inputs.size()].role != uint8_t(Role::kOut))
    made.inputs.push_back(numbers(entry.operands[made.inputs.size()].element, n, random, 0, 2));
}

void accumulate(const KernelEntry& entry, Random& random, ReferenceCase& made) {
  const int n = length(random);
  for (int i = 0; i < 2; ++i) made.inputs.push_back(numbers(entry.operands[i].element, n, random, -4, 4));
}

void float8_gradient_w(const KernelEntry& entry, Random& random, ReferenceCase& made) {
  const int rows = pick(random, 1, 40), out = pick(random, 1, 12), in = channels(random, 40);
  made.inputs = {numbers(entry.operands[0].element, rows * out, random, -4, 4),
                 numbers(entry.operands[1].element, rows * in, random, -4, 4),
                 numbers(entry.operands[2].element, 1, random, 0.001, 1),
                 numbers(entry.operands[3].element, 1, random, 0.001, 1),
                 numbers(entry.operands[4].element, out * in, random, -4, 4)};
  made.inputs[0].dims = {rows, out}, made.inputs[1].dims = {rows, in}, made.inputs[4].dims = {out, in};
}

// Makes inputs of these dims, in the operands' order: codes of dy and of w or x, two steps, the updated operand.
void float8_conv(const KernelEntry& entry, const std::vector<std::vector<int32_t>>& dims, Random& random,
                 ReferenceCase& made) {
  for (size_t i = 0; i < dims.size(); ++i) {
    Array array = make_array(entry.operands[i].element, dims[i]);
    const bool step = i == 2 || i == 3;
    for (int64_t e = 0; e < array.elements(); ++e) array.set(e, between(random, step ? 0.001 : -4, step ? 1 : 4));
    made.inputs.push_back(std::move(array));
  }
}
void float8_conv_gradient_w(const KernelEntry& entry, Random& random, ReferenceCase& made) {
  const RandomConv conv(random, channels(random, 20));
  made.words = conv.words;
  float8_conv(entry, {conv.y_dims, conv.x_dims, {1}, {1}, conv.w_dims}, random, made);
}

bool gradient_case(const KernelEntry& entry, Random& random, ReferenceCase& made);
void conv_gradient_x(const KernelEntry& entry, Random& random, ReferenceCase& made) {
  if (entry.operand_count == 3) {
    gradient_case(entry, random, made);
    return;
  }
  const RandomConv conv(random, channels(random, 20));
  made.words = conv.words_x;
  float8_conv(entry, {conv.y_dims, conv.w_dims, {1}, {1}}, random, made);
}

void batch_norm(const KernelEntry& entry, Random& random, ReferenceCase& made) {
  const int rows = chance(random, 30) ? pick(random, 120, 300) : pick(random, 1, 20), count = channels(random, 20);
  made.words = {bits(between(random, 0.001, 0.1)), uint32_t(pick(random, 0, 1))};
  made.inputs = {numbers(entry.operands[0].element, rows * count, random, -4, 4)};
  made.inputs[0].dims = {rows, count};
  for (int i = 0; i < 4; ++i) made.inputs.push_back(numbers(ElementType::kFloat32, count, random, -4, 4));
  made.inputs.push_back(array_of<double>(ElementType::kFloat32, {1}, {2}));
}

// In some cases a gradient is infinite or NaN.
void verdict(const KernelEntry&, Random& random, ReferenceCase& made) {
  const ElementType f32 = ElementType::kFloat32;
  made.words = {chance(random, 50) ? 0 : bits(between(random, 0.1, 4))};
  made.inputs = {numbers(f32, length(random), random, -4, 4), numbers(f32, 1, random, 0, 9),
                 array_of<int>(f32, {1}, {pick(random, 0, 8)}), array_of<int>(f32, {1}, {1 << pick(random, 0, 16)})};
  Array& gradients = made.inputs[0];
  if (chance(random, 20))
    gradients.set(pick(random, 0, int(gradients.elements()) - 1), chance(random, 50) ? NAN : -INFINITY);
}

template <class F>
Array array_with(ElementType type, const Array& from, F value) {
  if (!from.present()) return from;
  Array array = make_array(type, from.dims);
  for (int64_t i = 0; i < array.elements(); ++i) array.set(i, value(from.real(i)));
  return array;
}

// Makes a forward step of a loss or a recurrent layer, from the op's row of the gradient tests.
void forward(const KernelEntry& entry, Random& random, ReferenceCase& made) {
  const OpRow* const row = find_gradient_row(entry.op);
  if (row == nullptr) {  // an op with a state, which has no gradient
    const Case drawn = random_case(entry, random);
    made.words = drawn.words, made.inputs = random_inputs(drawn, random);
    return;
  }
  GradientCase step;
  row->gradient(random, step);
  made.words = step.words;
  for (size_t i = 0; i < step.inputs.size(); ++i)
    made.inputs.push_back(array_with(entry.operands[i].element, step.inputs[i], [](double v) { return v; }));
}

void zeros(const KernelEntry&, Random& random, ReferenceCase& made) {
  made.words = {2, uint32_t(pick(random, 1, 3)), uint32_t(length(random)), 0, 0, 0, 0};
}

// Some means are infinite or NaN, and their count may be 0.
void statistics(const KernelEntry&, Random& random, ReferenceCase& made) {
  const ElementType f32 = ElementType::kFloat32;
  const int n = length(random);
  made.words = {bits(between(random, 0, 1))};
  made.inputs = {numbers(f32, n, random, -4, 4), array_of<int>(f32, {1}, {pick(random, 0, 4)}),
                 numbers(f32, n, random, -4, 4)};
  for (int i = 0; i < n; ++i)
    if (chance(random, 10)) made.inputs[0].set(i, chance(random, 50) ? NAN : INFINITY);
}

constexpr Row kRows[] = {
    {Op::kDenseGradientX, kSums},
    {Op::kDenseGradientW, kSums},
    {Op::kDenseFloat8GradientW, kSums, &float8_gradient_w},
    {Op::kBiasGradient, kSums},
    {Op::kConv2dGradientX, kSums, &conv_gradient_x},
    {Op::kConv2dGradientW, kSums},
    {Op::kConv2dFloat8GradientW, kSums, &float8_conv_gradient_w},
    {Op::kBatchNormTraining, kExact, &batch_norm},
    {Op::kSgd, kExact, &optimizer},
    {Op::kMomentum, kExact, &optimizer},
    {Op::kNesterov, kExact, &optimizer},
    {Op::kAdam, kExact, &optimizer},
    {Op::kAdamW, kExact, &optimizer},
    {Op::kRmsprop, kExact, &optimizer},
    {Op::kAdagrad, kExact, &optimizer},
    {Op::kOnnxMomentum, kExact, &onnx_optimizer},
    {Op::kOnnxAdam, kExact, &onnx_optimizer},
    {Op::kOnnxAdagrad, kExact, &onnx_optimizer},
    {Op::kAccumulate, kExact, &accumulate},
    {Op::kVerdict, kNorm, &verdict},
    {Op::kBatchedMatmulGradientA, kSums},
    {Op::kBatchedMatmulGradientB, kSums},
    {Op::kLstmGradientW, kSums},
    {Op::kGruGradientW, kSums},
    {Op::kFakeQuantize, kExact, &fake_quantize_case},
    {Op::kFakeQuantizeGradientX, kExact, &fake_quantize_gradient_case},
    {Op::kFakeQuantizeGradientScale, kExact, &fake_quantize_range_case},
    {Op::kObserveRange, kExact, &observe_range_case},
    {Op::kFakeFloat8, kExact, &fake_float8_case},
    {Op::kFakeFloat8Gradient, kExact, &fake_float8_case},
    {Op::kZeros, kExact, &zeros},
    {Op::kUpdateStatistics, kExact, &statistics},
};
const Row* find_row(Op op) {
  const auto* found = std::find_if(std::begin(kRows), std::end(kRows), [op](const Row& row) { return row.op == op; });
  return found == std::end(kRows) ? nullptr : found;
}

template <class F>
const KernelEntry* find_entry(const KernelEntry& entry, F fits) {
  for (const auto& list : {reference::list(), reference::training_list()})
    for (const reference::NamedEntry& named : list) {
      const KernelEntry& other = *named.entry;
      if (other.op != entry.op || other.operand_count != entry.operand_count) continue;
      bool all = true;
      for (int i = 0; i < entry.operand_count; ++i)
        all &= other.operands[i].role == entry.operands[i].role &&
               fits(other.operands[i].element, entry.operands[i].element);
      if (all) return &other;
    }
  throw std::out_of_range("no reference kernel");
}
// Return the reference kernel of the same types, and the one with float64 in place of real operands; some operands
// stay float32 there.
const KernelEntry& same_entry(const KernelEntry& entry) {
  return *find_entry(entry, [](ElementType other, ElementType own) { return other == own; });
}
const KernelEntry& wide_entry(const KernelEntry& entry) {
  return *find_entry(entry, [](ElementType other, ElementType own) {
    return other == ElementType::kFloat64 ? is_real(own) : other == own;
  });
}

// ---- A gradient step, as the table of some op makes it of a random case of that op.

bool makes(const OpRule& rule, Op by) {
  return std::any_of(rule.gradients.begin(), rule.gradients.end(), [by](const Gradient& row) { return row.by == by; });
}

std::vector<const OpRow*> rows_of_gradient(Op op) {
  std::vector<const OpRow*> rows;
  for (const OpRule* rule : all_rules())
    if (const OpRow* row = find_gradient_row(rule->op); row != nullptr && makes(*rule, op)) rows.push_back(row);
  return rows;
}

bool gradient_case(const KernelEntry& entry, Random& random, ReferenceCase& made) {
  const std::vector<const OpRow*> rows = rows_of_gradient(entry.op);
  if (rows.empty()) return false;
  for (int tries = 0; tries < 100; ++tries) {
    const OpRow& row = *rows[size_t(pick(random, 0, int(rows.size()) - 1))];
    GradientCase forward;
    row.gradient(random, forward);
    const Linearized linear = linearize(row, forward, random);
    if (!linear.why.empty()) continue;
    for (const Target& target : targets(linear)) {
      if (linear.rule->gradients[target.row].by != entry.op) continue;
      const GradientStep step = gradient_step(linear, target);
      if (step.entry == nullptr || step.entry->operand_count != entry.operand_count) continue;
      made.words = step.words;
      for (size_t i = 0; i < step.operands.size(); ++i)
        made.inputs.push_back(array_with(entry.operands[i].element, step.operands[i], [](double v) { return v; }));
      return true;
    }
  }
  throw std::out_of_range("no gradient step of this op");
}

// ---- Expectations.

using Arrays = std::vector<Array>;
Execution run(const KernelEntry& entry, const std::vector<uint32_t>& words, const Arrays& inputs) {
  Execution run = execute(entry, words, inputs);
  if (run.code != Code::kOk) throw std::runtime_error("the reference refuses the case");
  return run;
}

std::vector<Expected> exactly(const Arrays& arrays) {
  std::vector<Expected> all;
  for (const Array& array : arrays) {
    Expected expected = {array.dims, {}, {}};
    for (int64_t i = 0; i < array.elements(); ++i) expected.value.push_back(array.real(i));
    expected.tolerance.resize(expected.value.size(), 0);
    all.push_back(expected);
  }
  return all;
}

// Returns the expected sums. `magnitudes` and `terms` are the sums of the absolute values, and of ones. `like` has
// the types of the outputs.
std::vector<Expected> sums(const Arrays& values, const Arrays& magnitudes, const Arrays& terms, const Arrays& like) {
  std::vector<Expected> all = exactly(values);
  for (size_t o = 0; o < all.size(); ++o)
    for (size_t i = 0; i < all[o].value.size(); ++i) {
      const auto at = int64_t(i);
      const double error = (terms[o].real(at) + 2) * double(FLT_EPSILON) * magnitudes[o].real(at);
      const bool narrow = like[o].element != ElementType::kFloat32;
      all[o].tolerance[i] =
          error + (narrow ? double(quantum(like[o].element, std::abs(all[o].value[i]) + error)) / 2 : 0);
    }
  return all;
}

// Allows real numbers `ulp` units of the last place, and other numbers no difference.
std::vector<Expected> within(const Arrays& values, const Arrays& like, double ulp) {
  std::vector<Expected> all = exactly(values);
  for (size_t o = 0; o < all.size(); ++o)
    for (size_t i = 0; i < all[o].value.size(); ++i)
      if (is_real(like[o].element) && std::isfinite(all[o].value[i]))
        all[o].tolerance[i] = ulp * double(FLT_EPSILON) * std::abs(all[o].value[i]);
  return all;
}

}  // namespace

bool has_reference_case(Op op) {
  if (find_row(op) != nullptr || has_bounds(op)) return true;
  return find_case_maker(op) == nullptr && (!rows_of_gradient(op).empty() || find_gradient_row(op) != nullptr);
}

ReferenceCase reference_case(const KernelEntry& entry, Random& random) {
  ReferenceCase made;
  const Row* const found = find_row(entry.op);
  const Promise promise = found != nullptr ? found->promise : kExact;
  if (found != nullptr && found->make != nullptr) found->make(entry, random, made);
  else if (!gradient_case(entry, random, made)) forward(entry, random, made);
  const Execution same = run(same_entry(entry), made.words, made.inputs);
  const bool bounded = has_bounds(entry.op) && is_real(entry.operands[0].element);
  if (promise == kExact && !bounded) {
    made.outputs = exactly(same.outputs);
    made.updated = exactly(same.updated);
    return made;
  }
  if (bounded) {
    BoundedResults results = bounded_results(entry, made.words, made.inputs, same);
    made.outputs = std::move(results.outputs);
    made.updated = std::move(results.updated);
    return made;
  }
  const KernelEntry& wide = wide_entry(entry);
  const auto run_with = [&](auto value) {
    Arrays inputs;
    for (size_t i = 0; i < made.inputs.size(); ++i)
      inputs.push_back(array_with(wide.operands[i].element, made.inputs[i], value));
    return run(wide, made.words, inputs);
  };
  const Execution values = run_with([](double v) { return v; }),
                  magnitudes = run_with([](double v) { return std::abs(v); }),
                  terms = run_with([](double) { return 1.0; });
  if (promise == kNorm) {
    made.outputs = within(values.outputs, same.outputs, 4);
    return made;
  }
  made.outputs = sums(values.outputs, magnitudes.outputs, terms.outputs, same.outputs);
  made.updated = sums(values.updated, magnitudes.updated, terms.updated, same.updated);
  return made;
}

}  // namespace nacre::test
