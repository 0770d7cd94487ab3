// Imports AffineGrid, GridSample, Col2Im, LpPool, GlobalLpPool and CenterCropPad.
//
// GridSample with a stored grid is a product with a matrix, y [n, c, out] = x [n, c, in] M, M [n, in, out]. M_ij is the
// weight of pixel i in sample j.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

constexpr int64_t kMostAxis = 1 << 28;  // largest axis

Ints spatial_of(const Ints& dims) { return {dims.begin() + 2, dims.end()}; }

// Imports AffineGrid: applies theta [n, k, k + 1] to the places of a grid of `size` in [-1, 1], in homogeneous
// coordinates of k dimensions:
//
//   y [n, places, k] = base [places, k + 1] theta^T,    base = (x, y, .., 1)
void affine_grid(Import& import, const Source& source) {
  const Ints size = source.constant_integers(1, "its size");
  const OperandPtr& theta = source.operand(0);
  const auto k = int64_t(size.size()) - 2;
  if ((k != 2 && k != 3) || theta->dims != Ints{size[0], k, k + 1}) source.malformed("its theta does not fit its size");
  const Ints spatial = spatial_of(size);
  const int64_t places = checked_elements(source.place, spatial);
  import.spend(uint64_t(places) * 16);
  const bool corners = source.integer("align_corners", 0) != 0;
  std::vector<float> base(size_t(places * (k + 1)), 1);
  for (int64_t place = 0; place < places; ++place) {
    int64_t rest = place;
    for (int64_t axis = k; axis-- > 0; rest /= spatial[size_t(axis)]) {
      const auto dim = double(spatial[size_t(axis)]), at = double(rest % spatial[size_t(axis)]);
      const double x = corners ? (dim > 1 ? 2 * at / (dim - 1) - 1 : -1) : (2 * at + 1) / dim - 1;
      base[size_t(place * (k + 1) + (k - 1 - axis))] = float(x);
    }
  }
  Formula f(import, source);
  const Term turned = f.transpose(f.input(0), {0, 2, 1});
  Ints dims = {size[0]};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  dims.push_back(k);
  f.give(f.reshape(f("MatMul", {f.numbers({1, places, k + 1}, base), turned}), dims));
  f.run();
}

// The pixels that a sample reads along one axis, and their weights.
struct Taps {
  std::array<int64_t, 4> pixel;
  std::array<double, 4> weight;
  int count;
};

class Sampler {
 public:
  explicit Sampler(const Source& source)
      : mode_(source.text("mode", "linear")), padding_(source.text("padding_mode", "zeros")),
        corners_(source.integer("align_corners", 0) != 0) {
    if (mode_ == "bilinear") mode_ = "linear";  // name until opset 19
    if (mode_ == "bicubic") mode_ = "cubic";
    if (mode_ != "linear" && mode_ != "nearest" && mode_ != "cubic") source.malformed("mode is " + mode_);
    if (padding_ != "zeros" && padding_ != "border" && padding_ != "reflection")
      source.malformed("padding_mode is " + padding_);
  }

  // Returns the taps of the grid's number g; -1 and 1 are the ends of an axis of `dim` pixels. The place in pixels is
  // x = (g + 1) / 2 (dim - 1) with align_corners, else ((g + 1) dim - 1) / 2.
  Taps taps(float g, int64_t dim) const {
    const double given = corners_ ? (double(g) + 1) / 2 * double(dim - 1) : ((double(g) + 1) * double(dim) - 1) / 2;
    const double rounded = mode_ == "nearest" ? std::nearbyint(given) : given;
    const double x =
        mode_ == "cubic" ? given : inside(rounded, dim);  // cubic bounds each pixel instead, as PyTorch does it
    const double floor = std::floor(x), t = x - floor;
    if (mode_ == "nearest") return pixels(x, {1, 0, 0, 0}, 1, dim);
    if (mode_ == "linear") return pixels(floor, {1 - t, t, 0, 0}, 2, dim);
    return pixels(floor - 1, {outer(1 + t), inner(t), inner(1 - t), outer(2 - t)}, 4, dim);
  }

 private:
  // Weights by Keys, 1981, with a = -0.75: inner for pixels at distance d < 1, outer for d in [1, 2].
  static double inner(double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; }
  static double outer(double d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; }

  double low() const { return corners_ ? 0 : -0.5; }
  double high(int64_t dim) const { return double(dim) - (corners_ ? 1 : 0.5); }

  double inside(double x, int64_t dim) const {
    if (x >= low() && x <= high(dim)) return x;
    if (padding_ == "border") return std::clamp(x, 0.0, double(dim - 1));
    return padding_ == "reflection" ? reflected(x, dim) : x;
  }

  double reflected(double x, int64_t dim) const {
    const double least = low(), most = high(dim), range = most - least;
    if (range <= 0) return 0;
    const double beyond = std::fmod(std::fabs(x < least ? least - x : x - most), 2 * range);
    if (x >= least && x <= most) return x;
    const double from = beyond < range ? beyond : 2 * range - beyond;
    return x < least ? least + from : most - from;
  }

  Taps pixels(double first, std::array<double, 4> weight, int count, int64_t dim) const {
    Taps taps{{}, weight, count};
    for (int i = 0; i < count; ++i) {
      const double at = std::clamp(first + i, -1e9, 1e9);
      const bool out = at < 0 || at > double(dim - 1);
      double pixel = at;
      if (out && padding_ == "border") pixel = std::clamp(at, 0.0, double(dim - 1));
      if (out && padding_ == "reflection") pixel = std::trunc(reflected(at, dim));
      if (out && padding_ == "zeros") taps.weight[size_t(i)] = pixel = 0;
      taps.pixel[size_t(i)] = std::clamp<int64_t>(int64_t(pixel), 0, dim - 1);
    }
    return taps;
  }

  static constexpr double kA = -0.75;
  std::string mode_, padding_;
  bool corners_;
};

// Calls `add` for each pixel of one sample, with the product of its weights along the axes. `add` fills a column of M.
void add_column(const std::vector<Taps>& axes, const Ints& spatial, const std::function<void(int64_t, double)>& add) {
  std::function<void(size_t, int64_t, double)> walk = [&](size_t axis, int64_t place, double weight) {
    if (axis == axes.size()) return add(place, weight);
    const Taps& taps = axes[axis];
    for (int i = 0; i < taps.count; ++i)
      walk(axis + 1, place * spatial[axis] + taps.pixel[size_t(i)], weight * taps.weight[size_t(i)]);
  };
  walk(0, 0, 1);
}

// Imports GridSample with a grid that is computed at run time. The weight of pixel q along an axis is a tent around the
// place p of the sample, so no node needs indices. The last axis is summed first, by a product of matrices. The other
// axes follow one by one:
//
//   linear   t_q = max(0, 1 - |p - q|)          nearest   t_q = 1 if q is p rounded, else 0
//
//   y [n, c, out] = sum_d t_d sum_h t_h sum_w t_w x_dhw,       t [n, size, out]
class Tents {
 public:
  Tents(Import& import, const Source& source) : source_(source), f_(import, source) {}

  void run() {
    const Ints &x = source_.operand(0)->dims, &grid = source_.operand(1)->dims;
    const size_t k = x.size() - 2;
    const int64_t n = x[0], out = product_of(grid, 1, grid.size() - 1);
    Term y = f_.input(0);
    for (size_t axis = k; axis-- > 0;) {
      const int64_t size = x[axis + 2], rows = product_of(x, 1, axis + 2);
      const Term tent = tent_of(int64_t(k - 1 - axis), size, n, out);
      if (axis == k - 1) {
        y = f_("MatMul", {f_.reshape(y, {n, rows, size}), tent});
      } else {
        const Term beside = f_.reshape(tent, {n, 1, size, out});
        y = f_.reduce("ReduceSum", f_("Mul", {f_.reshape(y, {n, rows, size, out}), beside}), {2}, false);
      }
    }
    Ints dims = {n, x[1]};
    dims.insert(dims.end(), grid.begin() + 1, grid.end() - 1);
    f_.give(f_.reshape(y, dims));
    f_.run();
  }

 private:
  // Returns the tents t [n, size, out] of a coordinate. p = g a + b, and inside() moves p into the image if the padding
  // mode requires it.
  Term tent_of(int64_t coordinate, int64_t size, int64_t n, int64_t out) {
    const bool corners = source_.integer("align_corners", 0) != 0, nearest = source_.text("mode", "") == "nearest";
    const auto last = int64_t(source_.operand(1)->rank()) - 1;
    const Term g = f_.reshape(f_.slice(f_.input(1), last, coordinate, coordinate + 1), {n, 1, out});
    const float half = float(size - 1) / 2;
    Term p = f_("Add", {f_("Mul", {g, f_.number(corners ? half : float(size) / 2)}), f_.number(half)});
    if (nearest) p = f_("Round", {p});
    p = inside(p, size, corners);
    const Term q = f_.counted({1, size, 1});
    if (nearest) return f_.to_real(f_("Equal", {p, q}));
    return f_("Relu", {f_("Sub", {f_.number(1), f_("Abs", {f_("Sub", {p, q})})})});
  }

  // Moves p into the image, except in mode zeros. Mode reflection takes low + r - |(|p - low| mod 2 r) - r|, with r =
  // high - low the length of the axis, and then clamps to the pixels as mode border does.
  Term inside(Term p, int64_t size, bool corners) {
    const std::string padding = source_.text("padding_mode", "zeros");
    const float low = corners ? 0.0f : -0.5f, range = float(size) - (corners ? 1.0f : 0.0f);
    if (padding == "zeros") return p;
    if (padding == "reflection" && range > 0) {
      const Term beyond = f_("Abs", {f_("Sub", {p, f_.number(low)})});
      const Term rest = f_("Mod", {beyond, f_.number(2 * range)}, {{"fmod", int64_t{1}}});
      p = f_("Sub", {f_.number(low + range), f_("Abs", {f_("Sub", {rest, f_.number(range)})})});
    }
    return f_("Clip", {p, f_.number(0), f_.number(float(size - 1))});
  }

  const Source& source_;
  Formula f_;
};

void grid_sample_at_run_time(Import& import, const Source& source) {
  const Ints &x = source.operand(0)->dims, &grid = source.operand(1)->dims;
  const Sampler sampler(source);  // its constructor refuses unknown modes
  const std::string mode = source.text("mode", "linear");
  if (mode == "cubic" || mode == "bicubic")
    source.refuse("its grid is computed at run time: mode linear and nearest are supported", "or store the grid");
  const bool fits = x.size() >= 3 && x.size() <= 5 && grid.size() == x.size();
  if (!fits || grid[0] != x[0] || grid.back() + 2 != int64_t(x.size()))
    source.malformed("its grid does not fit its input");
  Tents(import, source).run();
}

// Samples x [n, c, ..] at a grid [n, .., k]. The last axis of the grid has the coordinates x, y, .. in this order.
void grid_sample(Import& import, const Source& source) {
  if (!source.operand(1)->constant) return grid_sample_at_run_time(import, source);
  const OperandPtr& x = source.operand(0);
  const Value& given = source.constant(1, "its grid");
  const int k = x->rank() - 2;
  if (k < 1 || k > 3 || int(given.dims.size()) != x->rank() || given.dims[0] != x->dims[0] || given.dims.back() != k)
    source.malformed("its grid does not fit its input");
  const Sampler sampler(source);
  Formula f(import, source);
  const Term image = f.input(0);
  const Ints spatial = spatial_of(x->dims);
  const int64_t in = product_of(spatial, 0, spatial.size()), out = product_of(given.dims, 1, given.dims.size() - 1);
  import.spend(uint64_t(checked_elements(source.place, {x->dims[0], in, out})) * 8);
  const std::vector<float> grid = reals(given);
  std::vector<float> matrix(size_t(x->dims[0] * in * out), 0);
  for (int64_t sample = 0; sample < x->dims[0] * out; ++sample) {
    std::vector<Taps> axes;
    for (int axis = 0; axis < k; ++axis) {
      const float g = grid[size_t(sample * k + (k - 1 - axis))];
      if (!std::isfinite(g)) source.malformed("its grid has a number that is not finite");
      axes.push_back(sampler.taps(g, spatial[size_t(axis)]));
    }
    const int64_t n = sample / out, column = sample % out;
    add_column(axes, spatial,
               [&](int64_t pixel, double weight) { matrix[size_t((n * in + pixel) * out + column)] += float(weight); });
  }
  import.log().add("its stored grid is a matrix of " + std::to_string(in) + " x " + std::to_string(out));
  const Term rows = f.reshape(image, {x->dims[0], x->dims[1], in});
  Ints dims = {x->dims[0], x->dims[1]};
  dims.insert(dims.end(), given.dims.begin() + 1, given.dims.end() - 1);
  f.give(f.reshape(f("MatMul", {rows, f.numbers({x->dims[0], in, out}, matrix)}), dims));
  f.run();
}

// Col2Im adds up windows x [n, c k, windows], of k elements each, at their places in an image [n, c, ..]. It is a
// product with a matrix too: its number is 1 if element e of window w stands on pixel p, else 0.
class Windows {
 public:
  Windows(const Source& source, Ints image, Ints block)
      : image_(std::move(image)), block_(std::move(block)), rank_(image_.size()) {
    strides_ = source.integers("strides", Ints(rank_, 1));
    dilations_ = source.integers("dilations", Ints(rank_, 1));
    pads_ = source.integers("pads", Ints(2 * rank_, 0));
    if (block_.size() != rank_ || strides_.size() != rank_ || dilations_.size() != rank_ || pads_.size() != 2 * rank_)
      source.malformed("its attributes do not fit its image");
    for (size_t i = 0; i < rank_; ++i) {
      for (const int64_t size : {image_[i], block_[i], strides_[i], dilations_[i]})
        if (size < 1 || size > kMostAxis) source.malformed("a size is below 1 or above 2^28");
      for (const int64_t pad : {pads_[i], pads_[rank_ + i]})
        if (pad < 0 || pad > kMostAxis) source.malformed("a pad is out of range");
      counts_.push_back((image_[i] + pads_[i] + pads_[rank_ + i] - dilations_[i] * (block_[i] - 1) - 1) / strides_[i] +
                        1);
    }
  }

  const Ints& counts() const { return counts_; }

  // Returns the pixel of element e of window w, or -1 if it is outside of the image.
  int64_t pixel(int64_t e, int64_t w) const {
    int64_t place = 0, stride = 1;
    for (size_t i = rank_; i-- > 0; e /= block_[i], w /= counts_[i]) {
      const int64_t at = w % counts_[i] * strides_[i] + e % block_[i] * dilations_[i] - pads_[i];
      if (at < 0 || at >= image_[i]) return -1;
      place += at * stride;
      stride *= image_[i];
    }
    return place;
  }

 private:
  Ints image_, block_, strides_, dilations_, pads_, counts_;
  size_t rank_;
};

void columns_to_image(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const Ints image = source.constant_integers(1, "its image shape"),
             block = source.constant_integers(2, "its block shape");
  if (x->rank() != 3) source.malformed("its input does not have three axes");
  const Windows windows(source, image, block);
  const int64_t elements = checked_elements(source.place, block), pixels = checked_elements(source.place, image);
  const int64_t count = x->dims[2];
  if (elements < 1 || x->dims[1] % elements != 0 || count != product_of(windows.counts(), 0, image.size()))
    source.malformed("its input does not fit its image");
  import.spend(uint64_t(checked_elements(source.place, {elements * count, pixels})) * 4);
  std::vector<float> matrix(size_t(elements * count * pixels), 0);
  for (int64_t e = 0; e < elements; ++e)
    for (int64_t w = 0; w < count; ++w)
      if (const int64_t pixel = windows.pixel(e, w); pixel >= 0) matrix[size_t((e * count + w) * pixels + pixel)] = 1;
  Formula f(import, source);
  const int64_t channels = x->dims[1] / elements;
  const Term rows = f.reshape(f.input(0), {x->dims[0], channels, elements * count});
  Ints dims = {x->dims[0], channels};
  dims.insert(dims.end(), image.begin(), image.end());
  f.give(f.reshape(f("MatMul", {rows, f.numbers({elements * count, pixels}, matrix)}), dims));
  f.run();
}

// Imports LpPool: y = (sum over the window of |x|^p)^(1 / p). The sum is an average pool of |x|^p, with zeros beyond
// the edge, times the window's size.
void lp_pool(Import& import, const Source& source) {
  const Ints kernel = source.integers("kernel_shape");
  const float p = float(source.integer("p", 2));
  if (kernel.empty() || p < 1) source.malformed("has no kernel_shape, or its p is below 1");
  checked_elements(source.place, kernel);
  if (source.integer("ceil_mode", 0) != 0) source.refuse("ceil_mode is set", "export with windows that fit");
  Formula f(import, source);
  const Term size = f("Abs", {f.input(0)});
  Formula::Attributes attributes = {{"kernel_shape", kernel}, {"count_include_pad", int64_t{1}}};
  for (const char* key : {"pads", "strides", "dilations"})
    if (source.has(key)) attributes.push_back({key, source.integers(key)});
  if (source.has("auto_pad")) attributes.push_back({"auto_pad", source.text("auto_pad", "")});
  const Term means = f("AveragePool", {f("Pow", {size, f.number(p)})}, attributes);
  const Term sums = f("Mul", {means, f.number(float(product_of(kernel, 0, kernel.size())))});
  f.give(f("Pow", {sums, f.number(1 / p)}));
  f.run();
}

void global_lp_pool(Import& import, const Source& source) {
  const float p = float(source.integer("p", 2));
  Formula f(import, source);
  Ints axes;
  for (int axis = 2; axis < source.operand(0)->rank(); ++axis) axes.push_back(axis);
  if (axes.empty() || p < 1) source.malformed("its input has no spatial axes, or its p is below 1");
  const Term sums = f.reduce("ReduceSum", f("Pow", {f("Abs", {f.input(0)}), f.number(p)}), axes);
  f.give(f("Pow", {sums, f.number(1 / p)}));
  f.run();
}

// Imports CenterCropPad: takes the middle of each axis that is too long, and adds zeros around each axis that is too
// short. The larger half of an odd difference is at the end.
void center_crop_pad(Import& import, const Source& source) {
  const Ints shape = source.constant_integers(1, "its shape");
  const OperandPtr& x = source.operand(0);
  Ints axes;
  for (int axis = 0; axis < x->rank(); ++axis) axes.push_back(axis);
  axes = source.integers("axes", axes);
  if (axes.size() != shape.size()) source.malformed("its shape does not fit its axes");
  Formula f(import, source);
  Term y = f.input(0);
  Ints before(size_t(x->rank()), 0), after(size_t(x->rank()), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = size_t(source.axis(axes[i], x->rank()));
    if (shape[i] < 1) source.refuse("gives a tensor without elements");
    if (shape[i] > kMostAxis) source.malformed("gives an axis of more than 2^28 elements");
    const int64_t dim = x->dims[axis], missing = shape[i] - dim;
    if (missing < 0) y = f.slice(y, int64_t(axis), -missing / 2, -missing / 2 + shape[i]);
    before[axis] = std::max<int64_t>(missing, 0) / 2;
    after[axis] = std::max<int64_t>(missing, 0) - before[axis];
  }
  before.insert(before.end(), after.begin(), after.end());
  const bool pads = std::any_of(before.begin(), before.end(), [](int64_t pad) { return pad != 0; });
  f.give(pads ? f("Pad", {y, f.list(before)}) : y);
  f.run();
}

constexpr OperatorImporter kSampleImporters[] = {
    {"AffineGrid", affine_grid}, {"GridSample", grid_sample},      {"Col2Im", columns_to_image},
    {"LpPool", lp_pool},         {"GlobalLpPool", global_lp_pool}, {"CenterCropPad", center_crop_pad},
};

}  // namespace

std::span<const OperatorImporter> sample_importers() { return kSampleImporters; }

}  // namespace nacre::tools::onnx_import
