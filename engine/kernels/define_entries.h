// Defines NACRE_ENTRY for the .cc files that define entries, as a definition of the entry and of its functions. Also
// defines the element types (F32, ...) whose names end the entries' names. A .cc file includes this header, the ops
// (ops/all.h) and then its .inc.
//
// A port may define entries in another way: NACRE_DEFINE_ENTRIES names the header that does it. For example, with
// ports/cuda/device_entries.h the same sources, compiled for a device, define a device function for each entry.
#pragma once

#include "engine/kernels/ready.h"
#include "engine/kernels/training.h"

namespace nacre::reference {

using F32 = float;
using F16 = Float16;
using Bf16 = Bfloat16;
using F64 = double;
using I8 = int8_t;
using U8 = uint8_t;
using I16 = int16_t;
using I32 = int32_t;
using U32 = uint32_t;
using I64 = int64_t;

constexpr KernelEntry run_by(Kernel function, KernelEntry entry) {
  entry.run = function;
  return entry;
}

}  // namespace nacre::reference

#ifdef NACRE_DEFINE_ENTRIES
#include NACRE_DEFINE_ENTRIES
#else
// The code of an entry is a function with the name of the entry (entry_functions.h).
#define NACRE_ENTRY(name, op, rounding, in_place, type, rule, ...)                            \
  namespace functions {                                                                       \
  Code name(const Args& args) { return Ready<type, &type::__VA_ARGS__>::run_of_words(args); } \
  }                                                                                           \
  namespace ready {                                                                           \
  Code name(const Args& args) { return Ready<type, &type::__VA_ARGS__>::run(args); }          \
  }                                                                                           \
  constexpr KernelEntry name = ::nacre::reference::run_by(                                    \
      functions::name, entry<type, &type::__VA_ARGS__, &rule>(Op::op, Rounding::rounding, in_place));
#endif
