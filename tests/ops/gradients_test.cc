// Tests gradient kernels in float32, float16 and bfloat16 against the float64 kernel on the same numbers, in place,
// and with hostile attributes. Claim `gradients` compares the float64 kernels with central differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "engine/kernels/training.h"
#include "engine/ops/binary.h"
#include "tests/gradient_check.h"
#include "tests/op_rows.h"
#include "tests/ops/gradient_precision.h"
#include "tests/oracle_problem.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

using namespace gradient_precision;

Array result(const Execution& run) { return run.outputs.empty() ? run.updated.at(0) : run.outputs[0]; }

Magnitude magnitude_of(Op op) {
  const OpRow* const row = find_op_row(op);
  return row == nullptr ? nullptr : row->magnitude;
}

// Returns the first training kernel of `op` whose first operand has this type, or null.
const KernelEntry* entry_of(Op op, ElementType element) {
  for (const reference::NamedEntry& named : reference::training_list())
    if (named.entry->op == op && named.entry->operands[0].element == element) return named.entry;
  return nullptr;
}

// Calls f(step) for every gradient step, of `cases` random cases per op, whose op has a magnitude in magnitudes.cc.
void each_gradient(int cases, const std::function<void(const GradientStep&)>& f) {
  for (const OpRule* rule : all_rules()) {
    const OpRow* row = rule->gradients.empty() ? nullptr : find_gradient_row(rule->op);
    if (row == nullptr) continue;  // claim `gradients` requires a row
    for (int i = 0; i < cases; ++i) {
      Random random(uint64_t(i) * 977 + uint64_t(rule->op));
      GradientCase made;
      row->gradient(random, made);
      const Linearized step = linearize(*row, made, random);
      ASSERT_EQ(step.why, "") << rule->name;
      for (const Target& target : targets(step)) {
        if (rule->gradients[target.row].by == Op::kNone) continue;
        const GradientStep gradient = gradient_step(step, target);
        ASSERT_NE(gradient.entry, nullptr) << rule->name;
        if (magnitude_of(gradient.entry->op) != nullptr) f(gradient);
      }
    }
  }
}

// Expects |got - exact| <= gamma_K S + half an ulp: K = elements of the largest operand + 8 roundings in the
// accumulator, gamma_K = K u / (1 - K u) (Higham 2002, section 3.1), S the sum of the magnitudes of the terms.
void expect_close(const GradientStep& exact, const KernelEntry& entry) {
  std::vector<Array> operands;
  GradientStep same = exact;
  for (size_t i = 0; i < exact.operands.size(); ++i) {
    const bool given = exact.operands[i].present();
    operands.push_back(given ? converted(exact.operands[i], entry.operands[i].element) : Array{});
    if (given) same.operands[i] = converted(operands.back(), exact.operands[i].element);
  }
  const Execution run = execute(entry, exact.words, operands);
  ASSERT_EQ(run.code, Code::kOk) << find_rule(entry.op)->name;
  EXPECT_FALSE(run.overrun) << find_rule(entry.op)->name;
  EXPECT_FALSE(run.impure) << find_rule(entry.op)->name;
  const Array got = result(run), want = result(execute(*same.entry, same.words, same.operands));
  const std::vector<double> magnitude = magnitude_of(entry.op)(same);
  ASSERT_EQ(got.elements(), want.elements());
  // An element of an operand is in at most one term of an element of the result.
  int64_t terms = 8;
  for (const Array& operand : same.operands) terms = std::max(terms, operand.elements() + 8);
  const double u = 0x1p-24, gamma = double(terms) * u / (1 - double(terms) * u);
  const Precision type = precision(got.element);
  for (int64_t i = 0; i < got.elements(); ++i) {
    const double bound = gamma * magnitude[size_t(i)] +
                         type.half_ulp * (std::abs(want.real(i)) + gamma * magnitude[size_t(i)]) + type.smallest +
                         0x1p-140;
    ASSERT_LE(std::abs(got.real(i) - want.real(i)), bound)
        << find_rule(entry.op)->name << " " << got.text() << " element " << i << " of " << same.operands[0].text();
  }
  for (int slot = 0; slot < int(operands.size()); ++slot) {
    if ((entry.in_place >> slot & 1) == 0 || operands[size_t(slot)].bytes.size() != got.bytes.size()) continue;
    EXPECT_EQ(execute_in_place(entry, exact.words, operands, slot).outputs[0].bytes, got.bytes)
        << find_rule(entry.op)->name << " in place of operand " << slot;
  }
}

TEST(gradients, of_smaller_floats_are_within_their_rounding) {
  std::map<std::pair<Op, ElementType>, int> seen;
  each_gradient(25, [&](const GradientStep& step) {
    for (const ElementType element : {kF32, kF16, kBf16, kF64}) {
      const KernelEntry* entry = entry_of(step.entry->op, element);
      ASSERT_NE(entry, nullptr) << find_rule(step.entry->op)->name << " has no kernel on type " << int(element);
      expect_close(step, *entry);
      ++seen[{step.entry->op, element}];
    }
  });
  size_t compared = 0;
  for (const OpRule* rule : all_rules()) compared += magnitude_of(rule->op) != nullptr ? 1 : 0;
  EXPECT_EQ(seen.size(), compared * 4);
  EXPECT_GE(compared, 30u);
}

// Returns whether the shape rule accepts the step and its outputs and work are within this test's limits.
bool accepted(const KernelEntry& entry, const GradientStep& step) {
  std::vector<TensorRecord> records(step.operands.size() + 3, TensorRecord{});
  std::vector<Tensor> tensors;
  const auto add = [&](ElementType element, const int32_t* dims, int rank) {
    TensorRecord& record = records[tensors.size()];
    record.element = element, record.rank = uint8_t(rank);
    std::copy(dims, dims + rank, record.dims);
    tensors.push_back({nullptr, element == ElementType::kNone ? nullptr : &record});
  };
  for (const Array& operand : step.operands) add(operand.element, operand.dims.data(), int(operand.dims.size()));
  const Words words = {step.words.data(), int(step.words.size())};
  Dims outputs[4] = {};
  if (entry.shapes(words, {tensors.data(), int(tensors.size()), 0}, outputs) != Code::kOk) return false;
  for (int i = input_count(entry); i < int(entry.operand_count); ++i) {
    const Dims& y = outputs[i - input_count(entry)];
    int64_t elements = 1;
    for (int axis = 0; axis < y.rank; ++axis)
      if (y.size[axis] < 1 || (elements *= y.size[axis]) > 1 << 14) return false;
    add(entry.operands[i].element, y.size, y.rank);
  }
  return entry.work(words, {tensors.data(), int(tensors.size()), 0}) <= 1 << 20;
}

// Changes one attribute, or the dims of one operand.
void change(GradientStep& step, Random& random) {
  constexpr uint32_t kTurns[] = {0,          1,          2,          3,          7,          16,
                                 127,        255,        1 << 14,    1 << 24,    1 << 28,    0x3FFFu,
                                 0x7F800000, 0x7FC00000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF};
  const auto below = [&](uint64_t n) { return random() % n; };
  Array& operand = step.operands[below(step.operands.size())];
  if (below(3) > 0) {
    const size_t k = below(step.words.size() + 2);
    if (k >= step.words.size()) step.words.resize(k + 1);
    step.words[k] = below(2) == 0 ? kTurns[below(std::size(kTurns))] : uint32_t(below(6));
    return;
  }
  if (!operand.present()) return;
  std::vector<int32_t> dims = operand.dims;
  const uint64_t what = below(4);
  if (what == 0 && dims.size() < size_t(kMaxRank)) dims.insert(dims.begin() + long(below(dims.size() + 1)), 1);
  else if (what == 1 && !dims.empty()) dims.erase(dims.begin() + long(below(dims.size())));
  else if (!dims.empty()) dims[below(dims.size())] = int32_t(1 + below(6));
  operand = make_array(operand.element, dims);
}

// No number is trusted: a step that a shape rule accepts must run and write its outputs only. Under the sanitizers it
// must also read its operands only.
TEST(gradients, take_what_their_shape_rules_accept) {
  int ran = 0, refused = 0;
  Random random(11);
  each_gradient(12, [&](const GradientStep& step) {
    for (int trial = 0; trial < 30; ++trial) {
      GradientStep changed = step;
      for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) change(changed, random);
      if (!accepted(*changed.entry, changed)) {
        ++refused;
        continue;
      }
      ++ran;
      const Execution run = execute(*changed.entry, changed.words, changed.operands);
      ASSERT_TRUE(run.code == Code::kOk || run.code == Code::kIndex);  // kIndex: indices outside their table
      ASSERT_FALSE(run.overrun) << find_rule(step.entry->op)->name;
      ASSERT_FALSE(run.impure) << find_rule(step.entry->op)->name;
    }
  });
  EXPECT_GT(ran, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace nacre::test
