// Differentiates an op on arrays by its table of gradients, as differentiate does, and compares with central
// differences.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "engine/kernels/reference.h"
#include "engine/kernels/training.h"
#include "engine/ops/all.h"
#include "tests/cases_random.h"
#include "tests/short_names.h"
#include "tools/graph/bound_step.h"

namespace nacre::test::differentiated {

inline bool real(ElementType type) {
  return type == kF64 || type == kF32 || type == ElementType::kFloat16 || type == ElementType::kBfloat16;
}

struct Operand {
  Array array;
  Role role = Role::kIn;
};

// Tensors and records for the operands of one step; an absent operand has neither data nor record.
struct SeparateStep {
  std::vector<TensorRecord> records;
  std::vector<Tensor> tensors;

  explicit SeparateStep(std::vector<Operand>& operands) {
    records.reserve(operands.size());
    for (Operand& operand : operands) {
      if (!operand.array.present()) {
        tensors.push_back({nullptr, nullptr});
        continue;
      }
      TensorRecord record = {};
      record.element = operand.array.element;
      record.rank = uint8_t(operand.array.dims.size());
      std::copy(operand.array.dims.begin(), operand.array.dims.end(), record.dims);
      record.bytes = operand.array.bytes.size();
      records.push_back(record);
      tensors.push_back({operand.array.bytes.data(), &records.back()});
    }
  }

  Code run(const KernelEntry& entry, const std::vector<uint32_t>& words) {
    tools::BoundStep step(entry, {words.data(), int(words.size())}, tensors);
    const Code code = step.prepare();
    return code == Code::kOk ? step.run() : code;
  }
};

// Returns the first kernel of either set whose roles and element types fit these operands, or null. Shapes and words
// are not checked.
inline const KernelEntry* find_entry(Op op, const std::vector<Operand>& operands) {
  for (const KernelSet* set : {&reference::training_kernels(), &reference::kernels()})
    for (const KernelEntry* entry : set->entries) {
      bool fits = entry->op == op && entry->operand_count == operands.size();
      for (size_t i = 0; fits && i < operands.size(); ++i) {
        const OperandType type = entry->operands[i];
        fits = Role(type.role & 3) == operands[i].role &&
               (operands[i].array.present() ? operands[i].array.element == type.element : (type.role & kOptional) != 0);
      }
      if (fits) return entry;
    }
  return nullptr;
}

// Runs `op` and appends its outputs to `operands`. The op's rule gives their shapes; their type is `element`.
inline Code run_op(Op op, const std::vector<uint32_t>& words, std::vector<Operand>& operands, size_t outputs,
                   ElementType element) {
  const OpRule* rule = find_rule(op);
  if (rule == nullptr) return Code::kOpCode;
  Dims dims[4] = {};
  SeparateStep inputs(operands);
  const Code code =
      rule->shapes({words.data(), int(words.size())}, {inputs.tensors.data(), int(inputs.tensors.size()), 0}, dims);
  if (code != Code::kOk) return code;
  for (size_t i = 0; i < outputs; ++i)
    operands.push_back({make_array(element, {dims[i].size, dims[i].size + dims[i].rank}), Role::kOut});
  const KernelEntry* entry = find_entry(op, operands);
  if (entry == nullptr) return Code::kNoKernel;
  if (entry->shapes != rule->shapes) return Code::kNoKernel;
  return SeparateStep(operands).run(*entry, words);
}

// An op on arrays, differentiated by its table.
struct Differentiated {
  const OpRule& rule;
  std::vector<uint32_t> words;
  std::vector<Array> inputs;

  ElementType element() const { return inputs[0].element; }

  // Returns how many outputs the table's rows read, at least one.
  size_t outputs() const {
    size_t count = 1;
    for (const Gradient& row : rule.gradients)
      for (const GradientRead read : row.reads)
        if (read.source == GradientRead::kForwardOutput) count = std::max(count, size_t(read.index) + 1);
    return count;
  }

  std::vector<Array> forward(size_t count) const {
    std::vector<Operand> operands;
    for (const Array& input : inputs) operands.push_back({input, Role::kIn});
    EXPECT_EQ(run_op(rule.op, words, operands, count, element()), Code::kOk) << rule.name;
    std::vector<Array> made;
    for (size_t i = inputs.size(); i < operands.size(); ++i) made.push_back(operands[i].array);
    return made;
  }

  // Returns dL/dinput by input slot, for L = sum dy y.
  std::map<int, Array> gradients(const Array& dy) const {
    const std::vector<Array> y = forward(outputs());
    std::map<int, Array> found;
    for (const Gradient& row : rule.gradients) {
      if (std::none_of(row.of.begin(), row.of.end(), [&](uint8_t slot) { return inputs[slot].present(); })) continue;
      std::vector<Operand> operands, all;
      for (const GradientRead read : row.reads) {
        const int i = read.index;
        operands.push_back({read.source == GradientRead::kForwardInput    ? inputs[size_t(i)]
                            : read.source == GradientRead::kForwardOutput ? y[size_t(i)]
                            : read.source == GradientRead::kGradient      ? dy
                                                                          : found.at(i),
                            Role::kIn});
      }
      std::vector<uint32_t> made = words;
      if (row.words != nullptr) {
        std::vector<Operand> of_step;
        for (const Array& input : inputs) of_step.push_back({input, Role::kIn});
        const SeparateStep step(of_step);
        made.resize(32);
        made.resize(size_t(row.words({words.data(), int(words.size())},
                                     {step.tensors.data(), int(step.tensors.size()), 0}, row.of[0], made.data())));
      }
      constexpr double kStart = 0.5;  // the sum that the step adds to starts here
      if (row.adds) {
        const Array& input = inputs[row.of[0]];
        Array sum = make_array(input.element == kF64 ? kF64 : kF32, input.dims);
        for (int64_t i = 0; i < sum.elements(); ++i) sum.set(i, kStart);
        operands.push_back({sum, Role::kUpdate});
      }
      const size_t first = operands.size() - (row.adds ? 1 : 0);
      EXPECT_EQ(run_op(row.by, made, operands, row.adds ? 0 : outputs_of(row), element()), Code::kOk)
          << rule.name << " gradient of input " << int(row.of[0]);
      for (size_t i = 0; i < outputs_of(row) && first + i < operands.size(); ++i) {
        Array gradient = operands[first + i].array;
        for (int64_t e = 0; row.adds && e < gradient.elements(); ++e) gradient.set(e, gradient.real(e) - kStart);
        found[row.of[i]] = gradient;
      }
    }
    return found;
  }

  // Returns how many inputs of the row are present. Inputs that may be absent come last.
  size_t outputs_of(const Gradient& row) const {
    return size_t(std::count_if(row.of.begin(), row.of.end(), [&](uint8_t slot) { return inputs[slot].present(); }));
  }

  double loss(const Array& dy) const {
    const Array y = forward(1)[0];
    long double sum = 0;
    for (int64_t i = 0; i < y.elements(); ++i) sum += y.real(i) * dy.real(i);
    return double(sum);
  }
};

inline Array random_like(const Array& like, Random& random) {
  Array array = make_array(like.element, like.dims);
  for (int64_t i = 0; i < array.elements(); ++i) array.set(i, between(random, -1, 1));
  return array;
}

// Compares with central differences of fourth order: (8 (L(x + h) - L(x - h)) - (L(x + 2 h) - L(x - 2 h))) / (12 h).
// They err by h^4 / 30 of the fifth derivative, 5e-13 of it for h = 2^-9. Rounding adds 2^-53 |L| / h < 1e-12 for these
// sums. The fifth derivatives are below 1e4 on these ranges, so 1e-8 is a safe tolerance.
inline void expect_central_differences(Differentiated op, Random& random, const std::string& what) {
  const Array dy = random_like(op.forward(1)[0], random);
  const std::map<int, Array> gradients = op.gradients(dy);
  constexpr double h = 0x1p-9;
  for (size_t slot = 0; slot < op.inputs.size(); ++slot) {
    Array& x = op.inputs[slot];
    if (!x.present() || !real(x.element)) continue;
    const auto gradient = gradients.find(int(slot));
    ASSERT_TRUE(gradient != gradients.end()) << what << ": no gradient of input " << slot;
    ASSERT_EQ(gradient->second.dims, x.dims) << what;
    for (int64_t e = 0; e < x.elements(); ++e) {
      const double at = x.real(e);
      const auto moved = [&](double by) {
        x.set(e, at + by);
        return op.loss(dy);
      };
      const double expected = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
      x.set(e, at);
      ASSERT_NEAR(gradient->second.real(e), expected, 1e-8 * (1 + std::abs(expected)))
          << what << ", input " << slot << " element " << e;
    }
  }
}

}  // namespace nacre::test::differentiated
