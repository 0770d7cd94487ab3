// Tests that Program::bind, Trainer and the C API pack weights for kernels that read other layouts
// (run/weight_packing.cc). tests/packed_port.h has such kernels, with the reference's results to the byte.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "engine/nacre.h"
#include "engine/nacre_c.h"
#include "tests/model/network_runs.h"
#include "tests/packed_port.h"

namespace nacre::test {
namespace {

std::span<const KernelSet* const> packing_first() {
  static const KernelSet* const kSets[] = {&packed_kernels(), &reference::kernels(), &reference::training_kernels()};
  return kSets;
}

constexpr Draft (*kPackable[])() = {dense_int8, conv_add_int8, float_chain, batched};

uint32_t packed_steps(const Program& program) {
  uint32_t steps = 0;
  for (uint32_t i = 0; i < program.view().step_count; ++i) steps += program.packed_operands(i) != 0;
  return steps;
}

TEST(weight_packing, bind_packs_what_measure_counts_and_changes_no_byte) {
  for (const auto make : kPackable) {
    const Buffer file = pack(make());
    InferenceRun plain, packed;
    ASSERT_TRUE(plain.bind(file.bytes(), reference_kernels()).ok());
    ASSERT_TRUE(packed.bind(file.bytes(), packing_first()).ok());
    EXPECT_EQ(packed_steps(plain.program), 0u);
    EXPECT_GT(packed_steps(packed.program), 0u);
    EXPECT_GT(packed.sizes.bytes[kDerived], plain.sizes.bytes[kDerived]);
    Bytes expected, found;
    for (uint32_t seed = 0; seed < 3; ++seed) {
      ASSERT_TRUE(plain.run(seed, &expected).ok());
      ASSERT_TRUE(packed.run(seed, &found).ok());
      EXPECT_EQ(found, expected);
    }
  }
}

TEST(weight_packing, a_block_of_the_models_own_bytes_is_enough_and_nothing_is_packed) {
  const Buffer file = pack(dense_int8());
  InferenceRun packed;
  ASSERT_TRUE(packed.bind(file.bytes(), packing_first()).ok());
  Bytes expected, found;
  ASSERT_TRUE(packed.run(1, &expected).ok());
  Sizes least;
  ASSERT_TRUE(Program::measure(packed.model, 0, packing_first(), &least, {.packs = false}).ok());
  for (const uint64_t derived : {least.bytes[kDerived], packed.sizes.bytes[kDerived] - 1}) {
    Sizes sizes = least;
    sizes.bytes[kDerived] = derived;
    packed.blocks.emplace(sizes);
    ASSERT_TRUE(packed.program.bind(packed.model, 0, packing_first(), packed.blocks->memory).ok());
    EXPECT_EQ(packed_steps(packed.program), 0u);
    ASSERT_TRUE(packed.run(1, &found).ok());
    EXPECT_EQ(found, expected);
  }
}

// No other kernel takes this step, so the refusal says how many bytes packing needs.
TEST(weight_packing, what_cannot_run_unpacked_is_refused_with_both_numbers) {
  const Buffer file = pack(dense_int8());
  std::vector<const KernelEntry*> entries(packed_kernels().entries.begin(), packed_kernels().entries.end());
  const KernelSet only = {"packed alone", entries};
  const KernelSet* const sets[] = {&only};
  Model model;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  Sizes sizes;
  if (!Program::measure(model, 0, sets, &sizes).ok()) GTEST_SKIP() << "the network has other steps";
  Blocks blocks(sizes);
  blocks.memory.block[kDerived] = blocks.memory.block[kDerived].first(size_t(sizes.bytes[kDerived]) - 1);
  Program program;
  const Status s = program.bind(model, 0, sets, blocks.memory);
  EXPECT_EQ(s.code, Code::kMemorySize);
  EXPECT_EQ(s.needed, sizes.bytes[kDerived]);
  EXPECT_EQ(s.given, sizes.bytes[kDerived] - 1);
}

TEST(weight_packing, copies_lie_at_lines_of_a_cache_wherever_the_block_begins) {
  const Buffer file = pack(dense_int8());
  InferenceRun run;
  ASSERT_TRUE(run.bind(file.bytes(), packing_first()).ok());
  Bytes expected, found;
  ASSERT_TRUE(run.run(1, &expected).ok());
  const auto bytes = size_t(run.sizes.bytes[kDerived]);
  for (size_t by = 0; by < 64; by += kAlignment) {
    Buffer whole(bytes + by, std::byte{0x5A});
    run.blocks->memory.block[kDerived] = whole.bytes().subspan(by);
    ASSERT_TRUE(run.program.bind(run.model, 0, packing_first(), run.blocks->memory).ok());
    ASSERT_TRUE(run.run(1, &found).ok());
    EXPECT_EQ(found, expected);
  }
}

TEST(weight_packing, weights_that_are_attached_are_packed_when_it_is_bound_again) {
  const Draft draft = dense_int8();
  const Buffer file = pack(draft);
  const Buffer zeros(draft.segments[0].size());
  InferenceRun plain, packed;
  ASSERT_TRUE(plain.bind(file.bytes(), reference_kernels()).ok());
  ASSERT_TRUE(packed.bind(file.bytes(), packing_first()).ok());
  Bytes before, expected, found;
  ASSERT_TRUE(packed.run(1, &before).ok());
  ASSERT_TRUE(plain.model.attach(0, zeros.bytes()).ok());
  ASSERT_TRUE(packed.model.attach(0, zeros.bytes()).ok());
  EXPECT_EQ(packed.program.run().code, Code::kNotBound);
  ASSERT_TRUE(plain.program.bind(plain.model, 0, reference_kernels(), plain.blocks->memory).ok());
  ASSERT_TRUE(packed.program.bind(packed.model, 0, packing_first(), packed.blocks->memory).ok());
  ASSERT_TRUE(plain.run(1, &expected).ok());
  ASSERT_TRUE(packed.run(1, &found).ok());
  EXPECT_EQ(found, expected);
  EXPECT_NE(found, before);
}

// Weights that train are read unpacked. Frozen weights are packed if the block has room.
TEST(weight_packing, a_trainer_learns_the_same_bytes_with_and_without_it) {
  const Buffer file = pack(training());
  TrainingSteps plain, packed, small;
  ASSERT_TRUE(plain.measure(file.bytes(), reference_kernels()).ok() && plain.start(reference_kernels()).ok());
  ASSERT_TRUE(packed.measure(file.bytes(), packing_first()).ok() && packed.start(packing_first()).ok());
  ASSERT_TRUE(small.measure(file.bytes(), packing_first()).ok());
  Sizes least;
  ASSERT_TRUE(Trainer::measure(small.model, nullptr, packing_first(), &least, {.packs = false}).ok());
  small.blocks.emplace(least);
  ASSERT_TRUE(small.start(packing_first()).ok());
  for (int i = 0; i < 3; ++i) {
    Trainer::Report a, b, c;
    ASSERT_TRUE(plain.step(i, &a).ok() && packed.step(i, &b).ok() && small.step(i, &c).ok());
    const auto expected = plain.trainer.state();
    for (const auto found : {packed.trainer.state(), small.trainer.state()}) {
      ASSERT_EQ(found.size(), expected.size());
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), expected.size()), 0);
    }
  }
}

TEST(weight_packing, the_c_api_packs_under_the_functions_of_version_2) {
  const Buffer file = pack(dense_int8());
  InferenceRun plain;
  ASSERT_TRUE(plain.bind(file.bytes(), reference_kernels()).ok());
  Bytes expected;
  ASSERT_TRUE(plain.run(1, &expected).ok());
  nacre_model model;
  ASSERT_EQ(nacre_model_open(&model, file.bytes().data(), file.size()).code, 0);
  const nacre_kernels* const sets[] = {&packed_kernels(), nacre_reference_kernels()};
  nacre_sizes old = {}, sizes = {};
  old.size = offsetof(nacre_sizes, unpacked);
  sizes.size = sizeof sizes;
  ASSERT_EQ(nacre_program_measure_with(&model, 0, sets, 2, nullptr, &old).code, 0);
  ASSERT_EQ(nacre_program_measure_with(&model, 0, sets, 2, nullptr, &sizes).code, 0);
  EXPECT_EQ(old.total, sizes.total);
  EXPECT_EQ(old.unpacked, 0u) << "a caller of version 2 has no such field";
  EXPECT_LT(sizes.unpacked, sizes.total);
  const struct {
    uint64_t bytes;
    bool packs;
  } kGiven[] = {{old.total + 4096, true}, {old.total, true}, {sizes.unpacked, false}};
  for (const auto& [bytes, packs] : kGiven) {
    Buffer memory{size_t(bytes)};
    nacre_program program;
    ASSERT_EQ(nacre_program_bind_with(&program, &model, 0, sets, 2, nullptr, memory.data(), memory.size()).code, 0);
    uint32_t packed = 0;
    for (uint32_t i = 0; i < nacre_program_step_count(&program); ++i) {
      nacre_step_info info = {};
      info.size = sizeof info;
      ASSERT_EQ(nacre_program_step(&program, i, &info).code, 0);
      EXPECT_NE(info.kernel, nullptr);
      packed += info.packed != 0;
    }
    EXPECT_EQ(packed > 0, packs);
    size_t size = 0;
    auto* const input = static_cast<std::byte*>(nacre_program_input(&program, 0, &size));
    fill_numbers({input, size}, ElementType::kInt8, 1);
    ASSERT_EQ(nacre_program_run(&program).code, 0);
    const void* const output = nacre_program_output(&program, 0, &size);
    ASSERT_LE(size, expected.size());
    EXPECT_EQ(std::memcmp(output, expected.data(), size), 0);
  }
  Buffer fewer{size_t(sizes.unpacked) - 1};
  nacre_program program;
  const nacre_status s = nacre_program_bind_with(&program, &model, 0, sets, 2, nullptr, fewer.data(), fewer.size());
  EXPECT_EQ(Code(s.code), Code::kMemorySize);
  EXPECT_EQ(s.needed, sizes.total);
  EXPECT_EQ(s.given, fewer.size());
}

TEST(weight_packing, a_step_of_c_is_told_of_bound_programs_alone) {
  const Buffer file = pack(dense_int8());
  nacre_model model;
  ASSERT_EQ(nacre_model_open(&model, file.bytes().data(), file.size()).code, 0);
  Buffer memory(1 << 16);
  nacre_program program;
  ASSERT_EQ(nacre_program_bind(&program, &model, 0, nacre_reference_kernels(), memory.data(), memory.size()).code, 0);
  nacre_step_info info = {}, of_model = {};
  EXPECT_EQ(nacre_program_step(nullptr, 0, &info).code, NACRE_ARGUMENT);
  EXPECT_EQ(nacre_program_step(&program, 0, nullptr).code, NACRE_ARGUMENT);
  EXPECT_EQ(nacre_program_step(&program, 0, &info).code, NACRE_ARGUMENT) << "its size was not set";
  info.size = of_model.size = sizeof info;
  ASSERT_EQ(nacre_program_step(&program, 0, &info).code, 0);
  ASSERT_EQ(nacre_model_step(&model, 0, 0, &of_model).code, 0);
  EXPECT_STREQ(info.op, of_model.op);
  EXPECT_EQ(info.operands, of_model.operands);
  EXPECT_NE(info.kernel, nullptr);
  EXPECT_EQ(of_model.kernel, nullptr);
  EXPECT_EQ(info.packed, 0u);
  EXPECT_EQ(nacre_program_step(&program, nacre_program_step_count(&program), &info).code, NACRE_NO_NAME);
  ASSERT_NE(nacre_model_open(&model, file.bytes().data(), 64).code, 0);
  EXPECT_EQ(nacre_program_step(&program, 0, &info).code, NACRE_NO_NAME);
}

}  // namespace
}  // namespace nacre::test
