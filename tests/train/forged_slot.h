// A checkpoint's slot whose fields are changed and whose checksums are then corrected: no damaged disk does that, but
// an attacker can. Written from schema/FORMAT.md, "Checkpoints".
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "engine/base/crc32c.h"

namespace nacre::test {

struct SlotField {
  const char* name;
  size_t offset, bytes;  // in the header, or in a row
};
inline constexpr SlotField kHeaderFields[] = {
    {"version", 4, 2},      {"byte_order", 6, 2}, {"generation", 8, 4}, {"flags", 12, 4},      {"layout", 16, 8},
    {"state_bytes", 24, 8}, {"model", 32, 8},     {"records", 40, 4},   {"note_bytes", 44, 4}, {"program_bytes", 48, 4},
    {"payload_crc", 52, 4}, {"reserved", 56, 4},  {"crc", 60, 4}};
inline constexpr SlotField kRowFields[] = {{"name", 0, 8},      {"offset", 8, 8},   {"bytes", 16, 8},
                                           {"elements", 24, 4}, {"element", 28, 1}, {"reserved", 29, 1}};

class ForgedSlot {
 public:
  static constexpr size_t kHeader = 64, kMark = 16, kRow = 32;

  explicit ForgedSlot(std::span<const uint8_t> bytes) : bytes_(bytes.begin(), bytes.end()) {}

  uint64_t get(size_t at, size_t size) const {
    uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + at, size);
    return value;
  }
  void set(size_t at, size_t size, uint64_t value) { std::memcpy(bytes_.data() + at, &value, size); }

  uint64_t state_bytes() const { return get(24, 8); }
  uint64_t records() const { return get(40, 4); }
  size_t row(size_t index) const { return table() + kRow * index; }

  // Returns the offset of the table. Parts are whole granules if the header names a valid granule; else a granule is
  // 1 byte.
  size_t table() const { return whole(kHeader) + whole(kMark); }

  // Writes the layout hash of header and table: FNV-1a of state_bytes and all rows.
  void seal_layout() {
    uint64_t hash = 14695981039346656037u;
    const auto add = [&](size_t at, size_t count) {
      for (size_t i = at; i < at + count; ++i) hash = (hash ^ bytes_[i]) * 1099511628211u;
    };
    add(24, 8);
    if (inside(table(), kRow * records())) add(table(), size_t(kRow * records()));
    set(16, 8, hash);
  }

  // Writes the checksum of the payload that the header now describes. A part that reaches beyond the slot is read with
  // zeros there, as a file with a hole is, or ends the call if it is longer than `most_beyond`.
  void seal_payload(uint64_t most_beyond = 0) {
    uint32_t crc = crc32c(std::as_bytes(std::span(bytes_).subspan(8, 4)));
    const uint64_t parts[][2] = {{table(), kRow * records()},
                                 {whole(table() + kRow * records()), state_bytes()},
                                 {whole(whole(table() + kRow * records()) + state_bytes()), get(44, 4)}};
    for (const auto& [at, count] : parts) {
      if (inside(at, count)) {
        crc = crc32c(std::as_bytes(std::span(bytes_).subspan(size_t(at), size_t(count))), crc);
        continue;
      }
      if (count > most_beyond) return;
      std::vector<uint8_t> read(size_t(count), 0);
      for (uint64_t i = 0; i < count && at + i < bytes_.size(); ++i) read[size_t(i)] = bytes_[size_t(at + i)];
      crc = crc32c(std::as_bytes(std::span(read)), crc);
    }
    set(52, 4, crc);
  }
  void seal_header() { set(60, 4, crc32c(std::as_bytes(std::span(bytes_).first(60)))); }

  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  bool inside(uint64_t at, uint64_t count) const { return at <= bytes_.size() && count <= bytes_.size() - at; }
  uint64_t whole(uint64_t bytes) const {
    const uint64_t granule = get(48, 4);
    const bool valid = granule != 0 && granule <= 256 && (granule & (granule - 1)) == 0;
    return valid ? (bytes + granule - 1) / granule * granule : bytes;
  }

  std::vector<uint8_t> bytes_;
};

}  // namespace nacre::test
