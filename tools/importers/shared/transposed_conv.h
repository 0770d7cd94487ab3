// A transposed convolution as a convolution at the resolution of its input.
//
//   x [batch, in_h, in_w, groups c]   y [batch, out_h, out_w, groups k]   w: kernel_h x kernel_w from c channels to k
//
// Per axis, of stride s, dilation d and pad p:
//
//   y_o = sum of x_i w_m over i s + m d - p = o
//
// The outputs o with o + p = s q + r, of one r < s, read x_{q - j} with the taps m d = s j + r: a convolution of x with
// ceil(span / s) taps. All s_h s_w of them are one convolution with as many times the output channels, [groups, s_h,
// s_w, k], whose result is laid out by a transpose (depth to space). Kernels that are no multiple of the stride are
// filled up by zeros: 3x3 by stride 2 computes 16/9 of the products that it needs, 2x2 and 4x4 none in vain. Zeros
// between the elements of x would cost s_h s_w times as many, and the memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tools/graph/graph.h"

namespace nacre::tools {

struct TransposedAxis {
  int64_t in = 1, kernel = 1, stride = 1, dilation = 1, before = 0, out = 1;

  int64_t span() const { return (kernel - 1) * dilation + 1; }
  // Taps of the convolution: a stride of 1 leaves the kernel as it is, a larger one has its dilation in the taps.
  int64_t taps() const { return stride == 1 ? kernel : (span() + stride - 1) / stride; }
  int64_t tap_dilation() const { return stride == 1 ? dilation : 1; }
  int64_t reach() const { return (taps() - 1) * tap_dilation(); }
  int64_t first() const { return before / stride; }                            // q of output 0
  int64_t count() const { return (before + out - 1) / stride - first() + 1; }  // values of q
};

struct TransposedConv {
  TransposedAxis h, w;
  int64_t groups = 1, c = 1, k = 1;  // channels of one group

  int64_t phases() const { return h.stride * w.stride; }
};

// Strides of the source's weights: element (group, k, row, column, c) stands at the sum of index times stride.
struct WeightStrides {
  int64_t group, k, h, w, c;
};

// [groups s_h s_w k, taps_h, taps_w, c], of numbers or of codes without a zero point, and the bias of all phases.
Value transposed_weights(const Value& w, const TransposedConv& conv, const WeightStrides& from);
Value transposed_bias(const Value& b, const TransposedConv& conv);

// Adds a step and returns its one output, named after the layer's with a suffix; of codes they are those of `like`.
using AppendStep = std::function<ValueId(Node node, const std::string& suffix, ValueId like)>;

// Makes the weights by steps that a gradient goes back through: w [groups c, k, kernel_h, kernel_w] is padded to whole
// strides and reversed, and the phases are taken out of it. steps_make_weights returns false if an axis has a stride
// and a dilation above 1: no such steps exist then.
bool steps_make_weights(const TransposedConv& conv);
ValueId append_transposed_weights(Graph& graph, const TransposedConv& conv, ValueId w, const AppendStep& append);

// Sets the window of `conv`, whose inputs are x, weights and bias as above, and adds it with what surrounds it.
// `y`: the value whose codes the result has. Returns what was added last.
ValueId append_transposed_conv(Graph& graph, const TransposedConv& c, Node conv, ValueId y, const AppendStep& append);

}  // namespace nacre::tools
