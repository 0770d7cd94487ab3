// Random steps of every entry of the reference: what the claims about the CUDA port run.
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

// All entries, of training too, in the order in which ports list them.
std::vector<reference::NamedEntry> all_entries();
bool has_steps(const KernelEntry& entry);
Step random_step(const KernelEntry& entry, std::span<const reference::NamedEntry> all, Random& random);

}  // namespace nacre::test
