// For the .cc files that define entries: NACRE_ENTRY as a definition, and the element types as entries' names end in
// them. Each file includes only the ops of its .inc, so that a change of one op's header rebuilds few entries.
//
// NACRE_DEFINE_ENTRIES names a file that does it in another way: a port that compiles these sources for a device of its
// own (ports/cuda/device_entries.h) makes a function of the device of each.
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
// Its code is functions of the same name (entry_functions.h).
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
