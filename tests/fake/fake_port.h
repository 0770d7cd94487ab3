// A port (the driver of a device) for tests: the host's kernels over memory of its own, which nobody else may touch.
//
//   - Its memory is protected but while one of its kernels or functions runs: what the host reads or writes there ends
//     the process.
//   - At each begin all of it is poisoned except what was copied or filled there before any segment (weights, tails):
//     a kernel that reads what was not copied gives other results under another poison.
//   - It counts calls and refuses operands outside its memory, copies that are not between the host and its memory,
//     and begin and finish that do not alternate.
//   - The n-th call of one kind fails on demand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels/kernel.h"

namespace nacre::fake {

enum class Fault : uint8_t { kNone, kBegin, kFinish, kCopyIn, kCopyOut, kFill, kStep };

inline constexpr Code kInjected = Code::kStorageFailed;  // the code of a step that fails

struct Options {
  std::byte poison = std::byte{0xA5};
  uint32_t alignment = 64, tail_bytes = 32;
  bool in_place = true;  // false: no kernel works in place
};

struct Counts {
  // `begins` counts those that succeeded; the other counters count all calls.
  uint64_t begins = 0, finishes = 0, copies_in = 0, copies_out = 0, fills = 0, steps = 0;
  uint64_t broken = 0;  // what no caller may do: a copy outside the port's memory, a step outside a segment, ...
};

class FakePort {
 public:
  // Makes a port with the kernels of `sets`.
  explicit FakePort(std::span<const KernelSet* const> sets, const Options& options = {});
  ~FakePort();
  FakePort(const FakePort&) = delete;
  FakePort& operator=(const FakePort&) = delete;

  const Port& port() const { return port_; }
  // Replaces the memory by another block of exactly `bytes` bytes.
  std::span<std::byte> allocate(size_t bytes);
  // The n-th call of this kind, counted from 0, fails; all others succeed.
  void fail(Fault fault, uint64_t nth);
  bool failed() const { return fault_ == Fault::kNone; }  // since fail()
  Fault pending() const { return fault_; }
  uint64_t pending_nth() const { return until_; }
  const Counts& counts() const { return counts_; }

 private:
  static constexpr size_t kMostEntries = 1024;

  struct Guard;  // opens the memory while it lives
  template <size_t kIndex>
  static Code run_entry(const Args& args);
  template <size_t... kIndex>
  static std::vector<Kernel> kernels(std::index_sequence<kIndex...>);

  Code run(size_t entry, const Args& args);
  Code begin();
  Code finish();
  Code copy(CopyDirection direction, void* to, const void* from, size_t bytes);
  Code fill(void* to, std::byte value, size_t bytes);
  void protect(bool open);
  void poison();
  bool holds(const void* at, size_t bytes) const;
  bool fails(Fault fault);
  Code broken();

  Options options_;
  std::vector<KernelEntry> entries_;
  std::vector<Kernel> run_;  // of the host, by entry
  std::vector<const KernelEntry*> list_;
  KernelSet set_ = {};
  Port port_ = {};
  std::byte* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::span<std::byte> memory_;
  struct Range {
    size_t first, end;
  };
  std::vector<Range> kept_;  // written before any segment
  bool in_segment_ = false;
  Counts counts_;
  Fault fault_ = Fault::kNone;
  uint64_t until_ = 0;
};

}  // namespace nacre::fake
