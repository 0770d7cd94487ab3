// What the C API tells of a model, asked for to its last byte: names, shapes, scales, labels, metadata, steps, sums and
// parameters, by index and by name. Of hostile bytes that open took, nothing lies outside of them (ASan sees reads).
#pragma once

#include <cstddef>
#include <span>

namespace nacre::test {

// `file` must start at a multiple of 16. The number of answers, 0 where it is no model. Aborts where two answers
// contradict each other.
size_t ask_c_api(std::span<const std::byte> file);

}  // namespace nacre::test
