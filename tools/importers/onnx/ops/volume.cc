// Imports Conv and pools over volumes [n, c, d, h, w] as convolutions and pools over images.
//
//   pool   over d first, as an image [d, h w] with a window (k_d, 1), then over h and w. The maximum of maxima, or the
//          mean of means, is right because every row of a window has equally many elements inside x.
//   conv   the k_d slices that an output slice reads become channels, c k_d + i, of an image: n d_out images
#include <algorithm>

#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using IntegerList = std::vector<int64_t>;

void set_list(::onnx::NodeProto& node, const char* key, const IntegerList& values) {
  ::onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(key);
  attribute.set_type(::onnx::AttributeProto::INTS);
  for (const int64_t v : values) attribute.add_ints(v);
}

// Returns the numbers of a window attribute for the axes first .. last - 1 of d, h, w.
IntegerList of_axes(const Source& source, const char* key, size_t first, size_t last, int64_t otherwise) {
  const IntegerList all = source.integers(key, IntegerList(3, otherwise));
  if (all.size() != 3) source.malformed(std::string(key) + " does not fit the rank of its input");
  return {all.begin() + ptrdiff_t(first), all.begin() + ptrdiff_t(last)};
}
IntegerList pads_of_axes(const Source& source, size_t first, size_t last) {
  const IntegerList all = source.integers("pads", IntegerList(6, 0));
  if (all.size() != 6) source.malformed("pads does not fit the rank of its input");
  IntegerList pads(all.begin() + ptrdiff_t(first), all.begin() + ptrdiff_t(last));
  pads.insert(pads.end(), all.begin() + 3 + ptrdiff_t(first), all.begin() + 3 + ptrdiff_t(last));
  return pads;
}

struct VolumeBody : Body {
  explicit VolumeBody(const Source& source) : Body(source) { opset = 19; }

  std::string integers(const IntegerList& values) {
    return take(constant_operand(make_constant("", ElementType::kInt64, {int64_t(values.size())}, values)));
  }
  std::string step(const char* op, const std::vector<std::string>& inputs) {
    const std::string y = fresh(op);
    node(op, inputs, y);
    return y;
  }
  std::string reshape(const std::string& x, const IntegerList& dims) { return step("Reshape", {x, integers(dims)}); }
};

constexpr const char* kWindowLists[] = {"kernel_shape", "strides", "dilations", "pads"};

// Adds the pool over the axes first .. last - 1 of d, h, w, as a pool over an image with the window {k_d, 1} or
// {k_h, k_w}. Returns the name of its result.
std::string pool_axes(VolumeBody& body, const Source& source, const std::string& x, size_t first, size_t last) {
  const std::string y = body.fresh("pool");
  ::onnx::NodeProto& node = body.node_like(source.proto, source.proto.op_type().c_str(), {x}, y,
                                           {std::begin(kWindowLists), std::end(kWindowLists)});
  const bool line = last - first == 1;
  for (const char* key : {"kernel_shape", "strides", "dilations"}) {
    IntegerList values = of_axes(source, key, first, last, 1);
    if (line) values.push_back(1);
    set_list(node, key, values);
  }
  IntegerList pads = pads_of_axes(source, first, last);
  if (line) pads = {pads[0], 0, pads[1], 0};
  if (source.text("auto_pad", "NOTSET") == "NOTSET") set_list(node, "pads", pads);
  return y;
}

}  // namespace

void pool_volume(Import& import, const Source& source) {
  const IntegerList d = source.operand(0)->dims;
  if (!source.has("kernel_shape")) source.malformed("has no kernel_shape");
  VolumeBody body(source);
  std::string y = body.reshape(body.take(source.operand(0)), {d[0], d[1], d[2], d[3] * d[4]});
  y = body.reshape(pool_axes(body, source, y, 0, 1), {d[0], -1, d[3], d[4]});
  y = pool_axes(body, source, y, 1, 3);
  // y is [n, c d_out, h_out, w_out]. It becomes [n, c, d_out, h_out, w_out]; h_out and w_out are read from its shape by
  // operators on constants.
  const std::string shape = body.step("Shape", {y});
  const std::string outer = body.integers({d[0], d[1], -1});
  const std::string inner = body.step("Slice", {shape, body.integers({2}), body.integers({4})});
  const std::string dims = body.fresh("dims");
  set_attribute(body.node("Concat", {outer, inner}, dims), "axis", 0);
  body.give(body.step("Reshape", {y, dims}));
  import.expand(source, body);
}

namespace {

// Returns the slices of x, which is padded along d: slice i has what tap i reads, [n, c, d_out, h, w]. Together they
// are [n, c, k_d, d_out, h w].
std::string slices(VolumeBody& body, const Source& source, const std::string& x, int64_t d_out) {
  const IntegerList d = source.operand(0)->dims, w = source.operand(1)->dims;
  const int64_t stride = of_axes(source, "strides", 0, 1, 1)[0], dilation = of_axes(source, "dilations", 0, 1, 1)[0];
  std::vector<std::string> parts;
  for (int64_t i = 0; i < w[2]; ++i) {
    const int64_t begin = i * dilation, end = begin + (d_out - 1) * stride + 1;
    const std::string part = body.step(
        "Slice", {x, body.integers({begin}), body.integers({end}), body.integers({2}), body.integers({stride})});
    parts.push_back(body.reshape(part, {d[0], d[1], 1, d_out, d[3] * d[4]}));
  }
  if (parts.size() == 1) return parts[0];
  const std::string all = body.fresh("slices");
  set_attribute(body.node("Concat", parts, all), "axis", 2);
  return all;
}

}  // namespace

void conv_volume(Import& import, const Source& source) {
  const IntegerList d = source.operand(0)->dims, w = source.operand(1)->dims;
  if (w.size() != 5) source.malformed("weights and input have other ranks");
  const IntegerList kernel(w.begin() + 2, w.end());
  if (source.integers("kernel_shape", kernel) != kernel)
    source.malformed("kernel_shape contradicts the shape of the weights");
  const int64_t stride = of_axes(source, "strides", 0, 1, 1)[0], dilation = of_axes(source, "dilations", 0, 1, 1)[0];
  constexpr int64_t kMostOfVolume = 1 << 14;
  for (const int64_t v : {stride, dilation, w[2]})
    if (v < 1 || v >= kMostOfVolume) source.malformed("its window is out of range");
  const std::string automatic = source.text("auto_pad", "NOTSET");
  IntegerList ends = automatic == "NOTSET" ? pads_of_axes(source, 0, 1) : IntegerList{0, 0};
  const int64_t span = (w[2] - 1) * dilation + 1;
  if (automatic.starts_with("SAME")) {
    const int64_t total = std::max<int64_t>(0, ((d[2] + stride - 1) / stride - 1) * stride + span - d[2]);
    ends[0] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    ends[1] = total - ends[0];
  }
  for (const int64_t pad : ends)
    if (pad < 0 || pad >= kMostOfVolume) source.malformed("a pad is out of range");
  const int64_t room = d[2] + ends[0] + ends[1] - span;
  if (room < 0) source.malformed("its window is larger than the padded input");
  const int64_t d_out = room / stride + 1;

  VolumeBody body(source);
  std::string x = body.take(source.operand(0));
  if (ends[0] + ends[1] > 0) x = body.step("Pad", {x, body.integers({0, 0, ends[0], 0, 0, 0, 0, ends[1], 0, 0})});
  std::string turned = body.fresh("turned");
  set_list(body.node("Transpose", {slices(body, source, x, d_out)}, turned), "perm", {0, 3, 1, 2, 4});
  x = body.reshape(turned, {d[0] * d_out, d[1] * w[2], d[3], d[4]});
  std::vector<std::string> inputs = {x, body.reshape(body.take(source.operand(1)), {w[0], w[1] * w[2], w[3], w[4]})};
  if (source.given(2)) inputs.push_back(body.take(source.operand(2)));
  const std::string y = body.fresh("images");
  ::onnx::NodeProto& conv =
      body.node_like(source.proto, "Conv", inputs, y, {std::begin(kWindowLists), std::end(kWindowLists)});
  set_list(conv, "strides", of_axes(source, "strides", 1, 3, 1));
  set_list(conv, "dilations", of_axes(source, "dilations", 1, 3, 1));
  if (automatic == "NOTSET") set_list(conv, "pads", pads_of_axes(source, 1, 3));
  const std::string shape = body.step("Shape", {y}), dims = body.fresh("dims"), out = body.fresh("volume");
  const std::string inner = body.step("Slice", {shape, body.integers({1}), body.integers({4})});
  set_attribute(body.node("Concat", {body.integers({d[0], d_out}), inner}, dims), "axis", 0);
  set_list(body.node("Transpose", {body.step("Reshape", {y, dims})}, out), "perm", {0, 2, 1, 3, 4});
  body.give(out);
  import.expand(source, body);
}

}  // namespace nacre::tools::onnx_import
