// Windows over images, which convolutions and pools share. Private to tools/importers/keras*.cc.
#pragma once

#include <string>
#include <vector>

#include "tools/importers/keras.h"

namespace nacre::tools::keras {

inline constexpr int64_t kMostWindow = 1 << 14;  // the engine's limit

struct WindowSizes {
  std::vector<int64_t> kernel, stride, dilation;  // [2]
  std::string padding;                            // "valid", "same" or "causal"
};

void need_channels_last(const Call& call);
ValueId as_image(const Call& call, ValueId x, int spatial);  // [batch, time, c] -> [batch, 1, time, c]
ValueId from_image(const Call& call, ValueId y, int spatial);
void set_window(const Call& call, Node& node, const std::vector<int64_t>& image, const WindowSizes& sizes);

}  // namespace nacre::tools::keras
