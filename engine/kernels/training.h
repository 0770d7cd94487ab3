// Declares the reference kernels of training: gradients, losses, quantizers, updates, and forward steps that only
// training runs. They are a set of their own, so that a binary which only infers links none of them. A program of kind
// `gradients` or `update` also uses kernels of reference.h.
#pragma once

#include "engine/kernels/reference.h"

namespace nacre::reference {

#define NACRE_ENTRY(name, ...) extern const KernelEntry name;
#include "engine/kernels/training/all.inc"
#undef NACRE_ENTRY

// Return constant, static tables.
const KernelSet& training_kernels();
std::span<const NamedEntry> training_list();  // in the order of training_kernels().entries

}  // namespace nacre::reference
