// Random steps of every entry of the reference, for the claims about the CUDA port.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels/reference.h"
#include "tests/one_step.h"
#include "tests/random.h"

namespace nacre::test {

struct Step {
  std::vector<uint32_t> words;
  std::vector<Array> inputs;
};

// Returns all entries, also those of training, in the order in which ports list them.
std::vector<reference::NamedEntry> all_entries();
bool has_steps(const KernelEntry& entry);
Step random_step(const KernelEntry& entry, std::span<const reference::NamedEntry> all, Random& random);

}  // namespace nacre::test
