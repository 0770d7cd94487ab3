// Windows over images, for convolutions and pools. Private to tools/importers/keras.
#pragma once

#include <string>
#include <vector>

#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {

inline constexpr int64_t kMostWindow = 1 << 14;  // largest size of a window: the engine's limit

struct WindowSizes {
  std::vector<int64_t> kernel, stride, dilation;  // one per spatial axis
  std::string padding;                            // "valid", "same" or "causal"
};
struct Pads {
  int64_t before = 0, after = 0;
};

WindowSizes sizes_of(const Call& call, size_t spatial, const std::vector<int64_t>& kernel);
Pads pads_of(const Call& call, int64_t in, const WindowSizes& sizes, size_t axis);
void check_window(const Call& call, const WindowSizes& sizes);
ValueId as_image(const Call& call, ValueId x, int spatial);  // [batch, time, c] -> [batch, 1, time, c]
ValueId from_image(const Call& call, ValueId y, int spatial);
// Sets stride, dilation and padding of a node over two axes. A single axis is the width.
void set_window(const Call& call, Node& node, const std::vector<int64_t>& image, const WindowSizes& sizes);

// Names a convolution's kernel, a variable [spatial.., in / groups, out], for x [batch, spatial.., in].
struct StoredKernel {
  size_t variable = 0;
  const char* label = "kernel";
};
ValueId convolved(const Call& call, ValueId x, StoredKernel kernel, ValueId bias, const WindowSizes& sizes);
// Convolutions over three axes (volume.cc), and over images with weights in the graph's layout.
ValueId convolved_volume(const Call& call, ValueId x, StoredKernel kernel, ValueId bias, const WindowSizes& sizes);
ValueId convolved_image(const Call& call, ValueId image, ValueId w, ValueId bias, const WindowSizes& sizes);

// image.cc: resizes x [n, h, w, c] like keras.ops.image.resize with half pixels.
ValueId resized(const Call& call, ValueId x, int64_t height, int64_t width, const std::string& method, bool antialias);

}  // namespace nacre::tools::keras
