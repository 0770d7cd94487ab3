#include "engine/run/program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "engine/kernels/adapter.h"
#include "engine/model/flatbuffer.h"
#include "engine/ops/activation.h"
#include "tests/model/execute.h"

namespace nacre::test {
namespace {

template <class T>
std::vector<T> values(std::span<const std::byte> bytes) {
  std::vector<T> v(bytes.size() / sizeof(T));
  std::memcpy(v.data(), bytes.data(), bytes.size());
  return v;
}
template <class T>
void put(std::span<std::byte> bytes, const std::vector<T>& v) {
  ASSERT_EQ(bytes.size(), v.size() * sizeof(T));
  std::memcpy(bytes.data(), v.data(), bytes.size());
}

// ---- Running ----

TEST(program, golden_pair_is_reproduced) {
  const Buffer file = pack(dense_int8());
  Bound b;
  ASSERT_TRUE(b.open(file.bytes()).ok());
  const schema::Golden& pair = *b.model.root()->golden()->Get(0);
  put(b.program.input(0), std::vector<uint8_t>(pair.inputs()->begin(), pair.inputs()->end()));
  ASSERT_TRUE(b.program.run().ok());
  EXPECT_EQ(values<uint8_t>(b.program.output(0)), std::vector<uint8_t>(pair.outputs()->begin(), pair.outputs()->end()));
}

TEST(program, in_place_add_equals_the_sum_of_its_operands) {
  // Runs the step twice: as planned, over its first operand, and with an output of its own.
  std::vector<uint8_t> results[2];
  for (int apart = 0; apart < 2; ++apart) {
    Draft draft = conv_add_int8();
    if (apart == 1) draft.tensors[8].offset = 128, draft.programs[0].banks[0] = 192;
    const Buffer file = pack(draft);
    Bound b;
    ASSERT_TRUE(b.open(file.bytes()).ok());
    std::vector<int8_t> x(50);
    for (size_t i = 0; i < x.size(); ++i) x[i] = int8_t(int(i * 41 % 256) - 128);
    put(b.program.input(0), x);
    ASSERT_TRUE(b.program.run().ok());
    results[apart] = values<uint8_t>(b.program.output(0));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(program, parts_written_through_aliases_make_the_whole) {
  const Buffer file = pack(elided_concat());
  Bound b;
  ASSERT_TRUE(b.open(file.bytes()).ok());
  put<float>(b.program.input(0), {-1, -0.25f, 0.25f, 1});
  ASSERT_TRUE(b.program.run().ok());
  const auto y = values<float>(b.program.output(0));
  for (size_t i = 0; i < 4; ++i) {
    const float x = -1 + float(i) * 0.5f + (i == 1 ? 0.25f : i == 2 ? 0.25f : i == 3 ? 0.5f : 0);
    EXPECT_FLOAT_EQ(y[i], std::fmin(0.5f, std::fmax(-0.5f, std::tanh(x)))) << i;
    EXPECT_FLOAT_EQ(y[4 + i], std::fmin(0.5f, 1 / (1 + std::exp(-x)))) << i;
  }
}

TEST(program, first_rows_of_a_batch_are_those_of_the_whole) {
  const Buffer file = pack(batched());
  Bound b;
  ASSERT_TRUE(b.open(file.bytes()).ok());
  std::vector<float> x(20);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i % 7) - 2;
  put(b.program.input(0), x);
  ASSERT_TRUE(b.program.run().ok());
  const auto whole = values<float>(b.program.output(0));
  for (uint32_t rows = 1; rows <= 4; ++rows) {
    put(b.program.input(0), x);
    auto out = b.program.bytes(b.program.view().outputs[0]);
    std::fill(out.begin(), out.end(), std::byte{0xA5});
    ASSERT_TRUE(b.program.run_rows(rows).ok());
    const auto part = values<float>(b.program.output(0));
    EXPECT_EQ(std::memcmp(part.data(), whole.data(), rows * 12), 0) << rows;
    for (size_t i = rows * 12; i < out.size(); ++i) EXPECT_EQ(out[i], std::byte{0xA5}) << "row beyond " << rows;
  }
  EXPECT_EQ(b.program.run_rows(0).code, Code::kRows);
  EXPECT_EQ(b.program.run_rows(5).code, Code::kRows);
}

TEST(program, batch_that_leaves_axis_0_runs_whole_or_not_at_all) {
  Draft draft = batched();  // makes the last step a transpose of [4, 3] to [3, 4]
  draft.steps[1].op = Op::kTranspose;
  draft.words[draft.steps[1].first_word] = 1;
  draft.words[draft.steps[1].first_word + 1] = 0;
  TensorRecord& y = draft.tensors[4];
  y.dims[0] = 3, y.dims[1] = 4, y.flags = kOutput, y.offset = 0;
  const Buffer file = pack(draft);
  Bound b;
  ASSERT_TRUE(b.open(file.bytes()).ok());
  EXPECT_TRUE(b.program.run().ok());
  EXPECT_TRUE(b.program.run_rows(4).ok());
  for (const uint32_t rows : {1u, 2u, 3u}) {
    const Status s = b.program.run_rows(rows);
    EXPECT_EQ(s.code, Code::kRowsUnsupported);
    EXPECT_EQ(s.index, 1u) << "the step";
  }
}

// a [batch, 3] is batched; u [batch, 3] and y are not. With one row of a the sum would be a broadcast.
TEST(program, one_row_that_broadcasts_by_accident_is_refused) {
  for (const int batch : {2, 4}) {
    Draft d;
    const uint32_t u = d.weights<float>({batch, 3}, std::vector<float>(size_t(batch) * 3, 1));
    const uint32_t a = d.arena(ElementType::kFloat32, {batch, 3}, 0, 0, 0, kNoIndex, kInput | kBatched);
    const uint32_t y = d.arena(ElementType::kFloat32, {batch, 3}, 0, 0, 48, kNoIndex, kOutput);
    d.step(Op::kAdd, {}, {a, u}, {y});
    d.program(Entry::kInfer, "", {96}, uint32_t(batch));
    const Buffer file = pack(d);
    Bound b;
    ASSERT_TRUE(b.open(file.bytes()).ok());
    EXPECT_TRUE(b.program.run().ok());
    for (int rows = 1; rows < batch; ++rows)
      EXPECT_EQ(b.program.run_rows(uint32_t(rows)).code, Code::kRowsUnsupported) << rows;
  }
}

TEST(program, guard_of_zero_skips_the_step) {
  const Buffer file = pack(guarded());
  Bound b;
  ASSERT_TRUE(b.open(file.bytes()).ok());
  for (const uint32_t go : {0u, 1u, 7u}) {
    put<float>(b.program.input(0), {1, 2, 3, 4});
    put<uint32_t>(b.program.input(1), {go});
    auto out = b.program.bytes(b.program.view().outputs[0]);
    std::fill(out.begin(), out.end(), std::byte{0});
    ASSERT_TRUE(b.program.run().ok());
    EXPECT_EQ(values<float>(b.program.output(0))[0] != 0, go != 0) << go;
  }
}

TEST(program, ranges_of_steps_together_are_the_whole) {
  const Buffer file = pack(float_chain());
  Bound a, b;
  ASSERT_TRUE(a.open(file.bytes()).ok());
  ASSERT_TRUE(b.open(file.bytes()).ok());
  std::vector<float> x(36);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(float(i));
  put(a.program.input(0), x);
  put(b.program.input(0), x);
  ASSERT_TRUE(a.program.run().ok());
  for (uint32_t i = 0; i < b.program.view().step_count; ++i) ASSERT_TRUE(b.program.run(i, i + 1, 0).ok());
  EXPECT_EQ(values<float>(a.program.output(0)), values<float>(b.program.output(0)));
  EXPECT_EQ(b.program.run(0, 7, 0).code, Code::kRange);
  EXPECT_EQ(b.program.run(3, 2, 0).code, Code::kRange);
  EXPECT_TRUE(b.program.run(2, 2, 0).ok()) << "nothing";
}

TEST(program, derive_makes_what_infer_reads) {
  const Buffer file = pack(stateful());
  Model model;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  Sizes infer, derive;
  ASSERT_TRUE(Program::measure(model, 0, reference_kernels(), &infer).ok());
  ASSERT_TRUE(Program::measure(model, 1, reference_kernels(), &derive).ok());
  for (const uint32_t block : {kState, kStream, kDerived})
    EXPECT_EQ(infer.bytes[block], derive.bytes[block]) << "the model's";
  Blocks a(infer), b(derive);
  for (const uint32_t block : {kState, kStream, kDerived}) b.memory.block[block] = a.memory.block[block];
  Program run, make;
  ASSERT_TRUE(run.bind(model, 0, reference_kernels(), a.memory).ok());
  ASSERT_TRUE(make.bind(model, 1, reference_kernels(), b.memory).ok());
  std::memcpy(run.bytes(1).data(), model.weights(model.tensors()[1].initial), 32);
  put<float>(run.bytes(2), {1, 1});
  put<float>(run.input(0), {1, -1, 2, 0.5f});
  ASSERT_TRUE(make.run().ok());
  ASSERT_TRUE(run.run().ok());
  const auto y = values<float>(run.output(0)), w = values<float>(run.bytes(1));
  for (size_t k = 0; k < 2; ++k)  // the same weights twice, then times 1
    EXPECT_FLOAT_EQ(y[k], 2 * (w[4 * k] - w[4 * k + 1] + 2 * w[4 * k + 2] + 0.5f * w[4 * k + 3]));
}

// ---- Binding ----

TEST(program, before_bind_and_after_a_failed_bind_nothing_runs) {
  Program program;
  EXPECT_EQ(program.run().code, Code::kNotBound);
  EXPECT_EQ(program.run(0, 0, 0).code, Code::kNotBound);
  EXPECT_TRUE(program.input(0).empty());
  EXPECT_TRUE(program.bytes(0).empty());
  const Buffer file = pack(dense_int8());
  Bound b;
  ASSERT_TRUE(b.open(file.bytes()).ok());
  EXPECT_EQ(b.program.bind(b.model, 1, reference_kernels(), b.blocks->memory).code, Code::kNoEntry);
  EXPECT_EQ(b.program.run().code, Code::kNotBound) << "the bind before it is gone";
  EXPECT_TRUE(b.program.output(0).empty());
}

TEST(program, sees_no_tensor_of_another_program) {
  const Buffer file = pack(two_targets());
  Bound b;
  ASSERT_TRUE(b.open(file.bytes(), 1).ok());
  EXPECT_EQ(b.program.bytes(5).size(), 16u);
  EXPECT_TRUE(b.program.bytes(1).empty()) << "it lies at 4096 of the other's arena";
  EXPECT_EQ(b.program.bytes(0).size(), 32u) << "weights";
  EXPECT_TRUE(b.program.bytes(9).empty());
  EXPECT_TRUE(b.program.bytes(kNoIndex).empty());
}

TEST(program, banks_are_blocks_of_their_own) {
  const Buffer file = pack(two_banks());
  Bound b;
  ASSERT_TRUE(b.open(file.bytes()).ok());
  EXPECT_EQ(b.sizes.bytes[kArena], 32u);
  EXPECT_EQ(b.sizes.bytes[kArena + 1], 48u);
  EXPECT_EQ(b.program.input(0).data(), b.blocks->memory.block[kArena].data());
  EXPECT_EQ(b.program.output(0).data(), b.blocks->memory.block[kArena + 1].data() + 32);
}

TEST(program, work_is_that_of_the_compiled_batch) {
  const Buffer file = pack(batched());
  Bound b;
  ASSERT_TRUE(b.open(file.bytes()).ok());
  EXPECT_EQ(b.sizes.work, 4u * 5 * 3 + 12);
  Model model;
  ASSERT_TRUE(model.open(file.bytes(), {.work = 72}).ok());
  Sizes sizes;
  EXPECT_TRUE(Program::measure(model, 0, reference_kernels(), &sizes).ok());
  ASSERT_TRUE(model.open(file.bytes(), {.work = 71}).ok());
  const Status s = Program::measure(model, 0, reference_kernels(), &sizes);
  EXPECT_EQ(s.code, Code::kWork);
  EXPECT_EQ(s.index, 1u);
}

// ---- Kernels with scratch, preparation and updates ----

// Computes y = x + s; s = y: a sum over runs, in stream. Registered as add with one input.
struct Integrate {
  int elements;
  static Integrate from(const Words&, const Operands& o) { return {o[0].elements()}; }
  void forward(const float* x, Update<float> s, float* y) const {
    for (int i = 0; i < elements; ++i) s.data[i] = y[i] = x[i] + s.data[i];
  }
  static Code shapes(const Words&, const Operands& o, Dims* y) {
    if (o[0].elements() != o[1].elements()) return Code::kShapeInput;
    for (int i = 0; i < o[0].rank; ++i) y->push(o[0][i]);
    return Code::kOk;
  }
};
constexpr KernelEntry kIntegrate = entry<Integrate, &Integrate::forward>(Op::kAdd);

size_t forty(const Words&, const Operands&) { return 40; }
size_t ten(const Words&, const Operands&) { return 10; }
bool never(const Words&, const Operands&) { return false; }
Code fill_prepared(const Args& args) {
  std::memset(args.call.prepared, 7, 10);
  return Code::kOk;
}
Code run_prepared(const Args& args) {
  std::memset(args.scratch.data(), 1, args.scratch.size());
  const Operands o = args.operands();
  for (int i = 0; i < o[1].elements(); ++i)
    static_cast<float*>(o.tensor[1].data)[i] = float(static_cast<const uint8_t*>(args.call.prepared)[i]);
  return Code::kOk;
}
constexpr Preparation kTen = {ten, fill_prepared, nullptr};
constexpr KernelEntry with(KernelEntry e) {
  e.run = run_prepared, e.scratch_bytes = forty, e.preparation = &kTen;
  return e;
}
constexpr KernelEntry kPreparedTanh = with(entry<Activation, &Activation::tanh<float>>(Op::kTanh));
constexpr KernelEntry refusing(KernelEntry e) {
  e.accepts = never;
  return e;
}
constexpr KernelEntry kRefusingTanh = refusing(kPreparedTanh);

Draft one_tanh() {
  Draft d;
  const uint32_t x = d.arena(ElementType::kFloat32, {4}, 0, 0, 0, kNoIndex, kInput);
  const uint32_t y = d.arena(ElementType::kFloat32, {4}, 0, 0, 16, kNoIndex, kOutput);
  d.step(Op::kTanh, {}, {x}, {y});
  d.program(Entry::kInfer, "", {32});
  return d;
}

TEST(program, scratch_and_preparation_are_measured_and_given) {
  const Buffer file = pack(one_tanh());
  Model model;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  const KernelEntry* const entries[] = {&kPreparedTanh};
  const KernelSet set = {"test", entries};
  const KernelSet* const sets[] = {&set, &reference::kernels()};
  Sizes one, three;
  ASSERT_TRUE(Program::measure(model, 0, sets, &one).ok());
  ASSERT_TRUE(Program::measure(model, 0, sets, &three, {.workers = 3}).ok());
  EXPECT_EQ(one.bytes[kScratch], 40u);
  EXPECT_EQ(three.bytes[kScratch], 64u + 64 + 40) << "each worker's in lines of its own";
  EXPECT_EQ(one.bytes[kPrepared], 16u) << "rounded to the alignment";
  Blocks blocks(one);
  Program program;
  ASSERT_TRUE(program.bind(model, 0, sets, blocks.memory).ok());
  ASSERT_TRUE(program.run().ok());
  EXPECT_EQ(values<float>(program.output(0)), std::vector<float>(4, 7));
  // A worker count of 0 means one worker.
  const Workers none = {nullptr, 0, nullptr};
  EXPECT_TRUE(program.bind(model, 0, sets, blocks.memory, &none).ok());
  Memory without = blocks.memory;
  without.block[kScratch] = {};
  EXPECT_EQ(program.bind(model, 0, sets, without, &none).code, Code::kMemorySize);
  // Scratch that is too small is refused.
  blocks.memory.block[kScratch] = blocks.memory.block[kScratch].first(39);
  const Status s = program.bind(model, 0, sets, blocks.memory);
  EXPECT_EQ(s.code, Code::kMemorySize);
  EXPECT_EQ(s.index, uint32_t(kScratch));
  EXPECT_EQ(s.needed, 40u);
  EXPECT_EQ(s.given, 39u);
}

TEST(program, first_entry_that_accepts_runs) {
  const Buffer file = pack(one_tanh());
  Model model;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  const KernelEntry* const entries[] = {&kRefusingTanh};
  const KernelSet set = {"test", entries};
  const KernelSet* const sets[] = {&set, &reference::kernels()};
  Sizes sizes;
  ASSERT_TRUE(Program::measure(model, 0, sets, &sizes).ok());
  EXPECT_EQ(sizes.bytes[kScratch], 0u) << "of an entry that does not accept";
  EXPECT_EQ(Program::measure(model, 0, {sets, 1}, &sizes).code, Code::kNoKernel);
  EXPECT_EQ(Program::measure(model, 0, {}, &sizes).code, Code::kNoKernel);
}

TEST(program, a_stream_survives_runs_until_it_is_started_anew) {
  Draft d;
  const uint32_t s = d.global(Region::kStream, ElementType::kFloat32, {4});
  const uint32_t x = d.arena(ElementType::kFloat32, {4}, 0, 0, 0, kNoIndex, kInput);
  const uint32_t y = d.arena(ElementType::kFloat32, {4}, 0, 0, 16, kNoIndex, kOutput);
  d.step(Op::kAdd, {}, {x, update(s)}, {y});
  d.program(Entry::kInfer, "", {32});
  const Buffer file = pack(d);
  Model model;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  const KernelEntry* const entries[] = {&kIntegrate};
  const KernelSet set = {"test", entries};
  const KernelSet* const sets[] = {&set};
  Sizes sizes;
  ASSERT_TRUE(Program::measure(model, 0, sets, &sizes).ok());
  Blocks blocks(sizes, std::byte{0});
  Program program;
  ASSERT_TRUE(program.bind(model, 0, sets, blocks.memory).ok());
  for (int i = 1; i <= 3; ++i) {
    put<float>(program.input(0), {1, 2, 3, 4});
    ASSERT_TRUE(program.run().ok());
    EXPECT_EQ(values<float>(program.output(0)),
              (std::vector<float>{1.0f * float(i), 2.0f * float(i), 3.0f * float(i), 4.0f * float(i)}));
  }
  ASSERT_TRUE(program.start().ok());
  put<float>(program.input(0), {1, 2, 3, 4});
  ASSERT_TRUE(program.run().ok());
  EXPECT_EQ(values<float>(program.output(0)), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(Program().start().code, Code::kNotBound);
  // The output must not be the updated operand.
  Draft same = d;
  same.operands[2] = same.operands[1];
  EXPECT_EQ(model.open(pack(same).bytes()).code, Code::kOutputUnwritten);
}

}  // namespace
}  // namespace nacre::test
