// Axes of inputs that a file gives no size, and the sizes that the user gives them: --shape NAME=1x3x224x224 of a whole
// input, --shape NAME=128 of every axis of that symbol.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nacre::tools {

struct OpenShape {
  struct Axis {
    int64_t size = -1;   // -1: open
    std::string symbol;  // of an open one; "": it has no name
  };
  std::string name;                       // of the input
  std::optional<std::vector<Axis>> axes;  // nothing: the file gives no shape
};

// Throws Error{kUsage} for a text that is no NAME=SIZES, a name that `inputs` have not, and sizes that contradict the
// file or each other.
void fix_open_axes(std::vector<OpenShape>& inputs, const std::vector<std::string>& given, const std::string& file);

// "x [batch, 3, ?], ids [batch, seq]"
std::string text_of(const std::vector<OpenShape>& inputs);

}  // namespace nacre::tools
