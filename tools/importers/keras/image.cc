// Converts layers that resize or crop images, with tables for the op resize, and layers that only augment in training.
//
//   coordinate of output i   (i + 1/2) in / out - 1/2       nearest: floor((i + 1/2) in / out)
//   weight of neighbour k    f(|coordinate - k| / t), divided by their sum, for k inside the image. t = in / out with
//                            antialias if that is above 1, else t = 1
//   f   bilinear 1 - d for d < 1;  bicubic Keys' with a = -1/2;  lanczos n: sinc(d) sinc(d / n) for d < n
//
// These are the formulas of jax.image.resize, which keras.ops.image.resize calls with JAX as its backend.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/ops/unary.h"
#include "tools/importers/keras/window.h"
#include "tools/importers/shared/resize_tables.h"

namespace nacre::tools::keras {
namespace {

double sinc(double x) { return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); }

double bilinear(double d) { return std::max(0.0, 1 - d); }
double bicubic(double d) {
  if (d <= 1) return (1.5 * d - 2.5) * d * d + 1;
  return d < 2 ? ((-0.5 * d + 2.5) * d - 4) * d + 2 : 0;
}
template <int kLobes>
double lanczos(double d) {
  return d < kLobes ? sinc(d) * sinc(d / kLobes) : 0;
}

struct Method {
  const char* name;
  double (*weight)(double d);
  double reach;
};
constexpr Method kMethods[] = {
    {"bilinear", &bilinear, 1}, {"bicubic", &bicubic, 2}, {"lanczos3", &lanczos<3>, 3}, {"lanczos5", &lanczos<5>, 5}};

ResizeTable nearest(int64_t in, int64_t out) {
  std::vector<Taps> outputs;
  for (int64_t i = 0; i < out; ++i)
    outputs.push_back({{int64_t(std::floor((float(i) + 0.5f) * float(in) / float(out))), 1}});
  return table_of(outputs, in);
}

ResizeTable weighted(const Call& call, const Method& method, int64_t in, int64_t out, bool antialias) {
  const double scale = double(in) / double(out), t = antialias ? std::max(scale, 1.0) : 1, reach = method.reach * t;
  call.spend(int64_t(double(out) * (2 * reach + 2)));
  std::vector<Taps> outputs;
  for (int64_t i = 0; i < out; ++i) {
    const double at = (double(i) + 0.5) * scale - 0.5;
    Taps taps;
    double sum = 0;
    const auto first = std::max<int64_t>(0, int64_t(std::ceil(at - reach)));
    for (int64_t k = first; k < in && double(k) <= at + reach; ++k) {
      taps.push_back({k, method.weight(std::abs(at - double(k)) / t)});
      sum += taps.back().weight;
    }
    for (Tap& tap : taps) tap.weight /= sum;
    outputs.push_back(std::move(taps));
  }
  return table_of(outputs, in);
}

}  // namespace

ValueId resized(const Call& call, ValueId x, int64_t height, int64_t width, const std::string& method, bool antialias) {
  const std::vector<int64_t> dims = call.dims(x);
  if (dims.size() != 4) call.bad("an input of shape " + dims_text(dims));
  if (dims[1] == height && dims[2] == width) return x;
  for (const int64_t size : {height, width})
    if (size < 1 || size > kMostResized) call.bad("a size of " + std::to_string(size));
  const auto* found =
      std::find_if(std::begin(kMethods), std::end(kMethods), [&](const Method& row) { return method == row.name; });
  if (found == std::end(kMethods) && method != "nearest") call.unsupported("interpolation " + method);
  const auto table = [&](int64_t in, int64_t out) {
    if (in == out) return identity_table(in);
    return method == "nearest" ? nearest(in, out) : weighted(call, *found, in, out, antialias);
  };
  const ResizeTable rows = table(dims[1], height), columns = table(dims[2], width);
  return call.emit(resize_step(call.importer->graph(), call.step(Op::kResize, {}), x, rows, columns));
}

namespace {

// Crops x around its middle to the aspect ratio height / width.
ValueId cropped_to(const Call& call, ValueId x, int64_t height, int64_t width) {
  const std::vector<int64_t> d = call.dims(x);
  const int64_t h = std::max<int64_t>(std::min(d[1], d[2] * height / width), 1),
                w = std::max<int64_t>(std::min(d[2], d[1] * width / height), 1);
  return call.slice(call.slice(x, 1, (d[1] - h) / 2, h), 2, (d[2] - w) / 2, w);
}

// Pads x with rows or columns to the aspect ratio height / width. Like Keras, adds as many on both sides.
ValueId padded_to(const Call& call, ValueId x, int64_t height, int64_t width) {
  const std::vector<int64_t> d = call.dims(x);
  const int64_t h = (std::max(d[1], d[2] * height / width) - d[1]) / 2,
                w = h > 0 ? 0 : (std::max(d[2], d[1] * width / height) - d[2]) / 2;
  return call.pad(x, {0, h, w, 0}, {0, h, w, 0}, call.real("fill_value", 0));
}

void convert_resizing(Call& call) {
  const int64_t height = call.integer("height", 0), width = call.integer("width", 0);
  const bool reals = call.value(call.raw_input()).type == ElementType::kFloat32;
  ValueId x = call.input();
  if (call.rank(x) != 4 || height < 1 || width < 1) call.bad("an input of shape " + dims_text(call.dims(x)));
  if (call.flag("crop_to_aspect_ratio", false)) x = cropped_to(call, x, height, width);
  if (call.flag("pad_to_aspect_ratio", false)) x = padded_to(call, x, height, width);
  const std::string method = call.text("interpolation", "bilinear");
  x = resized(call, x, height, width, method, call.flag("antialias", false));
  if (!reals && method != "nearest") x = call.clamp(call.unary(Unary::kRound, x), 0, 255);  // integer images
  call.outputs = {x};
}

// Crops the middle of an image. An image that is smaller in height or width is cropped to the aspect ratio and resized.
void convert_center_crop(Call& call) {
  const int64_t height = call.integer("height", 0), width = call.integer("width", 0);
  const ValueId x = call.input();
  const std::vector<int64_t> d = call.dims(x);
  if (d.size() != 4 || height < 1 || width < 1) call.bad("an input of shape " + dims_text(d));
  if (d[1] < height || d[2] < width)
    call.outputs = {resized(call, cropped_to(call, x, height, width), height, width, "bilinear", false)};
  else call.outputs = {call.slice(call.slice(x, 1, (d[1] - height) / 2, height), 2, (d[2] - width) / 2, width)};
}

template <int kSpatial>
void convert_up_sampling(Call& call) {
  ValueId x = call.input();
  const std::vector<int64_t> size = call.integers("size", kSpatial, 2);
  if (call.rank(x) != kSpatial + 2) call.bad("an input of shape " + dims_text(call.dims(x)));
  const std::string method = call.text("interpolation", "nearest");
  for (const int64_t times : size)
    if (times < 1 || times > kMostResized) call.bad("a size that is not positive");
  if (method != "nearest" && kSpatial == 2) {
    const std::vector<int64_t> d = call.dims(x);
    call.outputs = {resized(call, x, d[1] * size[0], d[2] * size.back(), method, false)};
    return;
  }
  for (int axis = 1; axis <= kSpatial; ++axis) {  // [.., n, ..] -> [.., n, 1, ..], repeat, then join both axes
    const int64_t times = size[size_t(axis - 1)];
    std::vector<int64_t> dims = call.dims(x), split = dims;
    split.insert(split.begin() + axis + 1, 1);
    std::vector<int64_t> repeats(split.size(), 1);
    repeats[size_t(axis) + 1] = times;
    dims[size_t(axis)] *= times;
    x = call.reshape(call.repeat(call.reshape(x, split), repeats), dims);
  }
  call.outputs = {x};
}

// Augmentation works in training alone, where it is refused or left out. In inference Keras's RandomCrop resizes an
// image to its size, so a size other than the input's is refused.
void convert_augmentation(Call& call) {
  const ValueId x = call.input();
  if (call.class_name == "RandomCrop" && call.rank(x) == 4) {
    const std::vector<int64_t> d = call.dims(x);
    if (d[1] != call.integer("height", d[1]) || d[2] != call.integer("width", d[2]))
      call.unsupported("gives images of another size than its input's: resize them before");
  }
  call.outputs = {x};
}

constexpr Converter kImageRows[] = {
    {"Resizing", &convert_resizing},
    {"CenterCrop", &convert_center_crop},
    {"UpSampling1D", &convert_up_sampling<1>},
    {"UpSampling2D", &convert_up_sampling<2>},
    {"UpSampling3D", &convert_up_sampling<3>},
    {"AugMix", &convert_augmentation},
    {"CutMix", &convert_augmentation},
    {"Equalization", &convert_augmentation},
    {"MixUp", &convert_augmentation},
    {"RandAugment", &convert_augmentation},
    {"RandomBrightness", &convert_augmentation},
    {"RandomColorDegeneration", &convert_augmentation},
    {"RandomColorJitter", &convert_augmentation},
    {"RandomContrast", &convert_augmentation},
    {"RandomCrop", &convert_augmentation},
    {"RandomElasticTransform", &convert_augmentation},
    {"RandomErasing", &convert_augmentation},
    {"RandomFlip", &convert_augmentation},
    {"RandomGaussianBlur", &convert_augmentation},
    {"RandomGrayscale", &convert_augmentation},
    {"RandomHue", &convert_augmentation},
    {"RandomInvert", &convert_augmentation},
    {"RandomPerspective", &convert_augmentation},
    {"RandomPosterization", &convert_augmentation},
    {"RandomRotation", &convert_augmentation},
    {"RandomSaturation", &convert_augmentation},
    {"RandomSharpness", &convert_augmentation},
    {"RandomShear", &convert_augmentation},
    {"RandomTranslation", &convert_augmentation},
    {"RandomZoom", &convert_augmentation},
    {"Solarization", &convert_augmentation},
};

}  // namespace

std::span<const Converter> image_converters() { return kImageRows; }

}  // namespace nacre::tools::keras
