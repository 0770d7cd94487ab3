// Structure proves that a FlatBuffer's tables, vectors and strings lie inside the buffer. It uses one table of facts
// per table type instead of generated code. It has a quarter of the code of flatbuffers::Verifier and is stricter
// (alignment of 64-bit vectors). The FlatBuffers documentation calls these formats Tables, Vectors and Strings.
//
// The work is bounded: each visited element of a vector of strings or tables costs one of `size / 4` credits. A valid
// buffer cannot exceed them: each such element takes at least 4 bytes. There is no recursion: tables nest once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "engine/base/status.h"

namespace nacre {

// The rule for the content of one slot of a vtable.
struct SlotRule {
  enum Kind : uint8_t { kInline, kVector, kString, kStrings, kTables };
  Kind kind;
  uint8_t bytes;      // size of an inline value, or of one element of a vector
  uint8_t alignment;  // alignment of that value or element
};

class Structure {
 public:
  explicit Structure(std::span<const std::byte> buffer)
      : data_(buffer.data()), size_(uint32_t(buffer.size())), credits_(uint32_t(buffer.size()) / 4) {}

  // Returns the code of the first check that failed.
  Code why() const { return why_; }

  // Returns the position of the root table.
  uint32_t root() const { return u32(0); }

  // Checks one table: its vtable, its inline values, its vectors and strings. Elements of kTables need their own
  // call.
  bool table(uint32_t at, std::span<const SlotRule> slots) {
    if (at % 4 != 0 || !inside(at, 4)) return false;
    const uint32_t vtable = at - u32(at);  // wraps for a negative offset, as FlatBuffers allows
    if (vtable % 2 != 0 || !inside(vtable, 4)) return false;
    const uint32_t vtable_bytes = u16(vtable), bytes = u16(vtable + 2);
    if (vtable_bytes < 4 || vtable_bytes % 2 != 0 || !inside(vtable, vtable_bytes) || bytes < 4 || !inside(at, bytes))
      return false;
    for (uint32_t i = 0; i < slots.size(); ++i) {
      const uint32_t offset = 4 + 2 * i < vtable_bytes ? u16(vtable + 4 + 2 * i) : 0;
      if (offset != 0 && !slot(at, bytes, offset, slots[i])) return false;
    }
    return true;
  }

  // Checks every element of the vector of tables in `slot` of the table at `at`. Both were already checked.
  bool tables(uint32_t at, uint32_t slot, std::span<const SlotRule> slots) {
    const uint32_t vtable = at - u32(at);
    const uint32_t offset = 4 + 2 * slot < u16(vtable) ? u16(vtable + 4 + 2 * slot) : 0;
    if (offset == 0) return true;
    const uint32_t vector = at + offset + u32(at + offset), count = u32(vector);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t element = vector + 4 + 4 * i;
      if (!table(follow(element), slots)) return false;
    }
    return true;
  }

 private:
  bool inside(uint32_t at, uint32_t bytes) const { return bytes <= size_ && at <= size_ - bytes; }
  uint32_t u32(uint32_t at) const { return load<uint32_t>(at); }
  uint32_t u16(uint32_t at) const { return load<uint16_t>(at); }

  // Returns where the offset at `at` leads. If it is 0 or leads out of the buffer, returns the buffer's end, where
  // nothing lies inside.
  uint32_t follow(uint32_t at) const {
    const uint32_t offset = u32(at);
    return offset != 0 && offset <= size_ - at ? at + offset : size_;
  }

  template <class T>
  T load(uint32_t at) const {
    T value;
    std::memcpy(&value, data_ + at, sizeof value);
    return value;
  }

  bool slot(uint32_t at, uint32_t table_bytes, uint32_t offset, const SlotRule& rule) {
    const bool inline_value = rule.kind == SlotRule::kInline;
    const uint32_t bytes = inline_value ? rule.bytes : 4;
    if (offset > table_bytes || bytes > table_bytes - offset) return false;
    const uint32_t field = at + offset;
    if (inline_value) return field % rule.alignment == 0;
    if (field % 4 != 0) return false;
    const uint32_t vector = follow(field);
    if (!elements(vector, rule)) return false;
    if (rule.kind == SlotRule::kString) return terminated(vector);
    if (rule.kind != SlotRule::kStrings) return true;
    for (uint32_t i = 0; i < u32(vector); ++i) {
      const uint32_t string = follow(vector + 4 + 4 * i);
      if (!elements(string, {SlotRule::kString, 1, 1}) || !terminated(string)) return false;
    }
    return true;
  }

  // Checks that the length and elements of a vector or string lie inside the buffer, aligned.
  bool elements(uint32_t vector, const SlotRule& rule) {
    if (vector % 4 != 0 || !inside(vector, 4)) return false;
    const uint32_t count = u32(vector), room = size_ - vector - 4;
    if (uint64_t{count} * rule.bytes > room) return false;
    if (count != 0 && (vector + 4) % rule.alignment != 0) return false;
    if (rule.kind != SlotRule::kStrings && rule.kind != SlotRule::kTables) return true;
    if (count > credits_) return fail(Code::kCount);
    credits_ -= count;
    return true;
  }

  bool terminated(uint32_t string) {
    const uint32_t end = string + 4 + u32(string);
    return (inside(end, 1) && data_[end] == std::byte{0}) || fail(Code::kString);
  }

  bool fail(Code why) {
    why_ = why;
    return false;
  }

  const std::byte* data_;
  uint32_t size_, credits_;
  Code why_ = Code::kFlatBuffer;
};

}  // namespace nacre
