// Writes a transposed convolution as a convolution at the resolution of its input.
//
//   x [batch, in_h, in_w, groups c]   y [batch, out_h, out_w, groups k]   w: kernel_h x kernel_w, c to k channels
//
// On an axis with stride s, dilation d and pad p:
//
//   y_o = sum of x_i w_m over i s + m d - p = o
//
// Let o + p = s q + r. The outputs o with the same r < s read x_{q - j} with the taps m d = s j + r. This is a
// convolution of x with ceil(span / s) taps, span = (kernel - 1) d + 1. All s_h s_w of these convolutions are one
// convolution with the output channels [groups, s_h, s_w, k]. A transpose puts its result in order (depth to space).
//
// Zeros fill up kernels whose size is no multiple of the stride. A 3x3 kernel with stride 2 computes 16/9 of the
// products that it needs; 2x2 and 4x4 kernels compute none in vain. Zeros between the elements of x would cost s_h
// s_w times the needed products, and more memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tools/graph/graph.h"

namespace nacre::tools {

struct TransposedAxis {
  int64_t in = 1, kernel = 1, stride = 1, dilation = 1, before = 0, out = 1;

  int64_t span() const { return (kernel - 1) * dilation + 1; }
  // Taps of the convolution. With stride 1 the kernel keeps its dilation. With a larger stride the taps contain the
  // dilation.
  int64_t taps() const { return stride == 1 ? kernel : (span() + stride - 1) / stride; }
  int64_t tap_dilation() const { return stride == 1 ? dilation : 1; }
  int64_t reach() const { return (taps() - 1) * tap_dilation(); }
  int64_t first() const { return before / stride; }                            // q of output 0
  int64_t count() const { return (before + out - 1) / stride - first() + 1; }  // number of values of q
};

struct TransposedConv {
  TransposedAxis h, w;
  int64_t groups = 1, c = 1, k = 1;  // channels of one group

  int64_t phases() const { return h.stride * w.stride; }
};

// Strides of the source's weights. Element (group, k, row, column, c) stands at the sum of index times stride.
struct WeightStrides {
  int64_t group, k, h, w, c;
};

// Return the weights [groups s_h s_w k, taps_h, taps_w, c] and the bias of all s_h s_w phases (values of r). The
// weights are real numbers, or codes without a zero point.
Value transposed_weights(const Value& w, const TransposedConv& conv, const WeightStrides& from);
Value transposed_bias(const Value& b, const TransposedConv& conv);

// Adds a node and returns its one output, whose name ends in `suffix`. If the output has quantized codes, they have
// the quantizer of the value `like`.
using AppendStep = std::function<ValueId(Node node, const std::string& suffix, ValueId like)>;

// append_transposed_weights makes the weights by nodes that a gradient can flow through. They pad w [groups c, k,
// kernel_h, kernel_w] to whole strides, reverse it and take out the phases. steps_make_weights returns false if an
// axis has both a stride and a dilation above 1, because such nodes do not exist then.
bool steps_make_weights(const TransposedConv& conv);
ValueId append_transposed_weights(Graph& graph, const TransposedConv& conv, ValueId w, const AppendStep& append);

// Sets the window of `conv`, whose inputs are x and the weights and bias made above. Adds `conv` and the nodes around
// it. If the result has codes, they have the quantizer of `y`. Returns the value that was added last.
ValueId append_transposed_conv(Graph& graph, const TransposedConv& c, Node conv, ValueId y, const AppendStep& append);

}  // namespace nacre::tools
