// Helpers of kernel forms: pieces of scratch, tables, and bounds of a clamp.
#pragma once

#include <bit>
#include <cstddef>
#include <limits>

#include "engine/kernels/kernel.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

// Cuts the scratch of one step into pieces that begin at multiples of 64 bytes from its start.
struct Pieces {
  std::byte* at;

  template <class T>
  T* take(size_t count) {
    auto* const piece = reinterpret_cast<T*>(at);
    at += (count * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
};

inline bool is_constant(const Operands& operands, int i) {
  return !operands.has(i) || operands.tensor[i].record->region == Region::kWeights;
}

// Returns the table that bind made. If the table is not constant, makes it now in scratch.
template <class Form>
std::byte* table_of(const Form& form, const Args& args, Pieces& scratch) {
  if (Form::constant(args.operands())) return static_cast<std::byte*>(args.call.prepared);
  std::byte* const table = scratch.take<std::byte>(Form::table_bytes(form));
  form.fill(args.words, args.operands(), table);
  return table;
}

// Return the bounds of a clamp, or infinities if its kind is kNone.
inline float low_of(const Clamp& clamp) {
  return clamp.kind == Clamp::kNone ? -std::numeric_limits<float>::infinity() : std::bit_cast<float>(clamp.low);
}
inline float high_of(const Clamp& clamp) {
  return clamp.kind == Clamp::kNone ? std::numeric_limits<float>::infinity() : std::bit_cast<float>(clamp.high);
}

}  // namespace nacre::inline NACRE_ISA
