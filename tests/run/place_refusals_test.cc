// Tests ports, which run steps on a device: their memory, refusals, the state after a failure, and kernels' handles.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "engine/kernels/adapter.h"
#include "engine/ops/activation.h"
#include "tests/run/placed.h"

namespace nacre::test {
namespace {

using fake::FakePort;
using fake::Fault;

// ---- Memory ----

TEST(places, memory_of_a_port_is_measured_to_the_byte) {
  Placed p(with_places(chain(3), {1, 0, 1}));
  ASSERT_TRUE(p.measure().ok());
  const uint64_t bytes = p.places.bytes(1);
  EXPECT_EQ(bytes, 64u + 32 + 32) << "the arena's 64 bytes and its tail, at a multiple of 64; no scratch, no weights";
  EXPECT_EQ(p.places.bytes(0), 0u);
  EXPECT_EQ(p.places.bytes(99), 0u);
  p.blocks.emplace(p.sizes);
  const auto bind_with = [&](std::span<std::byte> memory) {
    EXPECT_TRUE(p.places.give(1, memory).ok());
    return p.places.bind(&p.program, p.model, 0, reference_kernels(), p.blocks->memory);
  };
  const std::span<std::byte> memory = p.fake.allocate(size_t(bytes) + 64);
  const Status nowhere = bind_with({}), small = bind_with(memory.first(size_t(bytes) - 1)),
               askew = bind_with(memory.subspan(16));
  for (const Status& s : {nowhere, small}) {
    EXPECT_EQ(s.code, Code::kMemorySize);
    EXPECT_EQ(s.table, Table::kPort);
    EXPECT_EQ(s.index, 1u);
    EXPECT_EQ(s.needed, bytes);
  }
  EXPECT_EQ(small.given, bytes - 1);
  EXPECT_EQ(askew.code, Code::kMemoryAlignment);
  EXPECT_EQ(askew.table, Table::kPort);
  EXPECT_EQ(askew.needed, 64u);
  EXPECT_EQ(askew.given, 16u);
  EXPECT_EQ(p.program.run().code, Code::kNotBound);
  EXPECT_TRUE(bind_with(memory.first(size_t(bytes))).ok());
}

TEST(places, a_port_on_the_hosts_memory_has_its_alignment_and_tail_there) {
  const Buffer file = pack(with_places(chain(2), {1}));
  Model model;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  const Port wide = {.name = "wide",
                     .set = &reference::kernels(),
                     .context = nullptr,
                     .begin = nullptr,
                     .finish = nullptr,
                     .copy = nullptr,
                     .fill = nullptr,
                     .alignment = 64,
                     .tail_bytes = 32};
  const Port* const ports[] = {nullptr, &wide};
  Places places(ports);
  Sizes plain, sizes;
  ASSERT_TRUE(Program::measure(model, 0, reference_kernels(), &plain).ok());
  ASSERT_TRUE(places.measure(model, 0, reference_kernels(), &sizes).ok());
  EXPECT_EQ(places.alignment(), 64u);
  EXPECT_EQ(sizes.bytes[kArena], plain.bytes[kArena] + 32);
  EXPECT_EQ(sizes.total(64) % 64, 0u);
  EXPECT_EQ(places.bytes(1), 0u);
  EXPECT_EQ(places.give(1, {}).code, Code::kPort) << "it shares the host's memory";
  Buffer whole(size_t(sizes.total(64)) + 16);
  Memory memory;
  EXPECT_EQ(Memory::cut(whole.bytes().subspan(16), sizes, &memory, 64).needed, 64u);
  ASSERT_TRUE(Memory::cut(whole.bytes().first(size_t(sizes.total(64))), sizes, &memory, 64).ok());
  Program program;
  ASSERT_TRUE(places.bind(&program, model, 0, reference_kernels(), memory).ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(program.input(0).data()) % 64, 0u);
  write_inputs(program, model);
  EXPECT_TRUE(program.run().ok());
  Memory askew = memory;
  Buffer arena(size_t(sizes.bytes[kArena]) + 16);
  askew.block[kArena] = arena.bytes().subspan(16);
  const Status s = places.bind(&program, model, 0, reference_kernels(), askew);
  EXPECT_EQ(s.code, Code::kMemoryAlignment);
  EXPECT_EQ(s.needed, 64u);
  EXPECT_EQ(s.given, 16u);
}

TEST(places, ports_that_are_none_are_refused) {
  const Buffer file = pack(chain(1));
  Model model;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  FakePort fake(reference_kernels());
  const auto refused = [&](auto change) {
    Port port = fake.port();
    change(port);
    const Port* const ports[] = {nullptr, nullptr, &port};
    Places places(ports);
    Sizes sizes;
    const Status measured = places.measure(model, 0, reference_kernels(), &sizes);
    Program program;
    const Status bound = places.bind(&program, model, 0, reference_kernels(), {});
    EXPECT_EQ(sizes.total() == 0, !measured.ok());
    return measured.code == Code::kPort && measured.table == Table::kPort && measured.index == 2 &&
           bound.code == Code::kPort && !program.bound();
  };
  EXPECT_FALSE(refused([](Port&) {}));
  EXPECT_TRUE(refused([](Port& p) { p.set = nullptr; }));
  EXPECT_TRUE(refused([](Port& p) { p.begin = nullptr; }));
  EXPECT_TRUE(refused([](Port& p) { p.finish = nullptr; }));
  EXPECT_TRUE(refused([](Port& p) { p.copy = nullptr; }));
  EXPECT_TRUE(refused([](Port& p) { p.fill = nullptr; }));
  for (const uint32_t alignment : {0u, 1u, 8u, 24u, 48u, 8192u, 0x80000000u})
    EXPECT_TRUE(refused([=](Port& p) { p.alignment = alignment; })) << alignment;
  EXPECT_TRUE(refused([](Port& p) { p.tail_bytes = 4097; }));
  const Port* const nine[9] = {};
  Places many(nine);
  Sizes sizes;
  const Status s = many.measure(model, 0, reference_kernels(), &sizes);
  EXPECT_EQ(s.code, Code::kPort);
  EXPECT_EQ(s.index, 8u);
  Places none({});
  for (const uint32_t place : {0u, 7u, 8u, 0xFFFFFFFFu}) {
    EXPECT_EQ(none.give(place, {}).code, Code::kPort) << place;
    EXPECT_EQ(none.give(place, {}).index, place);
  }
}

// ---- Failures ----

// Builds h = x + s, a step that also updates the stream s, and then y = tanh(h).
Draft streaming() {
  Draft d;
  const uint32_t s = d.global(Region::kStream, kF32, {4});
  const uint32_t x = d.arena(kF32, {4}, 0, 0, 0, kNoIndex, kInput);
  const uint32_t h = d.arena(kF32, {4}, 0, 1, 16);
  const uint32_t y = d.arena(kF32, {4}, 1, 1, 32, kNoIndex, kOutput);
  d.step(Op::kAdd, {}, {x, update(s)}, {h});
  d.step(Op::kTanh, {}, {h}, {y});
  d.program(Entry::kInfer, "", {48});
  return d;
}

// Computes y = x + s; s = y.
struct Accumulate {
  int elements;
  static Accumulate from(const Words&, const Operands& o) { return {o[0].elements()}; }
  void forward(const float* x, Update<float> s, float* y) const {
    for (int i = 0; i < elements; ++i) s.data[i] = y[i] = x[i] + s.data[i];
  }
  static Code shapes(const Words&, const Operands& o, Dims* y) {
    for (int i = 0; i < o[0].rank; ++i) y->push(o[0][i]);
    return Code::kOk;
  }
};
constexpr KernelEntry kAccumulate = entry<Accumulate, &Accumulate::forward>(Op::kAdd);

TEST(places, a_run_that_fails_leaves_streams_as_they_were) {
  const KernelEntry* const entries[] = {&kAccumulate, &reference::kTanhF32};
  const KernelSet set = {"test", entries};
  const KernelSet* const sets[] = {&set};
  int failed = 0;
  for (const std::vector<uint8_t>& pattern : {std::vector<uint8_t>{1, 1}, {0, 1}, {1, 0}}) {
    const Buffer file = pack(with_places(streaming(), pattern));
    Model model;
    ASSERT_TRUE(model.open(file.bytes()).ok());
    FakePort fake(sets);
    const Port* const ports[] = {nullptr, &fake.port()};
    Places places(ports);
    Sizes sizes;
    ASSERT_TRUE(places.measure(model, 0, sets, &sizes).ok());
    Blocks blocks(sizes, std::byte{0});
    ASSERT_TRUE(places.give(1, fake.allocate(size_t(places.bytes(1)))).ok());
    Program program;
    ASSERT_TRUE(places.bind(&program, model, 0, sets, blocks.memory).ok());
    const auto stream = [&] {
      return std::vector<std::byte>(blocks.memory.block[kStream].begin(), blocks.memory.block[kStream].end());
    };
    write_inputs(program, model);
    ASSERT_TRUE(program.run().ok());
    const std::vector<std::byte> before = stream();
    for (const Fault fault : {Fault::kBegin, Fault::kCopyIn, Fault::kStep, Fault::kCopyOut, Fault::kFinish})
      for (uint64_t nth = 0;; ++nth) {
        fake.fail(fault, nth);
        write_inputs(program, model);
        const Status s = program.run();
        if (!fake.failed()) {  // fewer calls than that
          fake.fail(Fault::kNone, 0);
          EXPECT_TRUE(s.ok());
          EXPECT_NE(stream(), before);
          std::memcpy(blocks.memory.block[kStream].data(), before.data(), before.size());
          break;
        }
        ++failed;
        EXPECT_EQ(s.code, fault == Fault::kStep ? fake::kInjected : Code::kPortFailed);
        EXPECT_EQ(s.table, Table::kStep);
        EXPECT_EQ(stream(), before) << int(fault) << " " << nth;
      }
    EXPECT_EQ(fake.counts().broken, 0u);
    program.unbind();
  }
  EXPECT_GT(failed, 15);
}

TEST(places, what_a_port_cannot_copy_or_fill_at_bind_is_refused) {
  const auto bind_failing = [](Fault fault, uint64_t nth, bool* failed) {
    Placed p(with_places(dense_int8(), {1}));
    EXPECT_TRUE(p.measure().ok());
    p.fake.fail(fault, nth);
    const Status s = p.bind();
    *failed = p.fake.failed();
    EXPECT_EQ(p.program.bound(), s.ok());
    if (s.ok()) return s;
    p.fake.fail(Fault::kNone, 0);  // the place's memory, which has room for one program, is free again
    EXPECT_TRUE(p.places.bind(&p.program, p.model, 0, reference_kernels(), p.blocks->memory).ok());
    return s;
  };
  for (const Fault fault : {Fault::kCopyIn, Fault::kFill}) {
    uint64_t nth = 0;
    for (bool failed = true; failed; ++nth) {
      const Status s = bind_failing(fault, nth, &failed);
      EXPECT_EQ(s.code, failed ? Code::kPortFailed : Code::kOk);
    }
    EXPECT_GT(nth, 2u);
  }
}

// ---- Handles that kernels hold ----

struct Handles {
  int made = 0, ended = 0, fails_at = -1;
};
size_t handle_bytes(const Words&, const Operands&) { return sizeof(void*); }
Code make_handle(const Args& args) {
  auto* const handles = static_cast<Handles*>(args.context);
  if (handles->made == handles->fails_at) return Code::kMemorySize;
  ++handles->made;
  std::memcpy(args.call.prepared, &args.context, sizeof args.context);
  return Code::kOk;
}
void end_handle(void* context, void* prepared) {
  EXPECT_EQ(std::memcmp(prepared, &context, sizeof context), 0);
  ++static_cast<Handles*>(context)->ended;
}
constexpr Preparation kHandle = {handle_bytes, make_handle, end_handle};
constexpr KernelEntry with_handle() {
  KernelEntry e = entry<Activation, &Activation::tanh<float>>(Op::kTanh);
  e.preparation = &kHandle;
  return e;
}
constexpr KernelEntry kTanhWithHandle = with_handle();

TEST(places, every_handle_ends_once) {
  const KernelEntry* const entries[] = {&kTanhWithHandle};
  const KernelSet set = {"library", entries};
  for (int fails_at = -1; fails_at < 4; ++fails_at) {
    Handles handles = {.fails_at = fails_at};
    const Port library = {.name = "library",
                          .set = &set,
                          .context = &handles,
                          .begin = nullptr,
                          .finish = nullptr,
                          .copy = nullptr,
                          .fill = nullptr};
    const Port* const ports[] = {nullptr, &library};
    Places places(ports);
    const Buffer file = pack(with_places(chain(6), {1, 0, 1, 1}));  // steps 0, 2, 3, 4 on the port
    Model model;
    ASSERT_TRUE(model.open(file.bytes()).ok());
    Sizes sizes;
    ASSERT_TRUE(places.measure(model, 0, reference_kernels(), &sizes).ok());
    EXPECT_EQ(sizes.bytes[kPrepared], 4 * 16u);
    Blocks blocks(sizes);
    Program program;
    const Status s = places.bind(&program, model, 0, reference_kernels(), blocks.memory);
    EXPECT_EQ(s.code, fails_at < 0 ? Code::kOk : Code::kMemorySize);
    EXPECT_EQ(handles.made, fails_at < 0 ? 4 : fails_at);
    EXPECT_EQ(handles.ended, fails_at < 0 ? 0 : fails_at);
    if (!s.ok()) continue;
    write_inputs(program, model);
    EXPECT_TRUE(program.run().ok());
    ASSERT_TRUE(places.bind(&program, model, 0, reference_kernels(), blocks.memory).ok());
    EXPECT_EQ(handles.made, 8);
    EXPECT_EQ(handles.ended, 4);
    program.unbind();
    program.unbind();
    EXPECT_EQ(handles.ended, 8);
  }
}

}  // namespace
}  // namespace nacre::test
