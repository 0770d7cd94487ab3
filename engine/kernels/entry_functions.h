// Declares the functions that the reference entries and the training entries run, under the entries' names. Constant
// tables use them (run/static_program.h):
//
//   reference::functions::kDenseI8Double   the function that reference::kDenseI8Double.run points at
//   reference::ready::kDenseI8Double       the same for a call whose `prepared` points at the ready op (ready.h)
//
// A program that names a function links that function alone, not the entry's shape rule or its checks of attributes.
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
