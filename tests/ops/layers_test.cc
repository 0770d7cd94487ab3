// Tests layers of larger networks. Their gradients, read from their tables as differentiate reads them, are compared
// with central differences in float64. Also tests ids that come from data.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/kernels/reference.h"
#include "engine/ops/all.h"
#include "tests/cases_random.h"
#include "tests/ops/differentiated.h"

namespace nacre::test {
namespace {

using namespace differentiated;

constexpr Op kOps[] = {Op::kGelu, Op::kSilu, Op::kLayerNorm, Op::kEmbedding, Op::kBatchedMatmul, Op::kLstm, Op::kGru};

Differentiated random_step(Op op, ElementType element, uint64_t seed, Random& random) {
  const auto fits = [&](const reference::NamedEntry& named) {
    return named.entry->op == op && named.entry->operands[0].element == element;
  };
  const auto list = reference::list();
  const KernelEntry& entry = *std::find_if(list.begin(), list.end(), fits)->entry;
  Case made;
  random.seed(seed);
  find_case_maker(op)(entry, random, made);
  if (op == Op::kLayerNorm) made.words = {bits(0.1)};  // bounds 1 / sqrt(variance + epsilon) and its derivatives
  return {*find_rule(op), made.words, random_inputs(made, random)};
}

TEST(layers, gradients_are_central_differences) {
  for (const Op op : kOps)
    for (uint64_t seed = 0; seed < 12; ++seed) {
      Random random;
      const Differentiated step = random_step(op, kF64, seed, random);
      expect_central_differences(step, random, std::string(step.rule.name) + ", seed " + std::to_string(seed));
      if (HasFatalFailure()) return;
    }
}

// The other types run the same loops, but round each stored number to T. So a gradient may differ by 20 epsilons of
// the largest: a product has four stored factors, behind at most five steps of time.
TEST(layers, gradients_of_narrower_types_are_those_of_float64) {
  const std::pair<ElementType, double> types[] = {
      {kF32, 0x1p-23}, {ElementType::kFloat16, 0x1p-10}, {ElementType::kBfloat16, 0x1p-7}};
  for (const Op op : kOps)
    for (const auto& [type, epsilon] : types)
      for (uint64_t seed = 0; seed < 6; ++seed) {
        Random random;
        const Differentiated narrow = random_step(op, type, seed, random);
        Differentiated wide = narrow;
        for (Array& input : wide.inputs) {
          if (!input.present() || !real(input.element)) continue;
          Array copy = make_array(kF64, input.dims);
          for (int64_t i = 0; i < copy.elements(); ++i) copy.set(i, input.real(i));
          input = copy;
        }
        const Array dy = random_like(narrow.forward(1)[0], random);
        Array wide_dy = make_array(kF64, dy.dims);
        for (int64_t i = 0; i < dy.elements(); ++i) wide_dy.set(i, dy.real(i));
        const std::map<int, Array> got = narrow.gradients(dy), expected = wide.gradients(wide_dy);
        ASSERT_EQ(got.size(), expected.size());
        for (const auto& [slot, gradient] : expected) {
          double most = 0;
          for (int64_t i = 0; i < gradient.elements(); ++i) most = std::max(most, std::abs(gradient.real(i)));
          for (int64_t i = 0; i < gradient.elements(); ++i)
            ASSERT_NEAR(got.at(slot).real(i), gradient.real(i), 20 * epsilon * (most + 0.1))
                << narrow.rule.name << ", " << type_name(type) << ", seed " << seed << ", input " << slot << " element "
                << i;
        }
      }
}

// The training form, which keeps what the backward step reads, gives the same y to the bit.
TEST(layers, training_forms_give_the_bits_of_inference) {
  for (const Op op : {Op::kLstm, Op::kGru})
    for (const ElementType type : {kF32, kF64, ElementType::kFloat16, ElementType::kBfloat16})
      for (uint64_t seed = 0; seed < 10; ++seed) {
        Random random;
        const Differentiated step = random_step(op, type, seed, random);
        EXPECT_EQ(step.forward(1)[0].bytes, step.forward(step.outputs())[0].bytes) << step.rule.name;
      }
}

// If any id is outside the table, nothing is read or added. -1 means the last row only if the attribute says so.
TEST(embedding, ids_outside_the_table_are_refused) {
  Random random(1);
  const Array table = random_like(make_array(kF32, {5, 3}), random), dy = random_like(make_array(kF32, {2, 3}), random);
  for (const ElementType type : {ElementType::kInt32, ElementType::kInt64})
    for (const double bad : {5.0, -1.0, -6.0, 2147483647.0, -2147483648.0}) {
      const Array ids = array_of<double>(type, {2}, {0, bad});
      for (const uint32_t negative : {0u, 1u}) {
        const Code expected = negative == 1 && bad == -1 ? Code::kOk : Code::kIndex;
        std::vector<Operand> operands = {{table, Role::kIn}, {ids, Role::kIn}};
        EXPECT_EQ(run_op(Op::kEmbedding, {negative}, operands, 1, kF32), expected) << bad;
        const Array zeros = make_array(kF32, {5, 3});
        operands = {{dy, Role::kIn}, {ids, Role::kIn}, {zeros, Role::kUpdate}};
        EXPECT_EQ(run_op(Op::kEmbeddingGradient, {negative}, operands, 0, kF32), expected) << bad;
        EXPECT_EQ(operands[2].array.bytes == zeros.bytes, expected != Code::kOk) << bad;
      }
    }
}

// Changes dims and attributes of every step of the tables at random. The shape rule refuses the step, or the step
// keeps to its operands. They are blocks of exactly their size, so the sanitizers see other accesses.
TEST(layers, gradient_steps_take_what_their_shape_rules_accept) {
  int ran = 0, refused = 0;
  constexpr uint32_t kWords[] = {0, 1, 2, 3, 0x3F800000, 0x7FC00000, 0x80000000, 0xFFFFFFFF};
  for (const Op op : kOps)
    for (uint64_t seed = 0; seed < 300; ++seed) {
      Random random;
      const Differentiated step = random_step(op, kF32, seed, random);
      const std::vector<Array> y = step.forward(step.outputs());
      const Gradient& row = step.rule.gradients[seed % step.rule.gradients.size()];
      std::vector<Operand> operands;
      for (const GradientRead read : row.reads)
        operands.push_back({read.source == GradientRead::kForwardInput    ? step.inputs[read.index]
                            : read.source == GradientRead::kForwardOutput ? y[read.index]
                            : read.source == GradientRead::kGradient      ? y[0]
                                                                          : step.inputs[0],
                            Role::kIn});
      if (row.adds) operands.push_back({make_array(kF32, step.inputs[row.of[0]].dims), Role::kUpdate});
      std::vector<uint32_t> words = step.words;
      words.resize(2);
      if (random() % 2 == 0) words[random() % 2] = kWords[random() % std::size(kWords)];
      for (int changes = pick(random, 0, 2); changes > 0; --changes) {
        Operand& operand = operands[random() % operands.size()];
        std::vector<int32_t> dims = operand.array.dims;
        if (!operand.array.present() || dims.empty()) continue;
        if (random() % 4 == 0) dims.push_back(2);
        else if (random() % 3 == 0) dims.pop_back();
        else dims[random() % dims.size()] = pick(random, 1, 12);
        if (dims.size() > size_t(kMaxRank)) continue;
        operand.array = make_array(operand.array.element, dims);
      }
      const Code code = run_op(row.by, words, operands, row.adds ? 0 : step.outputs_of(row), kF32);
      ++(code == Code::kOk || code == Code::kIndex ? ran : refused);
    }
  EXPECT_GT(ran, 300);
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace nacre::test
