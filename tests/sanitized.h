// Tells whether the tests run on a build with sanitizers (NACRE_SANITIZED, set by tools/test.sh), which is slower.
#pragma once

#include <cstdlib>

namespace nacre::test {

inline bool sanitized() { return std::getenv("NACRE_SANITIZED") != nullptr; }

// Returns how many generated cases to run: all n, or one in eight with sanitizers.
inline int generated(int n) { return sanitized() ? (n + 7) / 8 : n; }

}  // namespace nacre::test
