#include "engine/train/checkpoint.h"

#include <algorithm>
#include <cstring>

#include "engine/base/bytes.h"
#include "engine/base/crc32c.h"
#include "engine/train/checkpoint_slot.h"
#include "engine/train/state_table.h"

namespace nacre {
namespace {

constexpr Status refuse(Code code, uint32_t slot = 0, uint64_t needed = 0, uint64_t given = 0) {
  return {code, Table::kCheckpoint, slot, needed, given};
}

}  // namespace

// Not inlined, so that the buffer is on the stack of this call only.
[[gnu::noinline]] bool Checkpoint::put(uint64_t at, std::span<const std::byte> bytes) const {
  std::byte buffer[kBufferBytes];
  Writer writer(storage_, at, 0, buffer);
  return writer.append(bytes) && writer.pad() && flush();
}

Status Checkpoint::check() const { return check_storage(storage_, Table::kCheckpoint); }

Checkpoint::Slot Checkpoint::slot(uint32_t index) const {
  Slot s;
  s.index = index;
  s.bytes = storage_.bytes / 2 & ~uint64_t{storage_.erase_bytes - 1};
  s.base = index * s.bytes;
  Header& h = s.header;
  if (s.bytes < sizeof(Header)) {
    s.blank = true;
    return s;
  }
  s.failed = !read(s.base, writable(h));
  if (s.failed) return s;
  const auto bytes = bytes_of(h);
  s.blank = (bytes[0] == std::byte{0xFF} || bytes[0] == std::byte{0}) &&
            std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == bytes[0]; });
  // A header is not trusted, even if it is whole. No sum below overflows, and all that the header describes lies
  // within the bytes that the slot holds. A mark that was never programmed need not be there.
  uint64_t filled = s.bytes;
  if (storage_.filled != nullptr)
    filled = std::min(s.bytes, std::max(storage_.filled(storage_.context, s.base), h.table()));
  s.valid = std::memcmp(h.magic, kCheckpointMagic, sizeof h.magic) == 0 && h.version == kCheckpointVersion &&
            h.byte_order == kByteOrderMark && h.crc == h.own_crc() && (h.flags & ~kPendingFlag) == 0 &&
            is_power_of_two(h.program_bytes) && h.program_bytes <= kBufferBytes && h.state_bytes <= filled &&
            h.end() <= filled;
  if (!s.valid) return s;
  Mark mark;
  s.counts = (h.flags & kPendingFlag) == 0;
  if (s.counts || !read(s.base + h.mark(), writable(mark))) return s;
  s.counts = std::memcmp(mark.magic, kMarkMagic, sizeof mark.magic) == 0 && mark.generation == h.generation &&
             mark.header_crc == h.crc && mark.crc == crc32c(bytes_of(mark).first(12));
  return s;
}

// Returns whether the table fits the header's layout and the payload has the header's CRC. If the payload cannot be
// read, the slot becomes `failed`.
bool Checkpoint::whole(Slot& slot) const {
  const Header& h = slot.header;
  uint32_t crc = crc32c(bytes_of(h.generation));
  return table(slot, &crc) && sum(slot, h.state(), h.state_bytes, &crc) && sum(slot, h.note(), h.note_bytes, &crc) &&
         crc == h.payload_crc;
}

// Returns whether the table has the header's layout: rows in the order of their offsets, each after the one before,
// all within the state. So match() never reads more than the state. It is not inlined, like put.
[[gnu::noinline]] bool Checkpoint::table(Slot& slot, uint32_t* crc) const {
  constexpr uint64_t kAtOnce = kBufferBytes / sizeof(StateRow);
  StateRow rows[kAtOnce];
  const Header& h = slot.header;
  uint64_t layout = empty_layout(h.state_bytes), end = 0;
  for (uint64_t first = 0; first < h.records; first += kAtOnce) {
    const std::span<StateRow> chunk(rows, size_t(std::min(h.records - first, kAtOnce)));
    slot.failed = !read(slot.base + h.table() + first * sizeof(StateRow), std::as_writable_bytes(chunk));
    if (slot.failed) return false;
    *crc = crc32c(std::as_bytes(chunk), *crc);
    for (const StateRow& row : chunk) {
      if (row.offset < end || row.offset > h.state_bytes || row.bytes > h.state_bytes - row.offset) return false;
      end = row.offset + row.bytes;
      layout = add_row(layout, row);
    }
  }
  return layout == h.layout;
}

[[gnu::noinline]] bool Checkpoint::sum(Slot& slot, uint64_t offset, uint64_t bytes, uint32_t* crc) const {
  std::byte buffer[kBufferBytes];
  for (uint64_t at = 0; at < bytes; at += kBufferBytes) {
    const std::span<std::byte> chunk(buffer, size_t(std::min(bytes - at, uint64_t{kBufferBytes})));
    slot.failed = !read(slot.base + offset + at, chunk);
    if (slot.failed) return false;
    *crc = crc32c(chunk, *crc);
  }
  return true;
}

// Reads both slots. If there is no checkpoint, refuses and says why.
Status Checkpoint::find(Slots* slots) const {
  NACRE_TRY(check());
  Slot* const s = slots->slot;
  for (uint32_t i = 0; i < 2; ++i) {
    s[i] = slot(i);
    s[i].valid = s[i].valid && whole(s[i]);
  }
  for (int i = 0; i < 2; ++i) {
    if (s[i].failed && !s[1 - i].valid) return refuse(Code::kStorageFailed, uint32_t(i));
    // Generations wrap, so their difference decides.
    if (s[i].valid && (!s[1 - i].valid || int32_t(s[i].header.generation - s[1 - i].header.generation) > 0))
      slots->newest = i;
  }
  if (s[0].valid && s[1].valid && slots->newest < 0) slots->newest = 0;  // equal generations, which no save makes
  if (slots->newest < 0) return refuse(s[0].blank && s[1].blank ? Code::kNoCheckpoint : Code::kCheckpointDamaged);
  const int other = 1 - slots->newest;
  slots->keep = !s[slots->newest].counts && s[other].valid && s[other].counts ? other : slots->newest;
  return {};
}

Status Checkpoint::measure(const StateTable& table, const Storage& storage, uint32_t note_bytes, uint64_t* bytes) {
  *bytes = 0;
  NACRE_TRY(Checkpoint(storage).check());
  if (table.hash == nullptr) return {Code::kNotBound, Table::kFile};
  Header h = Header();
  h.program_bytes = storage.program_bytes;
  h.records = state_records(table);
  h.state_bytes = table.bytes;
  h.note_bytes = note_bytes;
  *bytes = 2 * round_up(h.end(), storage.erase_bytes);
  return {};
}

Status Checkpoint::save(const StateTable& table, std::span<const std::byte> state, const Info& info) {
  if (table.hash == nullptr) return {Code::kNotBound, Table::kFile};
  const uint64_t state_bytes = table.bytes;
  if (bytes_in(state) < state_bytes) return {Code::kMemorySize, Table::kCheckpoint, 0, state_bytes, bytes_in(state)};
  if (info.note.size() > INT32_MAX) return refuse(Code::kStorageSize, 0, INT32_MAX, info.note.size());
  uint64_t needed = 0;
  NACRE_TRY(measure(table, storage_, uint32_t(info.note.size()), &needed));
  if (needed > storage_.bytes) return refuse(Code::kStorageSize, 0, needed, storage_.bytes);
  Slots slots;
  const Status found = find(&slots);
  if (found.code == Code::kStorageFailed) return found;
  Slot& target = slots.slot[slots.keep < 0 ? 0 : 1 - slots.keep];
  uint32_t generation = 1;
  if (slots.newest >= 0) generation = slots.slot[slots.newest].header.generation + 1;
  Header& h = target.header = Header();
  std::memcpy(h.magic, kCheckpointMagic, sizeof h.magic);
  std::memcpy(&h.model, table.hash, sizeof h.model);
  h.version = kCheckpointVersion;
  h.byte_order = kByteOrderMark;
  h.generation = generation;
  h.flags = info.pending ? kPendingFlag : 0;
  h.layout = state_layout(table);
  h.state_bytes = state_bytes;
  h.records = state_records(table);
  h.note_bytes = uint32_t(info.note.size());
  h.program_bytes = storage_.program_bytes;
  return write(table, target, state.first(size_t(state_bytes)), info.note);
}

// The order is the protocol: the header is erased first and programmed last.
Status Checkpoint::write(const StateTable& table, Slot& slot, std::span<const std::byte> state,
                         std::span<const std::byte> note) {
  Header& h = slot.header;
  const Status failed = refuse(Code::kStorageFailed, slot.index);
  for (uint64_t at = 0; at < h.end(); at += storage_.erase_bytes)
    if (!storage_.erase(storage_.context, slot.base + at)) return failed;
  if (!payload(table, slot, state, note) || !flush()) return failed;
  if (!whole(slot)) return slot.failed ? failed : refuse(Code::kReadBack, slot.index);
  h.crc = h.own_crc();
  if (!put(slot.base, bytes_of(h))) return failed;
  Header back;
  if (!read(slot.base, writable(back))) return failed;
  return std::memcmp(&back, &h, sizeof h) == 0 ? Status{} : refuse(Code::kReadBack, slot.index);
}

[[gnu::noinline]] bool Checkpoint::payload(const StateTable& table, Slot& slot, std::span<const std::byte> state,
                                           std::span<const std::byte> note) {
  Header& h = slot.header;
  std::byte buffer[kBufferBytes];
  Writer writer(storage_, slot.base + h.table(), crc32c(bytes_of(h.generation)), buffer);
  StateRow row;
  for (uint32_t i = 0; i < table.count; ++i)
    if (table.row(table.context, i, &row) && !writer.append(bytes_of(row))) return false;
  if (!writer.pad() || !writer.append(state) || !writer.pad() || !writer.append(note) || !writer.pad()) return false;
  h.payload_crc = writer.crc();
  return true;
}

// Compares the slot's table with that of `table`. If `state` is given, reads the matching tensors into it: those that
// are learned, and with `all` the rest. Returns false if the storage could not be read.
[[gnu::noinline]] bool Checkpoint::match(const StateTable& table, const Slot& slot, bool all,
                                         std::span<std::byte> state, Found* found) const {
  constexpr uint64_t kAtOnce = 4;
  StateRow rows[kAtOnce];
  const Header& h = slot.header;
  for (uint64_t first = 0; first < h.records; first += kAtOnce) {
    const std::span<StateRow> chunk(rows, size_t(std::min(h.records - first, kAtOnce)));
    if (!read(slot.base + h.table() + first * sizeof(StateRow), std::as_writable_bytes(chunk))) return false;
    for (const StateRow& e : chunk) {
      uint32_t index = 0;
      StateRow here;
      if (e.name == 0 || !find_in_state(table, e, &index, &here)) continue;
      const uint8_t use = table.use(table.context, index);
      const bool own = (use & kOwn) != 0;
      ++(own ? found->learned : found->of_update);
      found->parameters += (use & kParameter) != 0;
      if (state.empty() || (!own && !all)) continue;
      const std::span<std::byte> to = state.subspan(size_t(here.offset), size_t(here.bytes));
      if (!read(slot.base + h.state() + e.offset, to)) return false;
    }
  }
  return true;
}

Status Checkpoint::load(const StateTable& table, std::span<std::byte> state, Report* report,
                        std::span<std::byte> note) {
  if (table.hash == nullptr) return {Code::kNotBound, Table::kFile};
  const uint64_t state_bytes = table.bytes;
  if (bytes_in(state) < state_bytes) return {Code::kMemorySize, Table::kCheckpoint, 0, state_bytes, bytes_in(state)};
  state = state.first(size_t(state_bytes));
  Slots slots;
  NACRE_TRY(find(&slots));
  const Slot& slot = slots.slot[slots.newest];
  const Header& h = slot.header;
  const Status failed = refuse(Code::kStorageFailed, slot.index);
  const uint32_t records = state_records(table);
  Report told = report_of(slot);
  told.same_model = std::memcmp(&h.model, table.hash, sizeof h.model) == 0;
  told.same_layout = h.layout == state_layout(table) && h.state_bytes == state_bytes && h.records == records;
  if (told.same_layout) {
    if (!read(slot.base + h.state(), state)) return failed;
    told.taken = records;
  } else {
    Found found;
    if (!match(table, slot, false, {}, &found)) return failed;
    if (found.parameters == 0) return refuse(Code::kCheckpointModel, slot.index);
    uint32_t of_update = 0;
    StateRow row;
    for (uint32_t i = 0; i < table.count; ++i)
      of_update += table.row(table.context, i, &row) && (table.use(table.context, i) & kOwn) == 0;
    const bool all = found.of_update >= of_update;
    Found again;
    if (!match(table, slot, all, state, &again)) return failed;
    told.taken = std::min(records, found.learned + (all ? found.of_update : 0));
    told.kept = records - told.taken;
  }
  if (!note.empty() && !read(slot.base + h.note(), note.first(std::min(note.size(), size_t{h.note_bytes}))))
    return failed;
  if (report != nullptr) *report = told;
  return {};
}

Checkpoint::Report Checkpoint::report_of(const Slot& slot) {
  return {.slot = slot.index,
          .generation = slot.header.generation,
          .pending = !slot.counts,
          .note_bytes = slot.header.note_bytes};
}

Status Checkpoint::look(Report* report) {
  Slots slots;
  NACRE_TRY(find(&slots));
  *report = report_of(slots.slot[slots.newest]);
  return {};
}

Status Checkpoint::confirm() {
  Slots slots;
  NACRE_TRY(find(&slots));
  const Slot& slot = slots.slot[slots.newest];
  const Header& h = slot.header;
  if (slot.counts) return {};
  if (h.program_bytes < storage_.program_bytes)
    return refuse(Code::kStorageGranule, slot.index, h.program_bytes, storage_.program_bytes);
  Mark mark = {};
  if (!read(slot.base + h.mark(), writable(mark))) return refuse(Code::kStorageFailed, slot.index);
  const auto bytes = bytes_of(mark);
  if (std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0xFF}; }))
    return refuse(Code::kConfirmTorn, slot.index);
  std::memcpy(mark.magic, kMarkMagic, sizeof mark.magic);
  mark.generation = h.generation;
  mark.header_crc = h.crc;
  mark.crc = crc32c(bytes_of(mark).first(12));
  if (!put(slot.base + h.mark(), bytes_of(mark))) return refuse(Code::kStorageFailed, slot.index);
  return this->slot(slot.index).counts ? Status{} : refuse(Code::kReadBack, slot.index);
}

Status Checkpoint::revert() {
  Slots slots;
  NACRE_TRY(find(&slots));
  const Slot& slot = slots.slot[slots.newest];
  if (slot.counts && !slots.slot[1 - slots.newest].valid) return refuse(Code::kNoCheckpoint, 1 - slot.index);
  if (!storage_.erase(storage_.context, slot.base) || !flush()) return refuse(Code::kStorageFailed, slot.index);
  return this->slot(slot.index).valid ? refuse(Code::kReadBack, slot.index) : Status{};
}

}  // namespace nacre
