// The steps that a port is asked for before our own kernels, as people write them: "xnnpack=0,2-4", the steps as nacre
// inspect --steps numbers them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nacre::tools {

// By step, its place (tools/model/kernel_choice.h). Refuses another port than xnnpack, what is no list of steps, and
// steps that the program does not have. "": all at 0.
std::vector<uint8_t> parse_places(const std::string& text, size_t steps);

// Refuses the option where there is no XNNPACK.
void require_xnnpack(const std::string& option);

std::string places_text(std::span<const uint8_t> places);  // "": all at 0

}  // namespace nacre::tools
