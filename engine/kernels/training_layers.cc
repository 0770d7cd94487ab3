#include "engine/kernels/adapter.h"
#include "engine/kernels/training.h"
#include "engine/ops/all.h"

namespace nacre::reference {

#define NACRE_ENTRY(name, op, rounding, in_place, type, ...) \
  constexpr KernelEntry name = entry<type, &type::__VA_ARGS__>(Op::op, Rounding::rounding, in_place);
#include "engine/kernels/training_layers.inc"
#undef NACRE_ENTRY

}  // namespace nacre::reference
