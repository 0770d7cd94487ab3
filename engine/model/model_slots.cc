#include "engine/model/model_slots.h"

#include <algorithm>
#include <cstring>

#include "engine/base/check_storage.h"
#include "engine/base/crc32c.h"

namespace nacre {
namespace {

constexpr char kSlotMagic[4] = {'N', 'C', 'S', 'L'};
constexpr uint32_t kLeastUnit = 64;  // divides a slot's size, as a model file's segments require

}  // namespace

struct ModelSlots::Header {
  char magic[4];
  uint32_t sequence;
  uint64_t bytes;     // size of the file
  uint32_t file_crc;  // CRC-32C of the file
  uint32_t reserved[2];
  uint32_t crc;  // CRC-32C of the 28 bytes before it

  uint32_t own_crc() const { return crc32c({reinterpret_cast<const std::byte*>(this), sizeof(Header) - sizeof crc}); }
};

uint64_t ModelSlots::slot_bytes() const {
  const uint64_t unit = std::max(storage_.erase_bytes, kLeastUnit);
  return storage_.bytes / 2 & ~(unit - 1);
}

Status ModelSlots::check() const { return check_storage(storage_, Table::kFile); }

// Returns whether the slot has a valid header, whose file lies in the slot.
bool ModelSlots::header(uint32_t slot, Header* h, bool* failed) const {
  if (slot_bytes() < kHeaderBytes) return false;
  if (!storage_.read(storage_.context, base(slot), {reinterpret_cast<std::byte*>(h), sizeof *h})) {
    *failed = true;
    return false;
  }
  return std::memcmp(h->magic, kSlotMagic, sizeof kSlotMagic) == 0 && h->crc == h->own_crc() &&
         h->bytes <= slot_bytes() - kHeaderBytes;
}

bool ModelSlots::crc_at(uint64_t at, uint64_t bytes, uint32_t* crc) const {
  std::byte buffer[kHeaderBytes];
  *crc = 0;
  while (bytes != 0) {
    const std::span<std::byte> part(buffer, size_t(std::min<uint64_t>(bytes, sizeof buffer)));
    if (!storage_.read(storage_.context, at, part)) return false;
    *crc = crc32c(part, *crc);
    at += part.size(), bytes -= part.size();
  }
  return true;
}

Status ModelSlots::find(Found* found, const Found* other) const {
  *found = {};
  if (const Status status = check(); !status.ok()) return status;
  bool failed = false;
  for (uint32_t slot = 0; slot < 2; ++slot) {
    Header h;
    if ((other != nullptr && other->slot == slot) || !header(slot, &h, &failed)) continue;
    if (found->slot != kNoSlot && int32_t(h.sequence - found->sequence) <= 0) continue;
    uint32_t crc = 0;
    const bool read = crc_at(base(slot) + kHeaderBytes, h.bytes, &crc);
    failed |= !read;
    if (read && crc == h.file_crc) *found = {slot, h.sequence, base(slot) + kHeaderBytes, h.bytes};
  }
  if (found->slot != kNoSlot) return {};
  return refuse(failed ? Code::kStorageFailed : Code::kNoCheckpoint, kNoSlot);
}

Status ModelSlots::begin(uint32_t keep, uint64_t bytes) {
  state_ = State::kIdle;
  if (const Status status = check(); !status.ok()) return status;
  const uint64_t room = slot_bytes() < kHeaderBytes ? 0 : slot_bytes() - kHeaderBytes;
  slot_ = keep == 0 ? 1 : 0;
  if (bytes > room) return refuse(Code::kStorageSize, slot_, bytes, room);
  sequence_ = 0;
  bool any = false, failed = false;
  for (uint32_t slot = 0; slot < 2; ++slot) {
    Header h;
    if (!header(slot, &h, &failed)) continue;
    if (!any || int32_t(h.sequence - sequence_) > 0) sequence_ = h.sequence;
    any = true;
  }
  sequence_ += any ? 1 : 0;
  // Erases the header's sector first. After that, the bytes after the header are not a file any more.
  for (uint64_t at = 0; at < kHeaderBytes + bytes; at += storage_.erase_bytes)
    if (!storage_.erase(storage_.context, base(slot_) + at)) return refuse(Code::kStorageFailed, slot_);
  crc_ = fill_ = 0;
  bytes_ = bytes, written_ = 0;
  state_ = State::kWriting;
  return {};
}

// Programs the pending bytes, padded with 0xFF to a whole granule. Erased flash already holds 0xFF there.
bool ModelSlots::program_pending() {
  if (fill_ == 0) return true;
  const uint32_t end = (fill_ + storage_.program_bytes - 1) & ~(storage_.program_bytes - 1);
  std::memset(pending_ + fill_, 0xFF, end - fill_);
  const uint64_t at = offset() + written_ - fill_;
  fill_ = 0;
  return storage_.program(storage_.context, at, {pending_, end});
}

Status ModelSlots::write(std::span<const std::byte> part) {
  if (state_ != State::kWriting) return refuse(Code::kNotBound, slot_);
  if (part.size() > bytes_ - written_) return refuse(Code::kRange, slot_, bytes_, written_ + part.size());
  crc_ = crc32c(part, crc_);
  while (!part.empty()) {
    const size_t count = std::min<size_t>(part.size(), sizeof pending_ - fill_);
    std::memcpy(pending_ + fill_, part.data(), count);
    fill_ += uint32_t(count), written_ += count;
    part = part.subspan(count);
    if (fill_ != sizeof pending_ || program_pending()) continue;
    state_ = State::kIdle;
    return refuse(Code::kStorageFailed, slot_);
  }
  return {};
}

Status ModelSlots::finish() {
  if (state_ != State::kWriting) return refuse(Code::kNotBound, slot_);
  if (written_ != bytes_) return refuse(Code::kLengthUnder, slot_, bytes_, written_);
  state_ = State::kIdle;
  uint32_t crc = 0;
  if (!program_pending() || !flush() || !crc_at(offset(), bytes_, &crc)) return refuse(Code::kStorageFailed, slot_);
  if (crc != crc_) return refuse(Code::kReadBack, slot_);
  Header h = {.magic = {}, .sequence = sequence_, .bytes = bytes_, .file_crc = crc_, .reserved = {}, .crc = 0};
  std::memcpy(h.magic, kSlotMagic, sizeof kSlotMagic);
  h.crc = h.own_crc();
  const uint32_t granules = (uint32_t{sizeof h} + storage_.program_bytes - 1) & ~(storage_.program_bytes - 1);
  std::memset(pending_, 0xFF, granules);
  std::memcpy(pending_, &h, sizeof h);
  if (!storage_.program(storage_.context, base(slot_), {pending_, granules}) || !flush())
    return refuse(Code::kStorageFailed, slot_);
  Header back;
  bool failed = false;
  if (!header(slot_, &back, &failed) || std::memcmp(&back, &h, sizeof h) != 0)
    return refuse(failed ? Code::kStorageFailed : Code::kReadBack, slot_);
  return {};
}

}  // namespace nacre
