// Sets sizes of input axes that the file leaves open. --shape NAME=1x3x224x224 gives all sizes of the input NAME.
// --shape NAME=128 gives the size of every open axis with the symbol NAME.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nacre::tools {

struct OpenShape {
  struct Axis {
    int64_t size = -1;   // -1 if it is open
    std::string symbol;  // name of an open axis; "" if it has none
  };
  std::string name;                       // name of the input
  std::optional<std::vector<Axis>> axes;  // nullopt if the file gives no shape
};

// Sets the sizes of `given` in `inputs`. Throws Error{kUsage} if a text is not NAME=SIZES, if no input and no symbol
// has the name, or if sizes contradict the file or each other.
void fix_open_axes(std::vector<OpenShape>& inputs, const std::vector<std::string>& given, const std::string& file);

// Returns the inputs as text: "x [batch, 3, ?], ids [batch, seq]".
std::string text_of(const std::vector<OpenShape>& inputs);

}  // namespace nacre::tools
