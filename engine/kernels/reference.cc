#include "engine/kernels/reference.h"

#include "engine/kernels/adapter.h"
#include "engine/ops/all.h"

namespace nacre::reference {

// The method is the rest of the line: it may contain commas.
#define NACRE_ENTRY(name, op, rounding, in_place, type, ...) \
  constexpr KernelEntry name = entry<type, &type::__VA_ARGS__>(Op::op, Rounding::rounding, in_place);
#include "engine/kernels/reference.inc"

}  // namespace nacre::reference
