// Which kernel bind takes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "engine/kernels/adapter.h"
#include "engine/ops/activation.h"
#include "tests/model/execute.h"

namespace nacre::test {
namespace {

constexpr ElementType kF32 = ElementType::kFloat32;

// ---- Kernels ----

size_t sixteen(const Words&, const Operands&) { return 16; }
size_t forty(const Words&, const Operands&) { return 40; }
Code all_sevens(const Args& args) {
  const Operands o = args.operands();
  for (int i = 0; i < o[1].elements(); ++i) static_cast<float*>(o.tensor[1].data)[i] = 7;
  return Code::kOk;
}
Code another_shape(const Words&, const Operands&, Dims* y) {
  y->push(1);
  return Code::kOk;
}
Code no_shape(const Words&, const Operands&, Dims*) { return Code::kShapeRank; }
bool never(const Words&, const Operands&) { return false; }

// A port's tanh: gives 7, wants memory of its own, and does not work in place.
constexpr KernelEntry port_tanh(ShapeRule shapes = nullptr, bool (*accepts)(const Words&, const Operands&) = nullptr) {
  KernelEntry e = entry<Activation, &Activation::tanh<float>>(Op::kTanh);
  e.run = all_sevens, e.scratch_bytes = forty, e.prepared_bytes = sixteen, e.accepts = accepts;
  if (shapes != nullptr) e.shapes = shapes;
  return e;
}
constexpr KernelEntry kPortTanh = port_tanh(), kPortOfOtherShape = port_tanh(another_shape), kPortOfNoShape = port_tanh(no_shape),
                      kPortThatNeverAccepts = port_tanh(nullptr, never);
constexpr KernelEntry kReferenceTanh = entry<Activation, &Activation::tanh<float>>(Op::kTanh, Rounding::kNone, 1);
constexpr KernelEntry kTanhNotInPlace = entry<Activation, &Activation::tanh<float>>(Op::kTanh);

// tanh twice, x to h to y; the second over h, or apart from it.
Draft two_tanh(bool in_place) {
  Draft d;
  const uint32_t x = d.arena(kF32, {4}, 0, 0, 0, kNoIndex, kInput);
  const uint32_t h = d.arena(kF32, {4}, 0, 1, 16);
  const uint32_t y = d.arena(kF32, {4}, 1, 1, in_place ? 16 : 32, kNoIndex, kOutput);
  d.step(Op::kTanh, {}, {x}, {h});
  d.step(Op::kTanh, {}, {h}, {y});
  d.program(Entry::kInfer, "", {48});
  return d;
}

// What measure and bind say with one kernel set per entry, in this order; and the outputs of a run.
struct Outcome {
  Status measured, bound;
  Sizes sizes;
  std::vector<float> y;
};

Outcome bind_with(const Draft& draft, const std::vector<const KernelEntry*>& entries) {
  const Buffer file = pack(draft);
  Model model;
  EXPECT_TRUE(model.open(file.bytes()).ok());
  std::vector<KernelSet> sets;
  for (const KernelEntry* const& e : entries) sets.push_back({"test", {&e, 1}});
  std::vector<const KernelSet*> order;
  for (const KernelSet& set : sets) order.push_back(&set);
  Outcome outcome;
  outcome.measured = Program::measure(model, 0, order, &outcome.sizes);
  Sizes enough = outcome.sizes;
  if (!outcome.measured.ok()) enough.bytes[kCalls] = enough.bytes[kPrepared] = enough.bytes[kScratch] = enough.bytes[kArena] = 4096;
  Blocks blocks(enough);
  Program program;
  outcome.bound = program.bind(model, 0, order, blocks.memory);
  if (!outcome.bound.ok()) return outcome;
  std::memset(program.input(0).data(), 0, program.input(0).size());
  EXPECT_TRUE(program.run().ok());
  outcome.y.resize(program.output(0).size() / sizeof(float));
  std::memcpy(outcome.y.data(), program.output(0).data(), program.output(0).size());
  return outcome;
}

TEST(binding, a_step_in_place_goes_to_the_first_kernel_that_works_in_place) {
  const Outcome apart = bind_with(two_tanh(false), {&kPortTanh, &kReferenceTanh});
  ASSERT_TRUE(apart.measured.ok() && apart.bound.ok());
  EXPECT_EQ(apart.sizes.bytes[kPrepared], 32u) << "the port runs both";
  EXPECT_EQ(apart.y, std::vector<float>(4, 7));
  const Outcome over = bind_with(two_tanh(true), {&kPortTanh, &kReferenceTanh});
  ASSERT_TRUE(over.measured.ok() && over.bound.ok());
  EXPECT_EQ(over.sizes.bytes[kPrepared], 16u) << "the port runs the first, the reference the second";
  EXPECT_EQ(over.sizes.bytes[kScratch], 40u);
  EXPECT_EQ(over.y, std::vector<float>(4, std::tanh(7.0f)));
}

TEST(binding, a_shape_rule_refuses_its_own_kernel_alone) {
  for (const KernelEntry* port : {&kPortOfOtherShape, &kPortOfNoShape}) {
    const Outcome outcome = bind_with(two_tanh(true), {port, &kReferenceTanh});
    ASSERT_TRUE(outcome.measured.ok() && outcome.bound.ok());
    EXPECT_EQ(outcome.sizes.bytes[kPrepared], 0u);
    EXPECT_EQ(outcome.y, std::vector<float>(4, 0));
  }
}

TEST(binding, where_no_kernel_takes_a_step_the_first_refusal_is_told) {
  const struct {
    std::vector<const KernelEntry*> entries;
    Code code;
    uint32_t step;
  } rows[] = {{{&kPortTanh}, Code::kInPlace, 1},
              {{&kPortTanh, &kTanhNotInPlace}, Code::kInPlace, 1},
              {{&kPortOfOtherShape, &kTanhNotInPlace}, Code::kShapeOutput, 1},
              {{&kPortOfNoShape, &kPortOfOtherShape}, Code::kShapeRank, 0},
              {{&kPortThatNeverAccepts, &kTanhNotInPlace}, Code::kInPlace, 1},
              {{&kPortThatNeverAccepts}, Code::kNoKernel, 0}};
  for (const auto& row : rows) {
    const Outcome outcome = bind_with(two_tanh(true), row.entries);
    for (const Status& s : {outcome.measured, outcome.bound}) {
      EXPECT_EQ(s.code, row.code);
      EXPECT_EQ(s.table, Table::kStep);
      EXPECT_EQ(s.index, row.step);
    }
    EXPECT_EQ(outcome.sizes.total(), 0u);
  }
}

}  // namespace
}  // namespace nacre::test
