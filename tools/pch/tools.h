// Precompiled for the tools: what most of their files include and nobody changes. No file may rely on it: each includes
// what it uses.
#ifndef NACRE_PCH_TOOLS  // it is compiled on its own: #pragma once would be a warning
#define NACRE_PCH_TOOLS

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#endif
