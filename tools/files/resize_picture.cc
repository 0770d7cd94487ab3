#include "tools/files/resize_picture.h"

#include <algorithm>
#include <cmath>

namespace nacre::tools {
namespace {

struct Place {
  size_t lower, upper;
  float share;  // weight of `upper`
};

std::vector<Place> places(int64_t in, int64_t out) {
  const float scale = float(in) / float(out);
  std::vector<Place> made;
  for (int64_t i = 0; i < out; ++i) {
    const float at = (float(i) + 0.5f) * scale - 0.5f, floor = std::floor(at);
    made.push_back({.lower = size_t(std::max(floor, 0.0f)),
                    .upper = size_t(std::min(int64_t(std::ceil(at)), in - 1)),
                    .share = at - floor});
  }
  return made;
}

}  // namespace

std::vector<float> resize_picture(const NpyArray& picture, int64_t height, int64_t width) {
  const auto channels = size_t(picture.dims[2]), row = size_t(picture.dims[1]) * channels;
  const std::vector<Place> down = places(picture.dims[0], height), across = places(picture.dims[1], width);
  const uint8_t* const x = picture.data.data();
  std::vector<float> y;
  y.reserve(size_t(height * width) * channels);
  for (const Place& h : down)
    for (const Place& w : across)
      for (size_t c = 0; c < channels; ++c) {
        const auto along = [&](size_t line) {
          const float left = x[line * row + w.lower * channels + c], right = x[line * row + w.upper * channels + c];
          return left + (right - left) * w.share;
        };
        const float top = along(h.lower), bottom = along(h.upper);
        y.push_back(top + (bottom - top) * h.share);
      }
  return y;
}

}  // namespace nacre::tools
