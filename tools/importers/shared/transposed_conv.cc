#include "tools/importers/shared/transposed_conv.h"

#include <algorithm>
#include <cstring>

namespace nacre::tools {
namespace {

// Returns the index of the kernel's tap that tap j of the convolution holds for phase r, or -1 if it holds zero. Taps
// of the convolution stand in the reverse order of the kernel's.
int64_t source_tap(const TransposedAxis& axis, int64_t r, int64_t j) {
  const int64_t back = axis.taps() - 1 - j;
  if (axis.stride == 1) return back;
  const int64_t at = axis.stride * back + r;
  return at % axis.dilation == 0 && at / axis.dilation < axis.kernel ? at / axis.dilation : -1;
}

size_t element_bytes(const Value& v) { return v.data->size() / size_t(v.elements()); }

// Repeats the scales of each output channel for every phase. A quantizer with one scale stays.
void repeat_scales(Value& v, const TransposedConv& conv) {
  if (!v.quantizer || v.quantizer->scale.size() == 1) return;
  const Quantizer old = *v.quantizer;
  v.quantizer->scale.clear();
  v.quantizer->zero.clear();
  v.quantizer->axis = 0;
  for (int64_t g = 0; g < conv.groups; ++g)
    for (int64_t phase = 0; phase < conv.phases(); ++phase)
      for (int64_t k = 0; k < conv.k; ++k) {
        const size_t at = size_t(g * conv.k + k) % old.scale.size();
        v.quantizer->scale.push_back(old.scale[at]);
        v.quantizer->zero.push_back(old.zero.empty() ? 0 : old.zero[at]);
      }
}

Node step_of(Op op, ValueId x) {
  Node node;
  node.op = op;
  node.inputs = {x};
  return node;
}

ValueId reshaped(ValueId x, const std::vector<int64_t>& dims, const std::string& suffix, ValueId y,
                 const AppendStep& append) {
  Node node = step_of(Op::kReshape, x);
  set_integer(node, "rank", int(dims.size()));
  for (size_t i = 0; i < dims.size(); ++i) set_integer(node, "dims", int(dims[i]), int(i));
  return append(std::move(node), suffix, y);
}

ValueId transposed(ValueId x, const std::vector<int>& perm, const std::string& suffix, ValueId y,
                   const AppendStep& append) {
  Node node = step_of(Op::kTranspose, x);
  for (size_t i = 0; i < perm.size(); ++i) set_integer(node, "perm", perm[i], int(i));
  return append(std::move(node), suffix, y);
}

// A part of a map: the range [begin, begin + size) of rows (index 0) and of columns (index 1).
struct SpacePart {
  int64_t begin[2], size[2];
};
ValueId sliced(Graph& graph, ValueId x, const SpacePart& part, const std::string& suffix, ValueId like,
               const AppendStep& append) {
  const std::vector<int64_t> dims = graph.values[size_t(x)].dims;
  if (part.size[0] == dims[1] && part.size[1] == dims[2]) return x;
  Node node = step_of(Op::kSlice, x);
  for (int i = 0; i < 4; ++i) {
    const bool space = i == 1 || i == 2;
    set_integer(node, "begin", space ? int(part.begin[i - 1]) : 0, i);
    set_integer(node, "size", space ? int(part.size[i - 1]) : int(dims[size_t(i)]), i);
    set_integer(node, "step", 1, i);
  }
  return append(std::move(node), suffix, like);
}

// Cuts x to the part that is read, and sets the strides, dilations and pads of `conv` for that part. Pads that are
// larger than the window reaches become a Pad node.
void set_window(Graph& graph, const TransposedConv& c, Node& conv, const AppendStep& append) {
  const TransposedAxis* const axes[] = {&c.h, &c.w};
  const char* const before_names[] = {"pad_top", "pad_left"};
  const char* const after_names[] = {"pad_bottom", "pad_right"};
  Node pad = step_of(Op::kPad, conv.inputs[0]);
  SpacePart part = {};
  bool pads = false;
  for (int i = 0; i < 2; ++i) {
    const TransposedAxis& axis = *axes[i];
    const int64_t first = axis.first() - axis.reach(), last = axis.first() + axis.count() - 1;  // range of x read
    part.begin[i] = std::clamp<int64_t>(first, 0, axis.in - 1);
    part.size[i] = std::clamp<int64_t>(last, part.begin[i], axis.in - 1) - part.begin[i] + 1;
    int64_t before = std::max<int64_t>(0, part.begin[i] - first);
    int64_t after = std::max<int64_t>(0, last - (part.begin[i] + part.size[i] - 1));
    if (before > axis.reach() || after > axis.reach()) {
      set_integer(pad, "before", int(before), i + 1);
      set_integer(pad, "after", int(after), i + 1);
      before = after = 0;
      pads = true;
    }
    set_integer(conv, before_names[i], int(before));
    set_integer(conv, after_names[i], int(after));
  }
  set_integer(conv, "stride_h", 1);
  set_integer(conv, "stride_w", 1);
  set_integer(conv, "dilation_h", int(c.h.tap_dilation()));
  set_integer(conv, "dilation_w", int(c.w.tap_dilation()));
  const ValueId x = conv.inputs[0];
  conv.inputs[0] = pad.inputs[0] = sliced(graph, x, part, "/part", x, append);
  if (pads) conv.inputs[0] = append(std::move(pad), "/pad", x);
}

}  // namespace

Value transposed_weights(const Value& w, const TransposedConv& conv, const WeightStrides& from) {
  const size_t bytes = element_bytes(w);
  const int64_t taps_h = conv.h.taps(), taps_w = conv.w.taps();
  std::vector<uint8_t> data(size_t(conv.groups * conv.phases() * conv.k * taps_h * taps_w * conv.c) * bytes, 0);
  uint8_t* to = data.data();
  for (int64_t g = 0; g < conv.groups; ++g)
    for (int64_t phase = 0; phase < conv.phases(); ++phase)
      for (int64_t k = 0; k < conv.k; ++k)
        for (int64_t tap = 0; tap < taps_h * taps_w; ++tap) {
          const int64_t i = source_tap(conv.h, phase / conv.w.stride, tap / taps_w),
                        j = source_tap(conv.w, phase % conv.w.stride, tap % taps_w);
          for (int64_t c = 0; c < conv.c; ++c, to += bytes) {
            if (i < 0 || j < 0) continue;
            const int64_t at = g * from.group + k * from.k + i * from.h + j * from.w + c * from.c;
            std::memcpy(to, w.data->data() + size_t(at) * bytes, bytes);
          }
        }
  Value made = w;
  made.dims = {conv.groups * conv.phases() * conv.k, taps_h, taps_w, conv.c};
  made.data = std::make_shared<const std::vector<uint8_t>>(std::move(data));
  repeat_scales(made, conv);
  return made;
}

Value transposed_bias(const Value& b, const TransposedConv& conv) {
  const size_t run = size_t(conv.k) * element_bytes(b);
  std::vector<uint8_t> data;
  for (int64_t g = 0; g < conv.groups; ++g)
    for (int64_t phase = 0; phase < conv.phases(); ++phase) {
      const auto first = b.data->begin() + ptrdiff_t(size_t(g) * run);
      data.insert(data.end(), first, first + ptrdiff_t(run));
    }
  Value made = b;
  made.dims = {conv.groups * conv.phases() * conv.k};
  made.data = std::make_shared<const std::vector<uint8_t>>(std::move(data));
  repeat_scales(made, conv);
  return made;
}

bool steps_make_weights(const TransposedConv& conv) {
  return (conv.h.stride == 1 || conv.h.dilation == 1) && (conv.w.stride == 1 || conv.w.dilation == 1);
}

ValueId append_transposed_weights(Graph& graph, const TransposedConv& conv, ValueId w, const AppendStep& append) {
  const int64_t s_h = conv.h.stride, s_w = conv.w.stride, taps_h = conv.h.taps(), taps_w = conv.w.taps();
  const int64_t in = conv.groups * conv.c, all = s_h * s_w * conv.k * taps_h * taps_w;
  const auto shaped = [&](ValueId x, const std::vector<int64_t>& dims, const char* suffix) {
    return graph.values[size_t(x)].dims == dims ? x : reshaped(x, dims, suffix, w, append);
  };
  Node pad = step_of(Op::kPad, shaped(w, {in, conv.k, conv.h.kernel, conv.w.kernel}, "/2d"));
  set_integer(pad, "after", int(s_h * taps_h - conv.h.kernel), 2);
  set_integer(pad, "after", int(s_w * taps_w - conv.w.kernel), 3);
  const ValueId whole = append(std::move(pad), "/whole", w);
  Node turn = step_of(Op::kSlice, shaped(whole, {in, conv.k, taps_h, s_h, taps_w, s_w}, "/taps"));
  const std::vector<int64_t> dims = graph.values[size_t(turn.inputs[0])].dims;
  for (int axis = 0; axis < 6; ++axis) {
    const bool turned = (axis == 2 || axis == 4) && dims[size_t(axis)] > 1;
    set_integer(turn, "begin", turned ? int(dims[size_t(axis)]) - 1 : 0, axis);
    set_integer(turn, "size", int(dims[size_t(axis)]), axis);
    set_integer(turn, "step", turned ? -1 : 1, axis);
  }
  ValueId made = transposed(append(std::move(turn), "/turned", w), {0, 3, 5, 1, 2, 4}, "/phases", w, append);
  made = shaped(made, {conv.groups, conv.c, all}, "/groups");
  made = transposed(made, {0, 2, 1}, "/in_last", w, append);
  return shaped(made, {conv.groups * s_h * s_w * conv.k, taps_h, taps_w, conv.c}, "/kernel");
}

ValueId append_transposed_conv(Graph& graph, const TransposedConv& c, Node conv, ValueId y, const AppendStep& append) {
  set_window(graph, c, conv, append);
  if (conv.op == Op::kConv2d) set_integer(conv, "groups", int(c.groups));
  ValueId z = append(std::move(conv), "/phases", y);
  const int64_t n = graph.values[size_t(z)].dims[0], rows = c.h.count(), columns = c.w.count(), s_h = c.h.stride,
                s_w = c.w.stride, k = c.k;
  if (c.phases() > 1) {
    z = reshaped(z, {n, rows, columns, c.groups, s_h, s_w, k}, "/depth", y, append);
    z = transposed(z, {0, 1, 4, 2, 5, 3, 6}, "/space", y, append);
    z = reshaped(z, {n, rows * s_h, columns * s_w, c.groups * k}, "/map", y, append);
  }
  const SpacePart part = {{c.h.before - c.h.first() * s_h, c.w.before - c.w.first() * s_w}, {c.h.out, c.w.out}};
  return sliced(graph, z, part, "/crop", y, append);
}

}  // namespace nacre::tools
