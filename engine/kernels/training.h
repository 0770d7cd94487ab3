// Declares the reference kernels of training: gradients, losses, optimizers, and what a step commits. They are a set
// of their own, so that a program which only infers links none of them. A program of kind `gradients` or `update`
// needs both sets.
#pragma once

#include "engine/kernels/reference.h"

namespace nacre::reference {

#define NACRE_ENTRY(name, ...) extern const KernelEntry name;
#include "engine/kernels/training/all.inc"
#undef NACRE_ENTRY

const KernelSet& training_kernels();
std::span<const NamedEntry> training_list();

}  // namespace nacre::reference
