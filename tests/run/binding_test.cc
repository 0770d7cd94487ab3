// Tests which kernel bind chooses, which memory it takes, and which calls undo a binding.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "engine/kernels/adapter.h"
#include "engine/ops/activation.h"
#include "tests/model/execute.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

// ---- Kernels ----

size_t sixteen(const Words&, const Operands&) { return 16; }
size_t forty_bytes(const Words&, const Operands&) { return 40; }
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
bool accepts_nothing(const Words&, const Operands&) { return false; }

Code nothing(const Args&) { return Code::kOk; }
constexpr Preparation kSixteen = {sixteen, nothing, nullptr};

// Returns a port's tanh: it gives 7, wants memory of its own, and does not work in place.
constexpr KernelEntry port_tanh(ShapeRule shapes = nullptr, bool (*accepts)(const Words&, const Operands&) = nullptr) {
  KernelEntry e = entry<Activation, &Activation::tanh<float>>(Op::kTanh);
  e.run = all_sevens, e.scratch_bytes = forty_bytes, e.preparation = &kSixteen, e.accepts = accepts;
  if (shapes != nullptr) e.shapes = shapes;
  return e;
}
constexpr KernelEntry kPortTanh = port_tanh(), kPortOfOtherShape = port_tanh(another_shape),
                      kPortOfNoShape = port_tanh(no_shape), kPortThatNeverAccepts = port_tanh(nullptr, accepts_nothing);
constexpr KernelEntry kReferenceTanh = entry<Activation, &Activation::tanh<float>>(Op::kTanh, Rounding::kNone, 1);
constexpr KernelEntry kTanhNotInPlace = entry<Activation, &Activation::tanh<float>>(Op::kTanh);

// Builds two tanh steps, x to h to y. The second writes over h if `in_place`.
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

// The statuses of measure and bind with one kernel set per entry, in this order, and the outputs of a run.
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
  if (!outcome.measured.ok())
    enough.bytes[kCalls] = enough.bytes[kPrepared] = enough.bytes[kScratch] = enough.bytes[kArena] = 4096;
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

// ---- Memory ----

TEST(binding, memory_that_is_nowhere_is_refused) {
  const Buffer file = pack(dense_int8());
  Bound b;
  ASSERT_TRUE(b.open(file.bytes()).ok());
  Memory memory;
  const Status cut = Memory::cut({static_cast<std::byte*>(nullptr), size_t(b.sizes.total())}, b.sizes, &memory);
  EXPECT_EQ(cut.code, Code::kMemorySize);
  EXPECT_EQ(cut.table, Table::kMemory);
  EXPECT_EQ(cut.needed, b.sizes.total());
  EXPECT_EQ(cut.given, 0u);
  for (uint32_t block = 0; block < kBlockCount; ++block) {
    if (b.sizes.bytes[block] == 0) continue;
    memory = b.blocks->memory;
    memory.block[block] = {static_cast<std::byte*>(nullptr), memory.block[block].size()};
    const Status s = b.program.bind(b.model, 0, reference_kernels(), memory);
    EXPECT_EQ(s.code, Code::kMemorySize);
    EXPECT_EQ(s.table, Table::kMemory);
    EXPECT_EQ(s.index, block);
    EXPECT_EQ(s.needed, b.sizes.bytes[block]);
    EXPECT_EQ(s.given, 0u);
  }
}

// A file in the middle of a larger block, so that a test can give memory around and inside the file.
struct FileInside {
  static constexpr size_t kBefore = 4096;
  Buffer file, whole;
  Model model;
  Sizes sizes;

  explicit FileInside(const Draft& draft) : file(pack(draft)), whole(file.size() + 2 * kBefore) {
    std::memcpy(whole.data() + kBefore, file.data(), file.size());
    EXPECT_TRUE(model.open(whole.bytes().subspan(kBefore, file.size())).ok());
    EXPECT_TRUE(Program::measure(model, 0, reference_kernels(), &sizes).ok());
  }
  std::span<std::byte> at(size_t offset, size_t bytes) { return whole.bytes().subspan(offset, bytes); }
  bool intact() const { return std::memcmp(whole.bytes().data() + kBefore, file.bytes().data(), file.size()) == 0; }
};

TEST(binding, memory_over_the_models_bytes_is_refused) {
  FileInside f(dense_int8());
  const size_t end = (FileInside::kBefore + f.file.size() + kAlignment - 1) / kAlignment * kAlignment;
  for (uint32_t block = 0; block < kBlockCount; ++block) {
    const auto bytes = size_t(f.sizes.bytes[block]);
    if (bytes == 0) continue;
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const struct {
      size_t offset, bytes;
      bool fits;
    } rows[] = {{FileInside::kBefore - rounded, bytes, true},
                {FileInside::kBefore - rounded + kAlignment, rounded, false},
                {FileInside::kBefore, bytes, false},
                {FileInside::kBefore + 64, bytes, false},
                {end - kAlignment, bytes, false},
                {end, bytes, true},
                {0, f.whole.size(), false}};
    for (const auto& row : rows) {
      Blocks blocks(f.sizes);
      blocks.memory.block[block] = f.at(row.offset, row.bytes);
      Program program;
      const Status s = program.bind(f.model, 0, reference_kernels(), blocks.memory);
      EXPECT_EQ(s.code, row.fits ? Code::kOk : Code::kMemoryOverlap) << block << " at " << row.offset;
      EXPECT_EQ(s.index, row.fits ? 0 : block);
      EXPECT_TRUE(f.intact());
    }
  }
}

TEST(binding, memory_over_an_attached_segment_is_refused) {
  const Draft draft = dense_int8();
  const Buffer file = pack(draft);
  const std::vector<std::byte>& weights = draft.segments[0];
  Buffer around(64 + weights.size() + 4096);
  std::memcpy(around.data() + 64, weights.data(), weights.size());
  Bound b;
  ASSERT_TRUE(b.open(file.bytes()).ok());
  ASSERT_TRUE(b.model.attach(0, around.bytes().subspan(64)).ok());
  const size_t end = 64 + (weights.size() + kAlignment - 1) / kAlignment * kAlignment;
  for (uint32_t block = 0; block < kBlockCount; ++block) {
    const auto bytes = size_t(b.sizes.bytes[block]);
    if (bytes == 0) continue;
    Memory memory = b.blocks->memory;
    memory.block[block] = around.bytes().subspan(end - kAlignment, std::max(bytes, kAlignment));
    EXPECT_EQ(b.program.bind(b.model, 0, reference_kernels(), memory).code, Code::kMemoryOverlap) << block;
    memory.block[block] = around.bytes().subspan(end, bytes);
    EXPECT_TRUE(b.program.bind(b.model, 0, reference_kernels(), memory).ok()) << "right behind what is used of it";
  }
}

// ---- Calls that undo a binding ----

TEST(binding, attach_and_open_undo_it) {
  const Draft draft = dense_int8();
  const Buffer file = pack(draft);
  const Buffer apart{std::span<const std::byte>(draft.segments[0])};
  Bound b;
  ASSERT_TRUE(b.open(file.bytes()).ok());
  const auto refuses = [&] {
    const Status s = b.program.run();
    return s.code == Code::kNotBound && s.table == Table::kProgram && !b.program.bound() &&
           b.program.input(0).empty() && b.program.output(0).empty() && b.program.input_count() == 0 &&
           b.program.bytes(0).empty();
  };
  EXPECT_FALSE(refuses());
  EXPECT_EQ(b.model.attach(1, apart.bytes()).code, Code::kIndex);
  EXPECT_FALSE(refuses()) << "nothing was attached";
  ASSERT_TRUE(b.model.attach(0, apart.bytes()).ok());
  EXPECT_TRUE(refuses()) << "its kernels point into the file";
  ASSERT_TRUE(b.program.bind(b.model, 0, reference_kernels(), b.blocks->memory).ok());
  EXPECT_FALSE(refuses());
  EXPECT_EQ(b.program.bytes(0).data(), apart.bytes().data());
  ASSERT_TRUE(b.model.open(file.bytes()).ok());
  EXPECT_TRUE(refuses()) << "of another opening";
  ASSERT_TRUE(b.program.bind(b.model, 0, reference_kernels(), b.blocks->memory).ok());
  EXPECT_FALSE(refuses());
  EXPECT_EQ(b.model.open(file.bytes().first(100)).code, Code::kLengthOver);
  EXPECT_TRUE(refuses()) << "of a model that is closed";
}

TEST(binding, a_segment_that_is_nowhere_is_not_attached) {
  const Buffer file = pack(dense_int8());
  Bound b;
  ASSERT_TRUE(b.open(file.bytes()).ok());
  const Status s = b.model.attach(0, {static_cast<const std::byte*>(nullptr), 1 << 20});
  EXPECT_EQ(s.code, Code::kMemorySize);
  EXPECT_EQ(s.table, Table::kSegment);
  EXPECT_EQ(s.given, 0u);
  EXPECT_TRUE(b.program.run().ok());
}

}  // namespace
}  // namespace nacre::test
