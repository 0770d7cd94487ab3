// The C API's sources share these helpers, which check arguments and convert between C's structs and the engine's.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "engine/nacre_c.h"
#include "engine/ops/op.h"
#include "engine/run/program.h"

namespace nacre {

inline const Model& of(const nacre_model* model) {
  return *static_cast<const Model*>(static_cast<const void*>(model->opaque));
}

// The caller's struct has the same members as the engine's.
static_assert(sizeof(Workers) == sizeof(nacre_workers));
static_assert(offsetof(Workers, context) == offsetof(nacre_workers, context));
static_assert(offsetof(Workers, count) == offsetof(nacre_workers, count));
static_assert(offsetof(Workers, run) == offsetof(nacre_workers, run));
static_assert(offsetof(Workers, least_work) == offsetof(nacre_workers, least_work));
inline const Workers* of(const nacre_workers* workers) {
  return static_cast<const Workers*>(static_cast<const void*>(workers));
}
inline bool usable(const nacre_workers* workers) {
  return workers == nullptr || (workers->run != nullptr && workers->count > 0);
}
inline Machine machine_of(const nacre_workers* workers) {
  return {.workers = workers == nullptr ? 1 : uint32_t(workers->count)};
}
inline bool usable(const nacre_kernels* const* kernels, size_t count) {
  if (kernels == nullptr) return false;
  for (size_t i = 0; i < count; ++i)
    if (kernels[i] == nullptr) return false;
  return true;
}

template <class T>
T* bytes_of(std::span<T> bytes, size_t* size) {
  if (size != nullptr) *size = bytes.size();
  return bytes.data();
}

inline nacre_status to_c(const Status& s) { return {uint8_t(s.code), uint8_t(s.table), s.index, s.needed, s.given}; }

// Returns whether the caller gave a struct whose `size` is set to at least 8: `size` itself and one more member.
template <class T>
constexpr bool usable(const T* given) {
  return given != nullptr && given->size >= 2 * sizeof(uint32_t);
}

// Returns kArgument with the index of the first argument that does not hold, or success.
template <class... Holds>
constexpr Status arguments(Holds... holds) {
  uint32_t index = 0;
  bool all = true;
  ((all = all && holds, index += all ? 1 : 0), ...);
  return all ? Status{} : Status{Code::kArgument, Table::kNone, index};
}

// Copies as many members as the caller's struct, of this or an earlier version, has room for. Its size stays. This
// serves all structs that begin with `size`.
template <class T>
void give(T from, T* to) {
  from.size = to->size;
  std::memcpy(to, &from, to->size < sizeof from ? to->size : sizeof from);
}

// Sizes that measure(machine, &sizes) returns with packed weights, and without them.
struct CSizes {
  Sizes sizes, unpacked;
};
template <class Measure>
Status measure_both(const Measure& measure, const nacre_workers* workers, CSizes* both) {
  Machine machine = machine_of(workers);
  NACRE_TRY(measure(machine, &both->sizes));
  machine.packs = false;
  if (!measure(machine, &both->unpacked).ok()) both->unpacked = both->sizes;  // some step has only kernels that pack
  return {};
}

// Sizes for a machine that the caller describes. Its block has no room for cache lines.
inline bool usable_machine(const nacre_machine* m) {
  return m != nullptr && m->size >= sizeof *m && (m->pointer_bytes == 4 || m->pointer_bytes == 8) && m->workers > 0;
}
inline Machine machine_of(const nacre_machine& m) {
  return {.pointer_bytes = m.pointer_bytes, .workers = m.workers, .packs = m.packs != 0};
}

// Returns the bytes of one block, at a multiple of 16, that holds all blocks. If weights are packed, fast kernels run,
// and the sum has room to begin every block at a cache line. A network of int8 convolutions took 1.04 times as long
// in an arena that began at another multiple of 16.
inline constexpr uint32_t kLine = 64;
inline uint64_t total_of(const Sizes& sizes, bool packs) {
  return packs ? sizes.total(kLine) + kLine - kAlignment : sizes.total();
}

// Cuts the caller's block for packed weights. If the block is too small for these, cuts it without them, so that a
// block whose size was computed without copies still holds its program. Blocks begin at cache lines if there is room
// for that.
template <class Measure>
Status cut(const Measure& measure, const nacre_workers* workers, std::span<std::byte> whole, Memory* blocks) {
  Machine machine = machine_of(workers);
  Sizes sizes;
  NACRE_TRY(measure(machine, &sizes));
  const size_t ahead = -reinterpret_cast<uintptr_t>(whole.data()) & (kLine - 1);
  if (ahead % kAlignment == 0 && ahead <= whole.size() && Memory::cut(whole.subspan(ahead), sizes, blocks, kLine).ok())
    return {};
  Status status = Memory::cut(whole, sizes, blocks);
  if (status.code != Code::kMemorySize) return status;
  const uint64_t derived = sizes.bytes[kDerived], of_lines = total_of(sizes, true);
  machine.packs = false;
  if (!measure(machine, &sizes).ok() || derived == sizes.bytes[kDerived]) return status;
  if (Memory::cut(whole, sizes, blocks).ok()) return {};
  status.needed = of_lines;  // the size that measure returns
  return status;
}

// Describes step `step`, which the program must have. Leaves out the fields of a bound step: kernel and packed.
inline nacre_step_info step_info(const Model& model, const ProgramView& view, uint32_t step) {
  const StepRecord& record = model.steps()[view.first_step + step];
  const OpRule* const rule = find_rule(record.op);
  const char* const layer = model.layer_name(view.first_step + step);
  nacre_step_info info = {};
  info.operands = record.operand_count;
  info.op = rule == nullptr ? "" : rule->name;
  info.layer = layer == nullptr ? "" : layer;
  info.place = record.place;
  return info;
}

inline nacre_sizes to_c(const Sizes& from) {
  nacre_sizes sizes = {};
  sizes.calls = from.bytes[kCalls];
  sizes.prepared = from.bytes[kPrepared];
  sizes.scratch = from.bytes[kScratch];
  sizes.state = from.bytes[kState];
  sizes.stream = from.bytes[kStream];
  sizes.derived = from.bytes[kDerived];
  sizes.step = from.bytes[kStepSums];
  for (uint32_t i = 0; i < kMaxBanks; ++i) sizes.arena[i] = from.bytes[kArena + i];
  sizes.work = from.work;
  sizes.total = sizes.unpacked = from.total();
  return sizes;
}
inline void to_c(const CSizes& both, nacre_sizes* to) {
  nacre_sizes sizes = to_c(both.sizes);
  sizes.total = total_of(both.sizes, both.sizes.bytes[kDerived] != both.unpacked.bytes[kDerived]);
  sizes.unpacked = both.unpacked.total();
  give(sizes, to);
}

// The caller's port is the engine's Port: C only passes its address.
inline const Port* of(const nacre_port* port) { return static_cast<const Port*>(static_cast<const void*>(port)); }
inline const nacre_port* to_c(const Port& port) {
  return static_cast<const nacre_port*>(static_cast<const void*>(&port));
}

}  // namespace nacre
