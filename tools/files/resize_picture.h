// Resizes pictures as tf.image.resize(x, [height, width]) does: bilinear, pixel centres at halves, no antialiasing.
// An axis of `in` numbers becomes an axis of `out` numbers, all in float32:
//
//   s_i = (i + 1/2) in / out - 1/2,   l = max(floor(s_i), 0),   u = min(ceil(s_i), in - 1),   t = s_i - floor(s_i)
//   y_i = x_l + t (x_u - x_l)
//
// The width is resized first, then the height.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/files/npy.h"

namespace nacre::tools {

// Resizes `picture`, uint8 [height, width, channels]. Returns [height, width, channels] of the new size, within [0,
// 255].
std::vector<float> resize_picture(const NpyArray& picture, int64_t height, int64_t width);

}  // namespace nacre::tools
