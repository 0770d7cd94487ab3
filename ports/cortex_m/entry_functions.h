// Declares the functions that the entries of cortex_m.h run, for constant tables (kernels/entry_functions.h).
#pragma once

#include "ports/cortex_m/addition.h"
#include "ports/cortex_m/average.h"
#include "ports/cortex_m/depthwise.h"
#include "ports/cortex_m/products.h"
#include "ports/cortex_m/real_products.h"

namespace nacre::cortex_m::functions {
#define NACRE_ENTRY(name, ...) Code name(const Args& args);
#include "ports/cortex_m/kernels.inc"
}  // namespace nacre::cortex_m::functions

namespace nacre::cortex_m::ready {
#include "ports/cortex_m/kernels.inc"
#undef NACRE_ENTRY
}  // namespace nacre::cortex_m::ready
