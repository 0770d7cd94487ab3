// The model that model_image.S put into flash.
#pragma once

#include <cstddef>
#include <span>

extern "C" const std::byte nacre_model_begin[], nacre_model_end[];

namespace nacre::firmware {

inline std::span<const std::byte> model_image() { return {nacre_model_begin, nacre_model_end}; }

}  // namespace nacre::firmware
