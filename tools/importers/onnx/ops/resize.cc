// Imports Resize and Upsample (from opset 7 on) over any axes, with tables of the op resize, which resizes one or two
// axes at a time.
//
//   scale s = out / in for given sizes, or a given scale s: out = floor(s in)
//   coordinate of output i, in float32 as onnxruntime computes it:
//     half_pixel             (i + 1/2) / s - 1/2
//     half_pixel_symmetric   half_pixel + (in / 2) (1 - out / (s in))
//     pytorch_half_pixel     half_pixel; 0 if out = 1
//     align_corners          i (in - 1) / (out - 1); 0 if out = 1
//     asymmetric             i / s; Upsample and Resize 10 have this one alone
//     tf_crop_and_resize     roi_start (in - 1) + i (roi_end - roi_start) (in - 1) / (out - 1); outside of the axis
//                            the result is extrapolation_value
//   weights of neighbour k at distance d = coordinate - k; t = 1, or t = s with antialias and s < 1:
//     linear   max(0, 1 - |t d|)
//     cubic    Keys' function of t d, with a: IEEE Trans. ASSP 29(6), 1981, eq. 4
//   antialias with s < 1 divides the weights by their sum. exclude_outside drops neighbours outside, and divides too.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/importers/onnx/import.h"
#include "tools/importers/shared/resize_tables.h"

namespace nacre::tools::onnx_import {
namespace {

struct ResizeMethod {
  std::string mode, coordinates, nearest;
  float cubic_a = -0.75f, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

struct ResizedAxis {
  int64_t in = 1, out = 1;
  float scale = 1, roi_start = 0, roi_end = 1;
  bool resized = false;  // the node changes the size, scale or region of this axis; else the axis stays as it is
};

struct AxisTable {
  ResizeTable table;
  int64_t before = 0, after = 0;  // number of outputs that read beyond each end of the axis; the table omits them
};

float coordinate(const ResizeMethod& method, const ResizedAxis& axis, int64_t i) {
  const auto at = float(i), in = float(axis.in), out = float(axis.out);
  const std::string& mode = method.coordinates;
  if (mode == "asymmetric") return at / axis.scale;
  if (mode == "align_corners") return axis.out == 1 ? 0 : at * (in - 1) / (out - 1);
  if (mode == "pytorch_half_pixel" && axis.out == 1) return 0;
  if (mode == "tf_crop_and_resize") {
    if (axis.out == 1) return 0.5f * (axis.roi_start + axis.roi_end) * (in - 1);
    return axis.roi_start * (in - 1) + at * (axis.roi_end - axis.roi_start) * (in - 1) / (out - 1);
  }
  const float centered = (at + 0.5f) / axis.scale - 0.5f;
  return mode == "half_pixel_symmetric" ? centered + in / 2 * (1 - out / (axis.scale * in)) : centered;
}

int64_t nearest_place(const ResizeMethod& method, float at) {
  if (method.nearest == "floor") return int64_t(std::floor(at));
  if (method.nearest == "ceil") return int64_t(std::ceil(at));
  return int64_t(method.nearest == "round_prefer_ceil" ? std::floor(at + 0.5f) : std::ceil(at - 0.5f));
}

double cubic_weight(double d, double a) {
  d = std::abs(d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

Taps taps_of(const ResizeMethod& method, const ResizedAxis& axis, float at) {
  if (method.mode == "nearest") return {{nearest_place(method, at), 1}};
  const bool is_cubic = method.mode == "cubic", narrows = method.antialias && axis.scale < 1;
  const double t = narrows ? double(axis.scale) : 1, reach = (is_cubic ? 2 : 1) / t;
  Taps taps;
  double sum = 0;
  for (auto k = int64_t(std::floor(at - reach)) + 1; double(k) < at + reach; ++k) {
    if (method.exclude_outside && (k < 0 || k >= axis.in)) continue;
    const double d = t * (double(at) - double(k)),
                 weight = is_cubic ? cubic_weight(d, method.cubic_a) : 1 - std::abs(d);
    taps.push_back({k, weight});
    sum += weight;
  }
  if (narrows || method.exclude_outside)
    for (Tap& tap : taps) tap.weight /= sum;
  return taps;
}

AxisTable make_axis_table(Import& import, const Source& source, const ResizeMethod& method, const ResizedAxis& axis) {
  const float narrowing = method.antialias ? std::min(axis.scale, 1.0f) : 1;
  import.spend(uint64_t(float(axis.out) * (4 / narrowing + 2)) * sizeof(Tap));
  AxisTable made;
  if (!axis.resized) {
    made.table = identity_table(axis.in);
    return made;
  }
  const bool crops = method.coordinates == "tf_crop_and_resize";
  std::vector<Taps> outputs;
  for (int64_t i = 0; i < axis.out; ++i) {
    const float at = coordinate(method, axis, i);
    if (!crops || (at >= 0 && at <= float(axis.in - 1))) outputs.push_back(taps_of(method, axis, at));
    else (outputs.empty() ? made.before : made.after) += 1;
    if (!outputs.empty() && outputs.back().empty()) source.malformed("an output has no neighbour inside its input");
  }
  if (outputs.empty()) source.refuse("its region of interest is outside of its input");
  made.table = table_of(outputs, axis.in);
  return made;
}

bool is_name_of(const std::string& text, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return text == name; });
}

ResizeMethod read_method(const Source& source) {
  const bool old = source.proto.op_type() == "Upsample" || source.opset < 11;
  ResizeMethod method;
  method.mode = source.text("mode", "nearest");
  if (method.mode == "bilinear") method.mode = "linear";  // as Upsample 1 calls it
  method.coordinates = old ? "asymmetric" : source.text("coordinate_transformation_mode", "half_pixel");
  method.nearest = old ? "floor" : source.text("nearest_mode", "round_prefer_floor");
  method.cubic_a = source.real("cubic_coeff_a", -0.75f);
  method.extrapolation = source.real("extrapolation_value", 0);
  method.exclude_outside = source.integer("exclude_outside", 0) != 0;
  method.antialias = source.integer("antialias", 0) != 0;
  if (!is_name_of(method.mode, {"nearest", "linear", "cubic"}))
    source.malformed("mode '" + method.mode + "' is unknown");
  if (!is_name_of(method.coordinates, {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                       "asymmetric", "tf_crop_and_resize"}))
    source.refuse("coordinate_transformation_mode " + method.coordinates + " is not supported");
  if (!is_name_of(method.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}))
    source.malformed("nearest_mode '" + method.nearest + "' is unknown");
  return method;
}

// Indices of the inputs, which are x, roi, scales, sizes. Before opset 11 they are x, scales.
struct Slots {
  int roi = 1, scales = 2, sizes = 3;
};

bool has_numbers(const Source& source, int slot) {
  return source.given(slot) && source.constant(slot, "its scales or sizes").elements() > 0;
}

void set_scales(const Source& source, std::vector<ResizedAxis*>& axes, const std::vector<float>& scales) {
  if (scales.size() != axes.size()) source.malformed("its scales do not fit its axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!(scales[i] > 0 && std::isfinite(scales[i]))) source.malformed("a scale is not positive");
    axes[i]->scale = scales[i];
    axes[i]->out = int64_t(std::min(std::floor(scales[i] * float(axes[i]->in)), float(kMostResized) + 1));
  }
}

// Sets scales and output sizes from the given sizes. keep_aspect_ratio_policy not_larger and not_smaller take one scale
// for all axes: the smallest or the largest that the sizes need.
void set_sizes(const Source& source, std::vector<ResizedAxis*>& axes, const std::vector<int64_t>& sizes) {
  if (sizes.size() != axes.size()) source.malformed("its sizes do not fit its axes");
  const std::string policy = source.text("keep_aspect_ratio_policy", "stretch");
  if (!is_name_of(policy, {"stretch", "not_larger", "not_smaller"}))
    source.malformed("keep_aspect_ratio_policy '" + policy + "' is unknown");
  std::vector<float> scales;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (sizes[i] < 1 || sizes[i] > kMostResized) source.malformed("a size is not in [1, 65536]");
    scales.push_back(float(sizes[i]) / float(axes[i]->in));
  }
  const auto [low, high] = std::minmax_element(scales.begin(), scales.end());
  for (size_t i = 0; i < axes.size(); ++i) {
    axes[i]->scale = policy == "stretch" ? scales[i] : policy == "not_larger" ? *low : *high;
    const float wanted = std::min(axes[i]->scale * float(axes[i]->in), float(kMostResized) + 1);
    axes[i]->out = policy == "stretch" ? sizes[i] : int64_t(std::floor(wanted + 0.5f));
  }
}

std::vector<ResizedAxis> read_axes(const Source& source, const std::vector<int64_t>& dims, const ResizeMethod& method) {
  std::vector<ResizedAxis> all;
  for (const int64_t dim : dims) all.push_back({.in = dim, .out = dim});
  std::vector<int64_t> named(dims.size());
  std::iota(named.begin(), named.end(), 0);
  std::vector<ResizedAxis*> axes;
  for (const int64_t axis : source.integers("axes", named))
    axes.push_back(&all[size_t(source.axis(axis, int(dims.size())))]);
  const bool old = source.proto.op_type() == "Upsample" || source.opset < 11;
  const Slots slots = old ? Slots{.roi = 4, .scales = 1, .sizes = 4} : Slots{};
  if (source.has("scales")) {
    const auto& floats = source.find("scales")->floats();
    set_scales(source, axes, {floats.begin(), floats.end()});
  } else if (has_numbers(source, slots.sizes)) {
    set_sizes(source, axes, source.constant_integers(slots.sizes, "its sizes"));
  } else if (has_numbers(source, slots.scales)) {
    set_scales(source, axes, reals(source.constant(slots.scales, "its scales")));
  } else {
    source.malformed("has neither scales nor sizes");
  }
  const bool crops = method.coordinates == "tf_crop_and_resize";
  if (crops) {
    const std::vector<float> roi = reals(source.constant(slots.roi, "its region of interest"));
    if (roi.size() != 2 * axes.size()) source.malformed("its region of interest does not fit its axes");
    for (size_t i = 0; i < axes.size(); ++i) {
      axes[i]->roi_start = roi[i], axes[i]->roi_end = roi[i + axes.size()];
      if (!(axes[i]->roi_start <= axes[i]->roi_end)) source.refuse("its region of interest is reversed");
    }
  }
  for (ResizedAxis* axis : axes) {
    if (axis->out < 1 || axis->out > kMostResized)
      source.refuse("gives an axis of " + std::to_string(axis->out) + " elements");
    axis->resized =
        axis->out != axis->in || axis->scale != 1 || (crops && (axis->roi_start != 0 || axis->roi_end != 1));
  }
  return all;
}

int64_t elements_between(const std::vector<int64_t>& dims, size_t first, size_t last) {
  int64_t product = 1;
  for (size_t i = first; i < last; ++i) product *= dims[i];
  return product;
}

// Resizes axis i of y, and with `both` axis i + 1 too. y is reshaped to [outer, rows, columns, rest] for the op resize.
ValueId resize_axes(Import& import, ValueId y, const std::vector<AxisTable>& tables,
                    const std::vector<ResizedAxis>& axes, size_t i, bool both) {
  std::vector<int64_t> dims = import.value(y).dims;
  const int64_t outer = i == 0 ? 1 : dims[0], between = i == 0 ? 1 : elements_between(dims, 1, i);
  const size_t end = both ? i + 2 : i + 1;
  const int64_t rest = elements_between(dims, end, dims.size());
  const std::string& name = import.output_name();
  std::vector<int64_t> view = {outer, between, dims[i], rest};
  if (both) view = {outer, dims[i], dims[i + 1], rest};
  const ValueId x = import.reshaped(y, view, name + "/map");
  const ResizeTable& rows = both ? tables[i].table : identity_table(between);
  Node node = resize_step(import.graph(), import.step(Op::kResize), x, rows, tables[both ? i + 1 : i].table);
  for (size_t axis = i; axis < end; ++axis) dims[axis] = axes[axis].out - tables[axis].before - tables[axis].after;
  return import.reshaped(import.append(std::move(node), name), dims, name + "/nd");
}

ValueId extrapolated(Import& import, ValueId y, const std::vector<AxisTable>& tables, float value) {
  Node node = import.step(Op::kPad);
  bool any = false;
  for (size_t i = 0; i < tables.size(); ++i) {
    any = any || tables[i].before + tables[i].after > 0;
    set_integer(node, "before", int(tables[i].before), int(i));
    set_integer(node, "after", int(tables[i].after), int(i));
  }
  if (!any) return y;
  set_real(node, "value", value);
  node.inputs = {y};
  return import.append(std::move(node), import.output_name());
}

void resize(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  if (std::count(x->dims.begin(), x->dims.end(), 0) > 0) source.refuse("its input is empty: it has no elements");
  const ResizeMethod method = read_method(source);
  std::vector<ResizedAxis> axes = read_axes(source, x->dims, method);
  const bool last = x->rank() > 2 && !axes[0].resized && !axes[1].resized;
  if (last) std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
  std::vector<AxisTable> tables;
  for (const ResizedAxis& axis : axes) tables.push_back(make_axis_table(import, source, method, axis));
  ValueId y = last ? import.channels_last(x) : import.plain(x);
  int64_t before = 1;  // elements between axis 0 and the next resized axis
  for (size_t i = 0; i < axes.size(); before *= i == 0 ? 1 : axes[i].out, ++i) {
    if (!axes[i].resized) continue;
    const bool both = before == 1 && i + 1 < axes.size() && axes[i + 1].resized;
    if (before > kMostResized) source.refuse("resizes the innermost of too many elements");
    y = resize_axes(import, y, tables, axes, i, both);
    if (both) before *= i == 0 ? 1 : axes[i].out, ++i;
  }
  y = extrapolated(import, y, tables, method.extrapolation);
  if (last) import.give_channels_last(0, y);
  else import.give_plain(0, y);
}

constexpr OperatorImporter kResizeImporters[] = {{"Resize", resize}, {"Upsample", resize}};

}  // namespace

std::span<const OperatorImporter> resize_importers() { return kResizeImporters; }

}  // namespace nacre::tools::onnx_import
