// Asks the C API for all that it tells of a model: names, shapes, scales, labels, metadata, steps, sums, parameters,
// by index and by name, each to its last byte. No answer lies outside hostile bytes that open took (ASan sees reads).
#pragma once

#include <cstddef>
#include <span>

namespace nacre::test {

// `file` must start at a multiple of 16. The number of answers, 0 where it is no model. Aborts where two answers
// contradict each other.
size_t ask_c_api(std::span<const std::byte> file);

}  // namespace nacre::test
