// Flash: a simulated NOR flash that can lose its power inside any operation.
//
//   program  clears bits, granule by granule; a granule once only between two erases (else: a violation)
//   erase    sets a sector to 0xFF
//   power    after `budget` programmed bytes or erases the next one is torn, and nothing works until restore():
//            a torn granule has any of its new bits, or whole bytes of it;
//            a torn sector holds old bytes, erased ones,
//            both in halves, or bits of any kind
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "engine/train/checkpoint.h"

namespace nacre::test {

class Flash {
 public:
  Flash(uint32_t program_bytes, uint32_t erase_bytes, uint64_t bytes)
      : program_bytes_(program_bytes), erase_bytes_(erase_bytes), bytes_(bytes, 0xFF), used_(bytes / program_bytes, 0) {
  }

  static constexpr uint64_t kForever = ~uint64_t{0};

  // Cuts the power after this much more work.
  void cut_after(uint64_t budget, uint64_t seed) { budget_ = budget, random_ = seed * 2 + 1, header_begun_ = false; }
  void restore() { budget_ = kForever, off_ = false; }
  bool off() const { return off_; }
  // Returns whether a program at the start of a slot, the last step of a save, began after cut_after.
  bool header_begun() const { return header_begun_; }
  uint64_t violations() const { return violations_; }

  std::span<uint8_t> bytes() { return bytes_; }
  Storage storage() {
    return {.context = this,
            .program_bytes = program_bytes_,
            .erase_bytes = erase_bytes_,
            .bytes = bytes_.size(),
            .read = [](void* f, uint64_t at, std::span<std::byte> to) { return of(f).read(at, to); },
            .program = [](void* f, uint64_t at, std::span<const std::byte> from) { return of(f).program(at, from); },
            .erase = [](void* f, uint64_t at) { return of(f).erase(at); }};
  }

  bool read(uint64_t at, std::span<std::byte> to) {
    if (off_) return false;
    if (at > bytes_.size() || to.size() > bytes_.size() - at) return violate();
    if (!to.empty()) std::memcpy(to.data(), bytes_.data() + at, to.size());
    return true;
  }

  bool program(uint64_t at, std::span<const std::byte> from) {
    if (off_) return false;
    if ((at | from.size()) % program_bytes_ != 0 || at > bytes_.size() || from.size() > bytes_.size() - at)
      return violate();
    header_begun_ |= at == 0 || at == slot_bytes();
    for (size_t i = 0; i < from.size(); i += program_bytes_) {
      uint8_t& used = used_[(at + i) / program_bytes_];
      if (used != 0) return violate();
      used = 1;
      if (!granule(bytes_.data() + at + i, reinterpret_cast<const uint8_t*>(from.data()) + i)) return false;
    }
    return true;
  }

  bool erase(uint64_t at) {
    if (off_) return false;
    if (at % erase_bytes_ != 0 || at >= bytes_.size()) return violate();
    uint8_t* const sector = bytes_.data() + at;
    uint8_t* const used = used_.data() + at / program_bytes_;
    off_ = budget_ == 0;
    if (!off_) {
      budget_ -= budget_ != kForever;
      std::memset(sector, 0xFF, erase_bytes_);
      std::memset(used, 0, erase_bytes_ / program_bytes_);
      return true;
    }
    std::memset(used, 1, erase_bytes_ / program_bytes_);  // not programmable before a whole erase
    const uint32_t kind = uint32_t(next() % 6), split = uint32_t(next() % (erase_bytes_ + 1));
    for (uint32_t i = 0; i < erase_bytes_; ++i) {
      if (kind == 1 || (kind == 2 && i < split) || (kind == 3 && i >= split)) sector[i] = 0xFF;
      if (kind == 4) sector[i] = uint8_t(sector[i] | next());  // some bits are erased
      if (kind == 5) sector[i] = uint8_t(next());
    }
    return false;
  }

  uint64_t slot_bytes() const { return bytes_.size() / 2 / erase_bytes_ * erase_bytes_; }

 private:
  static Flash& of(void* context) { return *static_cast<Flash*>(context); }

  bool violate() {
    ++violations_;
    return false;
  }

  uint64_t next() {  // xorshift64* (Vigna 2016)
    random_ ^= random_ >> 12, random_ ^= random_ << 25, random_ ^= random_ >> 27;
    return random_ * 2685821657736338717u >> 11;
  }

  bool granule(uint8_t* to, const uint8_t* from) {
    off_ = budget_ < program_bytes_;
    if (!off_) {
      if (budget_ != kForever) budget_ -= program_bytes_;
      for (uint32_t i = 0; i < program_bytes_; ++i) to[i] &= from[i];
      return true;
    }
    const bool bytewise = next() % 2 == 0;
    for (uint32_t i = 0; i < program_bytes_; ++i) {
      const uint8_t any = bytewise ? uint8_t(i < budget_ ? 0xFF : 0) : uint8_t(next());
      const uint8_t torn = bytewise && i == budget_ ? uint8_t(next()) : any;
      to[i] &= uint8_t(from[i] | ~torn);
    }
    return false;
  }

  uint32_t program_bytes_, erase_bytes_;
  std::vector<uint8_t> bytes_, used_;
  uint64_t budget_ = kForever, random_ = 1, violations_ = 0;
  bool off_ = false, header_begun_ = false;
};

}  // namespace nacre::test
