// Claim: a program takes exactly the bytes that measure() says, in the regions that it says, and no byte more.
//
//   poison    every block has guards on both sides and is filled with 0xA5, then with 0x5A: guards and outputs do not
//             change
//   exact     blocks of exactly these sizes run; one byte less in any block is refused, with both numbers
//   places    a base that is misaligned by 1 to 15 bytes is refused, and so are two blocks that share a byte
//   numbers   arena at the liveness bound, calls, scratch of the four integer networks
//
// The image for a Cortex-M4 prints the same numbers (tests/firmware.sh), with the sizes of Model and Program there.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/claims/claims.h"
#include "tests/model/execute.h"
#include "tests/model/networks.h"

namespace nacre::test {
namespace {

constexpr size_t kGuard = 64;
constexpr Machine k32Bit = {.pointer_bytes = 4};

struct Tally {
  uint64_t checks = 0, failures = 0;

  bool that(bool holds, const char* model, const char* what, uint32_t block = 0) {
    ++checks;
    if (!holds) ++failures, std::printf("FAIL %s: %s (block %u)\n", model, what, block);
    return holds;
  }
};

// Blocks with guards before and after each, which no run may change.
struct Guarded {
  Buffer whole[kBlockCount];
  Memory memory;
  std::byte fill;

  Guarded(const Sizes& sizes, std::byte value) : fill(value) {
    for (uint32_t i = 0; i < kBlockCount; ++i) {
      whole[i] = Buffer(size_t(sizes.bytes[i]) + 2 * kGuard, fill);
      memory.block[i] = whole[i].bytes().subspan(kGuard, size_t(sizes.bytes[i]));
    }
  }
  bool intact() const {
    for (uint32_t i = 0; i < kBlockCount; ++i) {
      const auto bytes = whole[i].bytes();
      const auto is_fill = [&](std::byte b) { return b == fill; };
      const auto before = bytes.first(kGuard), behind = bytes.last(kGuard);
      if (!std::all_of(before.begin(), before.end(), is_fill) || !std::all_of(behind.begin(), behind.end(), is_fill))
        return false;
    }
    return true;
  }
};

// Clears the caller's blocks whose values a run reads: state, stream, derived, step sums. Other blocks are like
// scratch.
void clear_values(const Memory& memory) {
  for (const uint32_t block : {kState, kStream, kDerived, kStepSums})
    std::fill(memory.block[block].begin(), memory.block[block].end(), std::byte{0});
}

// Returns the outputs of one run, whose inputs depend only on their positions.
std::vector<std::byte> outputs_of(const Model& model, uint32_t index, const Memory& memory, Status* status) {
  Program program;
  clear_values(memory);
  *status = program.bind(model, index, reference_kernels(), memory);
  if (!status->ok()) return {};
  for (uint32_t i = 0; i < program.input_count(); ++i) {
    const std::span<std::byte> x = program.input(i);
    const bool real = model.tensors()[program.view().inputs[i]].element == ElementType::kFloat32;
    for (size_t k = 0; k < x.size(); ++k) x[k] = std::byte(real ? (k % 4 == 3 ? 0x3F : 0x11) : k * 7 + 3);
  }
  *status = program.run();
  std::vector<std::byte> all;
  for (uint32_t i = 0; i < program.output_count(); ++i) {
    const auto y = program.output(i);
    all.insert(all.end(), y.begin(), y.end());
  }
  return all;
}

void poison(Tally& tally, const char* name, const Model& model, uint32_t index, const Sizes& sizes) {
  Status first, second;
  const Guarded a(sizes, std::byte{0xA5}), b(sizes, std::byte{0x5A});
  const auto x = outputs_of(model, index, a.memory, &first), y = outputs_of(model, index, b.memory, &second);
  tally.that(first.ok() && second.ok(), name, "blocks of exactly the size run");
  tally.that(a.intact() && b.intact(), name, "the guards around every block stay");
  tally.that(x == y, name, "outputs do not depend on what memory held");
}

void one_byte_less(Tally& tally, const char* name, const Model& model, uint32_t index, const Sizes& sizes) {
  for (uint32_t i = 0; i < kBlockCount; ++i) {
    const uint64_t bytes = sizes.bytes[i];
    if (bytes == 0) continue;
    Blocks blocks(sizes);
    // Gives one byte less, then every size from 1,024 bytes down to none.
    for (uint64_t given = bytes; given-- > 0;) {
      if (given > 1024 && given != bytes - 1) given = 1024;
      blocks.block[i] = Buffer(size_t(given));
      blocks.memory.block[i] = blocks.block[i].bytes();
      Program program;
      const Status s = program.bind(model, index, reference_kernels(), blocks.memory);
      tally.that(s.code == Code::kMemorySize && s.table == Table::kMemory && s.index == i && s.needed == bytes &&
                     s.given == given,
                 name, "fewer bytes are refused with both numbers", i);
      tally.that(program.run().code == Code::kNotBound && program.input_count() == 0, name,
                 "what is not bound does not run", i);
    }
  }
}

void misplaced(Tally& tally, const char* name, const Model& model, uint32_t index, const Sizes& sizes) {
  for (uint32_t i = 0; i < kBlockCount; ++i) {
    if (sizes.bytes[i] == 0) continue;
    for (size_t by = 1; by < kAlignment; ++by) {
      Blocks blocks(sizes);
      Buffer moved(size_t(sizes.bytes[i]) + by);
      blocks.memory.block[i] = moved.bytes().subspan(by);
      Program program;
      const Status s = program.bind(model, index, reference_kernels(), blocks.memory);
      tally.that(s.code == Code::kMemoryAlignment && s.index == i && s.needed == kAlignment && s.given == by, name,
                 "a misaligned base is refused", i);
    }
    for (uint32_t j = 0; j < i; ++j) {
      if (sizes.bytes[j] == 0) continue;
      // Block i starts within the last 16 bytes of block j; if j is small, at its start.
      const size_t at = (size_t(sizes.bytes[j]) - 1) / kAlignment * kAlignment;
      Blocks blocks(sizes);
      Buffer shared(at + size_t(sizes.bytes[i]) + kAlignment);
      blocks.memory.block[j] = shared.bytes().first(size_t(sizes.bytes[j]));
      blocks.memory.block[i] = shared.bytes().subspan(at, size_t(sizes.bytes[i]));
      Program program;
      const Status s = program.bind(model, index, reference_kernels(), blocks.memory);
      tally.that(s.code == Code::kMemoryOverlap && s.index == i, name, "blocks that share a byte are refused", i);
    }
  }
}

void cut(Tally& tally, const char* name, const Model& model, uint32_t index, const Sizes& sizes) {
  const auto total = size_t(sizes.total());
  for (size_t by = 0; by < kAlignment; ++by) {
    Buffer whole(total + by + kGuard, std::byte{0xA5});
    Memory memory;
    const Status s = Memory::cut(whole.bytes().subspan(by, total), sizes, &memory);
    if (by != 0) {
      tally.that(s.code == Code::kMemoryAlignment && s.given == by, name, "one block at a misaligned base is refused");
      continue;
    }
    Status ran;
    outputs_of(model, index, memory, &ran);
    const auto behind = std::as_const(whole).bytes().last(kGuard);
    tally.that(s.ok() && ran.ok(), name, "one block of the total runs");
    tally.that(std::all_of(behind.begin(), behind.end(), [](std::byte b) { return b == std::byte{0xA5}; }), name,
               "nothing behind the block changes");
  }
  if (total == 0) return;
  Buffer less(total - 1);
  Memory memory;
  const Status s = Memory::cut(less.bytes(), sizes, &memory);
  tally.that(s.code == Code::kMemorySize && s.needed == total && s.given == total - 1, name,
             "one byte less than the total is refused");
}

void all_of(Tally& tally, const char* name, const Model& model) {
  for (uint32_t i = 0; i < model.program_count(); ++i) {
    // claim training_memory covers training programs: their labels must be classes
    if (model.program(i).entry != Entry::kInfer) continue;
    Sizes sizes;
    if (!tally.that(Program::measure(model, i, reference_kernels(), &sizes).ok(), name, "measures")) continue;
    poison(tally, name, model, i, sizes);
    one_byte_less(tally, name, model, i, sizes);
    misplaced(tally, name, model, i, sizes);
    cut(tally, name, model, i, sizes);
  }
}

// Prints the numbers of a network on a 32-bit machine.
void numbers(Tally& tally, const Network& network, const Model& model) {
  Sizes sizes;
  if (!tally.that(Program::measure(model, 0, reference_kernels(), &sizes, k32Bit).ok(), network.name, "measures"))
    return;
  uint64_t arena = 0, operands = 0;
  for (uint32_t bank = 0; bank < uint32_t(kMaxBanks); ++bank) arena += sizes.bytes[kArena + bank];
  const ProgramView view = model.program(0);
  for (uint32_t i = 0; i < view.step_count; ++i)
    operands = std::max<uint64_t>(operands, model.steps()[view.first_step + i].operand_count);
  const auto number = [](uint64_t v) { return static_cast<unsigned long long>(v); };
  std::printf(
      "%-7s %3u steps: arena %6llu, calls %5llu (%.1f per step, up to %llu operands), prepared %llu, scratch %llu, "
      "state %llu, "
      "stream %llu, derived %llu bytes\n",
      network.name, view.step_count, number(arena), number(sizes.bytes[kCalls]),
      double(sizes.bytes[kCalls]) / view.step_count, number(operands), number(sizes.bytes[kPrepared]),
      number(sizes.bytes[kScratch]), number(sizes.bytes[kState]), number(sizes.bytes[kStream]),
      number(sizes.bytes[kDerived]));
  if (network.arena_bytes == 0) return;
  tally.that(arena == network.arena_bytes, network.name, "the arena is at the liveness bound");
  tally.that(sizes.bytes[kCalls] <= 60 * uint64_t{view.step_count}, network.name,
             "calls take at most 60 bytes per step");
  tally.that(sizes.bytes[kScratch] <= 256, network.name, "scratch is at most 256 bytes");
  tally.that(sizes.bytes[kPrepared] == 0 && sizes.bytes[kState] == 0 && sizes.bytes[kStream] == 0 &&
                 sizes.bytes[kDerived] == 0,
             network.name, "nothing else is asked for");
}

int claim() {
  Tally tally;
  for (const ModelCase& c : cases()) {
    const Buffer file = pack(c.make());
    Model model;
    if (tally.that(model.open(file.bytes()).ok(), c.name, "opens")) all_of(tally, c.name, model);
  }
  int networks = 0, missing = 0;
  for (const Network& network : kNetworks) {
    Buffer file;
    std::string why;
    if (!convert(network, &file, &why)) {
      std::printf("%s: %s\n", network.name, why.c_str());
      ++missing;
      continue;
    }
    Model model;
    ++networks;
    if (!tally.that(model.open(file.bytes()).ok(), network.name, "opens")) continue;
    numbers(tally, network, model);
    all_of(tally, network.name, model);
  }
  const bool shown = tally.failures == 0 && missing == 0;
  std::printf("CLAIM exact_memory %s: %d networks (%d missing) and %zu small models, %llu checks, %llu failed\n",
              shown                 ? "shown"
              : tally.failures == 0 ? "partly shown"
                                    : "NOT shown",
              networks, missing, cases().size(), static_cast<unsigned long long>(tally.checks),
              static_cast<unsigned long long>(tally.failures));
  return tally.failures != 0 ? 1 : missing != 0 ? 77 : 0;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(exact_memory) { return nacre::test::claim(); }
