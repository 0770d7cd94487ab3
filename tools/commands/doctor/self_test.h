// Compares the fast kernels of this build with the reference's, on a network of two layers under three policies.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/kernels/kernel.h"

namespace nacre::tools {

// Runs the network with each port. Returns a line for each port and policy whose outputs differ from the reference's
// by more than rounding: "avx2 under float16: differs by 0.5 of the largest output". Takes some milliseconds.
std::vector<std::string> test_kernels(std::span<const Port* const> ports);

}  // namespace nacre::tools
