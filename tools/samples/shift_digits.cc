// Makes the digits of another domain, for fine-tuning. Splits the images into a training and a test part and changes
// both.
//
//   shift_digits IMAGES.npy LABELS.npy TEST.npy none|inverted|rotated|noisy OUT_DIR
//
// Writes train_images.npy, train_labels.npy, test_images.npy, test_labels.npy. Pixels are uint8 0..16 in squares.
//   inverted  16 - v
//   rotated   a quarter turn to the left
//   noisy     v plus -6..6, kept within 0..16, from a fixed seed
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>
#include <set>
#include <string>

#include "tools/base/error.h"
#include "tools/base/standard_streams.h"
#include "tools/files/command_files.h"
#include "tools/files/npy.h"

namespace nacre::tools {
namespace {

constexpr uint8_t kWhite = 16;
constexpr const char* kArguments[] = {"IMAGES.npy", "LABELS.npy", "TEST.npy"};

void invert(uint8_t* image, size_t pixels) {
  for (size_t i = 0; i < pixels; ++i) image[i] = uint8_t(kWhite - image[i]);
}

// Rotates a picture: y[r][c] = x[c][side - 1 - r].
void rotate(uint8_t* image, size_t side) {
  const std::vector<uint8_t> x(image, image + side * side);
  for (size_t r = 0; r < side; ++r)
    for (size_t c = 0; c < side; ++c) image[r * side + c] = x[c * side + side - 1 - r];
}

void add_noise(uint8_t* image, size_t pixels, std::mt19937& random) {
  for (size_t i = 0; i < pixels; ++i)
    image[i] = uint8_t(std::clamp(int(image[i]) + int(random() % 13) - 6, 0, int(kWhite)));
}

NpyArray rows_of(const NpyArray& array, const std::vector<size_t>& rows) {
  const size_t bytes = array.data.size() / size_t(array.dims[0]);
  NpyArray taken = array;
  taken.dims[0] = int64_t(rows.size());
  taken.data.clear();
  for (const size_t row : rows) taken.data.append(std::span(array.data).subspan(size_t(row) * bytes, bytes));
  return taken;
}

int run(const std::vector<std::string>& a) {
  NpyArray images = read_npy(a[0]);
  const NpyArray labels = read_npy(a[1]);
  images.require_type(ElementType::kUint8);
  const size_t side = size_t(images.dims.back()), pixels = side * side;
  if (images.dims.size() < 3 || images.dims[images.dims.size() - 2] != images.dims.back())
    throw Error(kBadInput, a[0], "holds no square images");
  std::mt19937 random(1);
  for (size_t at = 0; at < images.data.size(); at += pixels) {
    if (a[3] == "inverted") invert(&images.data[at], pixels);
    else if (a[3] == "rotated") rotate(&images.data[at], side);
    else if (a[3] == "noisy") add_noise(&images.data[at], pixels, random);
    else if (a[3] != "none") throw Error(kUsage, a[3], "is none of none, inverted, rotated, noisy");
  }
  std::set<size_t> tested;
  for (const int32_t row : read_npy(a[2]).values<int32_t>()) tested.insert(size_t(row));
  std::vector<size_t> split[2];
  for (size_t row = 0; row < size_t(images.dims[0]); ++row) split[tested.contains(row)].push_back(row);
  std::vector<std::pair<std::string, NpyArray>> outputs;
  const char* const kNames[] = {"train", "test"};
  for (int part = 0; part < 2; ++part) {
    outputs.emplace_back(a[4] + "/" + kNames[part] + "_images.npy", rows_of(images, split[part]));
    outputs.emplace_back(a[4] + "/" + kNames[part] + "_labels.npy", rows_of(labels, split[part]));
  }
  CommandFiles files;
  for (int input = 0; input < 3; ++input) files.add_input(kArguments[input], a[size_t(input)]);
  for (const auto& [path, array] : outputs) files.add_output("OUT_DIR", path);
  std::filesystem::create_directories(a[4]);
  for (const auto& [path, array] : outputs) write_npy(path, array);
  return 0;
}

}  // namespace
}  // namespace nacre::tools

int main(int count, char** arguments) {
  if (!nacre::tools::open_standard_streams()) return 1;
  using namespace nacre::tools;
  if (count != 6) {
    std::fprintf(stderr, "usage: shift_digits IMAGES.npy LABELS.npy TEST.npy none|inverted|rotated|noisy OUT_DIR\n");
    return kUsage;
  }
  try {
    return run({arguments + 1, arguments + count});
  } catch (const Error& error) {
    std::fprintf(stderr, "shift_digits: %s\n", error.what());
    return error.code;
  }
}
