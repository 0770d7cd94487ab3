// A build with sanitizers (tools/test.sh) is some ten times slower than the plain one.
#pragma once

#include <cstdlib>

namespace nacre::test {

inline bool sanitized() { return std::getenv("NACRE_SANITIZED") != nullptr; }

// Counts the generated cases to run: all n, or with sanitizers one in eight.
inline int generated(int n) { return sanitized() ? (n + 7) / 8 : n; }

}  // namespace nacre::test
