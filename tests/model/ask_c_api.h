// Asks the C API everything about a model: names, shapes, scales, labels, metadata, steps, sums, parameters, by index
// and by name. Reads each answer to its last byte, so that ASan sees an answer outside the file's bytes.
#pragma once

#include <cstddef>
#include <span>

namespace nacre::test {

// `file` must start at a multiple of 16. Returns the number of answers, or 0 if the file is not a model. Aborts if
// two answers contradict each other.
size_t ask_c_api(std::span<const std::byte> file);

}  // namespace nacre::test
