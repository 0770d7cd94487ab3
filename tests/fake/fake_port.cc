#include "tests/fake/fake_port.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace nacre::fake {

struct FakePort::Guard {
  FakePort& port;
  explicit Guard(FakePort& p) : port(p) { port.protect(true); }
  ~Guard() { port.protect(false); }
};

template <size_t kIndex>
Code FakePort::run_entry(const Args& args) {
  return static_cast<FakePort*>(args.context)->run(kIndex, args);
}

template <size_t... kIndex>
std::vector<Kernel> FakePort::kernels(std::index_sequence<kIndex...>) {
  return {run_entry<kIndex>...};
}

FakePort::FakePort(std::span<const KernelSet* const> sets, const Options& options) : options_(options) {
  const std::vector<Kernel> mine = kernels(std::make_index_sequence<kMostEntries>());
  for (const KernelSet* set : sets)
    for (const KernelEntry* entry : set->entries) entries_.push_back(*entry);
  std::ranges::stable_sort(entries_, {}, &KernelEntry::op);
  if (entries_.size() > kMostEntries) std::abort();
  for (size_t i = 0; i < entries_.size(); ++i) {
    run_.push_back(entries_[i].run);
    entries_[i].run = mine[i];
    if (!options_.in_place) entries_[i].in_place = 0;
  }
  for (const KernelEntry& entry : entries_) list_.push_back(&entry);
  set_ = {"fake", list_};
  port_ = {.name = "fake",
           .set = &set_,
           .context = this,
           .begin = [](void* self) { return static_cast<FakePort*>(self)->begin(); },
           .finish = [](void* self) { return static_cast<FakePort*>(self)->finish(); },
           .copy = [](void* self, CopyDirection direction, void* to, const void* from,
                      size_t bytes) { return static_cast<FakePort*>(self)->copy(direction, to, from, bytes); },
           .fill = [](void* self, void* to, std::byte value,
                      size_t bytes) { return static_cast<FakePort*>(self)->fill(to, value, bytes); },
           .alignment = options_.alignment,
           .tail_bytes = options_.tail_bytes};
}

FakePort::~FakePort() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
}

// Places the block at the end of its pages, as far as alignment allows, with an inaccessible page after it.
std::span<std::byte> FakePort::allocate(size_t bytes) {
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
  const auto page = size_t(sysconf(_SC_PAGESIZE));
  const size_t pages = (bytes + page - 1) / page * page;
  mapped_bytes_ = pages + page;
  void* const mapped = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) std::abort();
  mapped_ = static_cast<std::byte*>(mapped);
  memory_ = {mapped_ + (pages - bytes) / options_.alignment * options_.alignment, bytes};
  kept_.clear();
  const Guard open(*this);
  std::fill(memory_.begin(), memory_.end(), options_.poison);
  return memory_;
}

void FakePort::fail(Fault fault, uint64_t nth) { fault_ = fault, until_ = nth; }

bool FakePort::fails(Fault fault) {
  if (fault_ != fault || until_-- > 0) return false;
  fault_ = Fault::kNone;
  return true;
}

Code FakePort::broken() {
  ++counts_.broken;
  return Code::kRange;
}

void FakePort::protect(bool open) {
  const size_t usable = mapped_bytes_ - size_t(sysconf(_SC_PAGESIZE));
  if (usable > 0 && mprotect(mapped_, usable, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) std::abort();
}

bool FakePort::holds(const void* at, size_t bytes) const {
  const auto* first = static_cast<const std::byte*>(at);
  return std::greater_equal<>()(first, memory_.data()) && first - memory_.data() <= ptrdiff_t(memory_.size()) &&
         bytes <= memory_.size() - size_t(first - memory_.data());
}

void FakePort::poison() {
  std::ranges::sort(kept_, {}, &Range::first);
  size_t at = 0;
  for (const Range& range : kept_) {
    if (range.first > at) std::memset(memory_.data() + at, int(options_.poison), range.first - at);
    at = std::max(at, range.end);
  }
  if (at < memory_.size()) std::memset(memory_.data() + at, int(options_.poison), memory_.size() - at);
}

Code FakePort::begin() {
  if (in_segment_) return broken();
  if (fails(Fault::kBegin)) return Code::kPortFailed;
  ++counts_.begins;
  const Guard open(*this);
  poison();
  in_segment_ = true;
  return Code::kOk;
}

Code FakePort::finish() {
  ++counts_.finishes;
  if (!in_segment_) return broken();
  in_segment_ = false;
  return fails(Fault::kFinish) ? Code::kPortFailed : Code::kOk;
}

Code FakePort::copy(CopyDirection direction, void* to, const void* from, size_t bytes) {
  const bool in = direction == CopyDirection::kToPort;
  ++(in ? counts_.copies_in : counts_.copies_out);
  if (direction == CopyDirection::kWithinPort || holds(to, bytes) != in || holds(from, bytes) == in) return broken();
  if (fails(in ? Fault::kCopyIn : Fault::kCopyOut)) return Code::kPortFailed;
  const Guard open(*this);
  std::memcpy(to, from, bytes);
  const auto at = size_t(static_cast<std::byte*>(to) - memory_.data());
  if (in && !in_segment_) kept_.push_back({at, at + bytes});
  return Code::kOk;
}

Code FakePort::fill(void* to, std::byte value, size_t bytes) {
  ++counts_.fills;
  if (!holds(to, bytes)) return broken();
  if (fails(Fault::kFill)) return Code::kPortFailed;
  const Guard open(*this);
  std::memset(to, int(value), bytes);
  const auto at = size_t(static_cast<std::byte*>(to) - memory_.data());
  if (!in_segment_) kept_.push_back({at, at + bytes});
  return Code::kOk;
}

Code FakePort::run(size_t entry, const Args& args) {
  ++counts_.steps;
  if (!in_segment_ || (args.scratch.size() > 0 && !holds(args.scratch.data(), args.scratch.size()))) return broken();
  const Operands operands = args.operands();
  for (int i = 0; i < operands.count; ++i)
    if (operands.has(i) && !holds(operands.tensor[i].data, size_t(operands.tensor[i].record->bytes))) return broken();
  if (fails(Fault::kStep)) return kInjected;
  const Guard open(*this);
  return run_[entry](args);
}

}  // namespace nacre::fake
