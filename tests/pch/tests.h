// Precompiled for the tests: what most of their files include and nobody changes. No file may rely on it: each includes
// what it uses.
#ifndef NACRE_PCH_TESTS  // it is compiled on its own: #pragma once would be a warning
#define NACRE_PCH_TESTS

#include <gtest/gtest.h>

#include "tools/pch/tools.h"

#endif
