// Imports RoiAlign and DeformConv, which sample images at places that are computed at run time.
//
// A sample at (p, q) lies between four pixels. With i = floor p, j = floor q, u = p - i, v = q - j it is
//
//   (1 - u) (1 - v) x_ij + (1 - u) v x_i,j+1 + u (1 - v) x_i+1,j + u v x_i+1,j+1
//
// A pixel outside of the image counts as 0. Each of the four pixels is a Gather of rows of a table [images H W,
// channels], with indices that are clamped to the image.
#include <cmath>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

constexpr int64_t kMostSize = 1 << 20;  // largest attribute

// Places along one axis. `inside` is 1 for a place that counts and 0 for one that does not. If it is empty, all
// count.
struct Places {
  Term at, inside;
};

// The two pixels beside a place along one axis, and their weights.
struct Neighbours {
  Term pixel[2], share[2];
};

class Samples {
 public:
  // Reads input 0, x [n, c, H, W]. Its channels are split into `groups`, and each group has its own places.
  Samples(Formula& f, const Ints& x, int64_t groups) : f_(f), h_(x[2]), w_(x[3]) {
    const int64_t images = x[0] * groups, channels = x[1] / groups;
    const Term turned = f_.transpose(f_.reshape(f_.input(0), {images, channels, h_ * w_}), {0, 2, 1});
    table_ = f_.reshape(turned, {images * h_ * w_, channels});
  }

  Neighbours rows(const Places& p) { return neighbours(p, h_); }
  Neighbours columns(const Places& q) { return neighbours(q, w_); }

  // Returns the four weighted pixels joined by `op`, [.., c]. `first` (int32) is the table row at which an image
  // begins.
  Term joined(const char* op, const Term& first, const Neighbours& row, const Neighbours& column) {
    Term all;
    for (int corner = 0; corner < 4; ++corner) {
      const int i = corner / 2, j = corner % 2;
      const Term line = f_("Mul", {row.pixel[i], f_.whole(ElementType::kInt32, {}, {w_})});
      const Term place = f_("Add", {first, f_("Add", {line, column.pixel[j]})});
      const Term share = f_("Unsqueeze", {f_("Mul", {row.share[i], column.share[j]}), f_.list({-1})});
      const Term part = f_("Mul", {f_("Gather", {table_, place}, {{"axis", int64_t{0}}}), share});
      all = all.empty() ? part : f_(op, {all, part});
    }
    return all;
  }

 private:
  Neighbours neighbours(const Places& p, int64_t size) {
    const Term low = f_("Floor", {p.at}), beyond = f_("Sub", {p.at, low}), last = f_.number(float(size - 1));
    Neighbours made;
    for (int i = 0; i < 2; ++i) {
      const Term at = i == 0 ? low : f_("Add", {low, f_.number(1)});
      const Term kept = f_("Clip", {at, f_.number(0), last});
      Term share = i == 0 ? f_("Sub", {f_.number(1), beyond}) : beyond;
      share = f_("Mul", {share, f_.to_real(f_("Equal", {at, kept}))});
      made.share[i] = p.inside.empty() ? share : f_("Mul", {share, p.inside});
      made.pixel[i] = f_("Cast", {kept}, {{"to", int64_t(::onnx::TensorProto::INT32)}});
    }
    return made;
  }

  Formula& f_;
  const int64_t h_, w_;
  Term table_;
};

// RoiAlign: regions [r, 4] = (x_1, y_1, x_2, y_2) of the images b_r, each divided into bins [oh, ow]. A bin is the
// mean of s x s samples, or the maximum of their weighted pixels (roialign.cc of onnxruntime).
//
//   p_k = y_1 a - o + (k + 1/2) (y_2 - y_1) a / (oh s),  k = 0 .. oh s - 1,   a = spatial_scale, o = 1/2 or 0
//
// If o = 0, (y_2 - y_1) a is at least 1. A sample up to one pixel outside of the image moves to the edge, another is 0.
class Regions {
 public:
  Regions(Import& import, const Source& source) : source_(source), f_(import, source) {
    const std::string mode = source.text("coordinate_transformation_mode", "half_pixel");
    if (mode != "half_pixel" && mode != "output_half_pixel")
      source.malformed("coordinate_transformation_mode is " + mode);
    half_ = source.opset >= 16 && mode == "half_pixel";
    samples_ = size("sampling_ratio", 0, 0);
    if (samples_ == 0)
      source.refuse("takes as many samples as its regions are large (sampling_ratio is 0)",
                    "export it with a fixed number: roi_align(.., sampling_ratio=2)");
    scale_ = source.real("spatial_scale", 1);
  }

  void run() {
    const Ints &x = source_.operand(0)->dims, &regions = source_.operand(1)->dims;
    if (x.size() != 4 || regions.size() != 2 || regions[1] != 4 || source_.operand(2)->dims != Ints{regions[0]})
      source_.malformed("its regions do not fit its input");
    const int64_t r = regions[0], oh = size("output_height", 1, 1), ow = size("output_width", 1, 1);
    checked_elements(source_.place, {r, oh * samples_, ow * samples_, x[1]});
    Samples samples(f_, x, 1);
    const Term images = f_("Cast", {f_.input(2)}, {{"to", int64_t(::onnx::TensorProto::INT32)}});
    const Term first = f_("Mul", {f_.reshape(images, {r, 1, 1}), f_.whole(ElementType::kInt32, {}, {x[2] * x[3]})});
    const Neighbours rows = samples.rows(places(1, x[2], {r, oh * samples_, 1}));
    const Neighbours columns = samples.columns(places(0, x[3], {r, 1, ow * samples_}));
    const std::string mode = source_.text("mode", "avg");
    if (mode != "avg" && mode != "max") source_.malformed("mode is " + mode);
    const Term all = samples.joined(mode == "max" ? "Max" : "Add", first, rows, columns);
    const Term bins = f_.reshape(all, {r, oh, samples_, ow, samples_, x[1]});
    const Term y = f_.reduce(mode == "max" ? "ReduceMax" : "ReduceMean", bins, {2, 4}, false);
    f_.give(f_.transpose(y, {0, 3, 1, 2}));
    f_.run();
  }

 private:
  int64_t size(const char* name, int64_t without, int64_t least) {
    const int64_t given = source_.integer(name, without);
    if (given < least || given > kMostSize) source_.malformed(std::string(name) + " is out of range");
    return given;
  }

  Term corner(int64_t i, const Ints& one) {
    const Term scaled = f_("Mul", {f_.slice(f_.input(1), 1, i, i + 1), f_.number(scale_)});
    return f_.reshape(half_ ? f_("Sub", {scaled, f_.number(0.5f)}) : scaled, one);
  }

  // Returns the places of the samples along one axis, [r, ..] = `dims`. Coordinate 0 is x, 1 is y.
  Places places(int64_t coordinate, int64_t pixels, const Ints& dims) {
    const Ints one = {dims[0], 1, 1}, row = {1, dims[1], dims[2]};
    const int64_t count = dims[1] * dims[2];
    const Term begin = corner(coordinate, one);
    Term width = f_("Sub", {corner(coordinate + 2, one), begin});
    if (!half_) width = f_("Max", {width, f_.number(1)});
    const Term part = f_.computed(row, [&](int64_t k) { return (float(k) + 0.5f) / float(count); });
    const Term p = f_("Add", {begin, f_("Mul", {width, part})});
    const Term low = f_("GreaterOrEqual", {p, f_.number(-1)});
    const Term inside = f_("And", {low, f_("LessOrEqual", {p, f_.number(float(pixels))})});
    return {f_("Clip", {p, f_.number(0), f_.number(float(pixels - 1))}), f_.to_real(inside)};
  }

  const Source& source_;
  Formula f_;
  bool half_ = false;
  int64_t samples_ = 0;
  float scale_ = 1;
};

void roi_align(Import& import, const Source& source) { Regions(import, source).run(); }

// DeformConv: a convolution whose taps k are moved by d and weighted by a mask m (X. Zhu et al., arXiv:1811.11168, eq.
// 1). It has K = kh kw taps and G groups g of channels that move together.
//
//   y_o(out) = b_o + sum_c,k w_ock m_gk(out) x_c(out stride - pad + k dilation + d_gk(out))
class Moved {
 public:
  enum Input { kX, kW, kOffset, kBias, kMask };

  Moved(Import& import, const Source& source) : source_(source), f_(import, source) {
    const Ints &x = source.operand(kX)->dims, &w = source.operand(kW)->dims, &offset = source.operand(kOffset)->dims;
    if (x.size() != 4 || w.size() != 4 || offset.size() != 4)
      source.refuse("is supported on images only: its input has not 4 axes");
    groups_ = source.integer("group", 1), moving_ = source.integer("offset_group", 1);
    taps_ = w[2] * w[3], out_ = offset[2] * offset[3];
    const bool fits = groups_ >= 1 && moving_ >= 1 && x[1] % groups_ == 0 && x[1] % moving_ == 0 &&
                      w[1] == x[1] / groups_ && w[0] % groups_ == 0 && offset[0] == x[0] &&
                      offset[1] == 2 * moving_ * taps_ && out_ > 0;
    if (!fits) source.malformed("its weights or its offsets do not fit its input");
    for (int axis = 0; axis < 2; ++axis)
      if (count(axis) != offset[size_t(axis) + 2]) source.malformed("its offsets do not fit its output");
    checked_elements(source.place, {x[0], taps_, out_, x[1]});
  }

  void run() {
    const Ints &x = source_.operand(kX)->dims, &w = source_.operand(kW)->dims, &y = source_.operand(kOffset)->dims;
    const int64_t n = x[0], terms = w[1] * taps_;
    Samples samples(f_, x, moving_);
    const Term moves = f_.reshape(f_.input(kOffset), {n, moving_, taps_, 2, out_});
    const Term columns = sampled(samples, moves);  // [n, out, channels x taps]
    Term weights = f_.transpose(f_.reshape(f_.input(kW), {groups_, w[0] / groups_, terms}), {0, 2, 1});
    Term sums;
    if (groups_ == 1) {
      sums = f_("MatMul", {columns, f_.reshape(weights, {terms, w[0]})});
    } else {
      const Term parts = f_.transpose(f_.reshape(columns, {n, out_, groups_, terms}), {0, 2, 1, 3});
      const Term each = f_("MatMul", {parts, f_.reshape(weights, {1, groups_, terms, w[0] / groups_})});
      sums = f_.reshape(f_.transpose(each, {0, 2, 1, 3}), {n, out_, w[0]});
    }
    if (source_.given(kBias)) sums = f_("Add", {sums, f_.input(kBias)});
    f_.give(f_.reshape(f_.transpose(sums, {0, 2, 1}), {n, w[0], y[2], y[3]}));
    f_.run();
  }

 private:
  int64_t of_axis(const char* name, int axis, int count, int64_t without) const {
    const Ints given = source_.integers(name, Ints(size_t(count), without));
    if (given.size() != size_t(count)) source_.malformed(std::string(name) + " does not fit its input");
    const int64_t value = given[size_t(axis)];
    if (value < without || value > kMostSize) source_.malformed(std::string(name) + " is out of range");
    return value;
  }
  int64_t stride(int axis) const { return of_axis("strides", axis, 2, 1); }
  int64_t dilation(int axis) const { return of_axis("dilations", axis, 2, 1); }
  int64_t pad(int place) const { return of_axis("pads", place, 4, 0); }
  int64_t count(int axis) const {
    const auto of = size_t(axis) + 2;
    const int64_t in = source_.operand(kX)->dims[of], kernel = source_.operand(kW)->dims[of];
    const int64_t room = in + pad(axis) + pad(axis + 2) - dilation(axis) * (kernel - 1) - 1;
    return room < 0 ? 0 : room / stride(axis) + 1;
  }

  // Returns the places along `axis` that each tap reads for each output pixel, [n, G, K, out].
  Places places(const Term& moves, int axis) {
    const int64_t n = source_.operand(kX)->dims[0], width = source_.operand(kW)->dims[3],
                  columns = source_.operand(kOffset)->dims[3], step = stride(axis), before = pad(axis),
                  apart = dilation(axis);
    const Term still = f_.computed({1, 1, taps_, out_}, [&](int64_t i) {
      const int64_t k = i / out_, place = i % out_;
      const int64_t tap = axis == 0 ? k / width : k % width, at = axis == 0 ? place / columns : place % columns;
      return float(at * step - before + tap * apart);
    });
    const Term moved = f_.reshape(f_.slice(moves, 3, axis, axis + 1), {n, moving_, taps_, out_});
    return {f_("Add", {still, moved}), ""};
  }

  Term sampled(Samples& samples, const Term& moves) {
    const Ints& x = source_.operand(kX)->dims;
    Ints first;
    for (int64_t image = 0; image < x[0] * moving_; ++image) first.push_back(image * x[2] * x[3]);
    const Term images = f_.whole(ElementType::kInt32, {x[0], moving_, 1, 1}, first);
    Term all = samples.joined("Add", images, samples.rows(places(moves, 0)), samples.columns(places(moves, 1)));
    if (source_.given(kMask)) all = f_("Mul", {all, f_.reshape(f_.input(kMask), {x[0], moving_, taps_, out_, 1})});
    return f_.reshape(f_.transpose(all, {0, 3, 1, 4, 2}), {x[0], out_, x[1] * taps_});
  }

  const Source& source_;
  Formula f_;
  int64_t groups_ = 1, moving_ = 1, taps_ = 0, out_ = 0;
};

void deform_conv(Import& import, const Source& source) { Moved(import, source).run(); }

constexpr OperatorImporter kRegionImporters[] = {{"RoiAlign", roi_align}, {"DeformConv", deform_conv}};

}  // namespace

std::span<const OperatorImporter> regions_importers() { return kRegionImporters; }

}  // namespace nacre::tools::onnx_import
