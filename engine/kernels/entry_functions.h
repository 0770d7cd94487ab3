// The functions that the reference entries run, by the entries' names, for constant tables (run/static_program.h):
//
//   reference::functions::kDenseI8Double   what reference::kDenseI8Double.run points at
//   reference::ready::kDenseI8Double       the same with its op ready in the call's `prepared` (ready.h)
//
// Who names a function links it and nothing else of its entry, neither shape rule nor attributes' checks.
#pragma once

#include "engine/kernels/families.h"
#include "engine/kernels/kernel.h"

namespace nacre::reference::functions {
#define NACRE_ENTRY(name, ...) Code name(const Args& args);
#include "engine/kernels/reference/all.inc"
#include "engine/kernels/training/all.inc"
}  // namespace nacre::reference::functions

namespace nacre::reference::ready {
#include "engine/kernels/reference/all.inc"
#include "engine/kernels/training/all.inc"
#undef NACRE_ENTRY
}  // namespace nacre::reference::ready
