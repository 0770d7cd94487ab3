// Reads --place, which names the steps for which a port (kernels of another library) is asked before our own kernels:
// "xnnpack=0,2-4". Steps are numbered as in nacre inspect --steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nacre::tools {

// Returns the place of each step: 0 for our own kernels, kXnnpackPlace for XNNPACK (tools/model/kernel_choice.h).
// Refuses another port than xnnpack, a malformed list, and steps that the program does not have. "": all are 0.
std::vector<uint8_t> parse_places(const std::string& text, size_t steps);

// Throws Error, about `option`, if XNNPACK is not built in or does not run on this processor.
void require_xnnpack(const std::string& option);

std::string places_text(std::span<const uint8_t> places);  // "" if all are 0

}  // namespace nacre::tools
