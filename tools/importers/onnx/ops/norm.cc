// Imports normalizations as formulas of other operators. m and v are the mean and the variance over the named axes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

Ints axes_from(int64_t first, int64_t rank) {
  Ints axes;
  for (int64_t axis = first; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

// Returns [c, 1, .., 1], the shape in which one number per channel is broadcast to x [n, c, ..].
Ints per_channel(int64_t channels, int rank) {
  Ints dims(size_t(rank) - 1, 1);
  dims[0] = channels;
  return dims;
}

float epsilon_of(const Source& source, float otherwise) {
  const float epsilon = source.real("epsilon", otherwise);
  if (!(epsilon >= 0) || std::isinf(epsilon)) source.malformed("its epsilon is no positive number");
  return epsilon;
}

// y = scale_c (x - m) / sqrt(v + epsilon) + bias_c, with m and v per sample and group of channels:
//
//   x [n, c, ..] -> [n, groups, all the rest], normalized along its last axis, and back
//
// scale and bias have a number per channel, or in GroupNormalization before opset 21 a number per group.
void normalize_groups(Import& import, const Source& source, int64_t groups, bool per_group) {
  const OperandPtr& x = source.operand(0);
  const int64_t channels = x->dims[1];
  if (groups < 1 || channels % groups != 0) source.malformed("its channels are no multiple of its groups");
  const Ints numbers = {per_group ? groups : channels};
  for (const int input : {1, 2})
    if (source.operand(input)->dims != numbers) source.malformed("its scale or bias does not fit its channels");
  Formula f(import, source);
  const int64_t width = product_of(x->dims, 1, x->dims.size()) / groups;
  const Term rows = f.reshape(f.input(0), {x->dims[0], groups, width});
  const Term normal = f("LayerNormalization", {rows, f.filled({width}, 1)}, {{"epsilon", epsilon_of(source, 1e-5f)}});
  const auto scaled = [&](const Term& value, const Ints& dims) {
    const Term scale = f.reshape(f.input(1), dims), bias = f.reshape(f.input(2), dims);
    return f("Add", {f("Mul", {value, scale}), bias});
  };
  if (per_group) f.give(f.reshape(scaled(normal, {groups, 1}), x->dims));
  else f.give(scaled(f.reshape(normal, x->dims), per_channel(channels, x->rank())));
  f.run();
}

void group_normalization(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  if (x->rank() < 2) source.malformed("its input has no channels");
  normalize_groups(import, source, source.integer("num_groups", 0),
                   source.opset < 21 && source.operand(1)->dims != Ints{x->dims[1]});
}

// Imports InstanceNormalization, in which each channel is a group.
void instance_normalization(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  if (x->rank() < 2) source.malformed("its input has no channels");
  normalize_groups(import, source, x->dims[1], false);
}

// y = scale x / sqrt(mean x^2 + epsilon) over the axes from `axis` on.
void rms_normalization(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const int axis = source.axis(source.integer("axis", -1), x->rank());
  Formula f(import, source);
  const Term in = f.input(0);
  const Term square = f.reduce("ReduceMean", f("Mul", {in, in}), axes_from(axis, x->rank()));
  const Term root = f("Sqrt", {f("Add", {square, f.number(epsilon_of(source, 1e-5f))})});
  f.give(f("Mul", {f("Div", {in, root}), f.input(1)}));
  f.run();
}

// y = x / (bias + alpha / size sum x^2)^beta. The sum is over the `size` channels around each channel, with zeros
// beyond the ends. sum / size is the mean that an average pool of x^2 as [n, 1, c, all the rest] makes.
void local_response(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const int64_t size = source.integer("size", 0);
  if (x->rank() < 2 || size < 1) source.malformed("its input has no channels, or its size is below 1");
  Formula f(import, source);
  const Term in = f.input(0);
  const int64_t rest = product_of(x->dims, 2, x->dims.size()), before = (size - 1) / 2;
  const Term squares = f.reshape(f("Mul", {in, in}), {x->dims[0], 1, x->dims[1], rest});
  const Term means = f("AveragePool", {squares},
                       {{"kernel_shape", Ints{size, 1}},
                        {"pads", Ints{before, 0, size - 1 - before, 0}},
                        {"count_include_pad", int64_t{1}}});
  const Term scaled = f("Mul", {f.reshape(means, x->dims), f.number(source.real("alpha", 1e-4f))});
  const Term sum = f("Add", {scaled, f.number(source.real("bias", 1))});
  f.give(f("Div", {in, f("Pow", {sum, f.number(source.real("beta", 0.75f))})}));
  f.run();
}

// y = x / |x|_p along an axis, and 0 if all elements are 0.
void lp_normalization(Import& import, const Source& source) {
  constexpr float kLeastNormal = 1.17549435e-38f;
  const int64_t p = source.integer("p", 2);
  if (p != 1 && p != 2) source.malformed("its p is neither 1 nor 2");
  const int64_t axis = source.axis(source.integer("axis", -1), source.operand(0)->rank());
  Formula f(import, source);
  const Term x = f.input(0), norm = f.reduce(p == 1 ? "ReduceL1" : "ReduceL2", x, {axis});
  f.give(f("Div", {x, f("Max", {norm, f.number(kLeastNormal)})}));
  f.run();
}

// y = (x - m) / (sqrt(v) + 1e-9)
void mean_variance(Import& import, const Source& source) {
  const Ints axes = source.integers("axes", {0, 2, 3});
  Formula f(import, source);
  const Term x = f.input(0), difference = f("Sub", {x, f.reduce("ReduceMean", x, axes)});
  const Term variance = f.reduce("ReduceMean", f("Mul", {difference, difference}), axes);
  f.give(f("Div", {difference, f("Add", {f("Sqrt", {variance}), f.number(1e-9f)})}));
  f.run();
}

constexpr OperatorImporter kNormImporters[] = {
    {"GroupNormalization", group_normalization}, {"InstanceNormalization", instance_normalization},
    {"RMSNormalization", rms_normalization},     {"LRN", local_response},
    {"LpNormalization", lp_normalization},       {"MeanVarianceNormalization", mean_variance},
};

}  // namespace

// Normalizes by the mean m and the variance v of the input over all axes but 1, and updates the running statistics:
//
//   y = scale (x - m) / sqrt(v + epsilon) + bias
//   mean' = momentum mean + (1 - momentum) m     variance' = momentum variance + (1 - momentum) v
void normalize_by_batch(Import& import, const Source& source) {
  // compile.h prints this line in any case.
  import.graph().log.push_back(
      "training mode: " + source.name +
      " (BatchNormalization) normalises by the statistics of the batch that it runs on, as its file "
      "says: export the network after model.eval() for running statistics");
  const OperandPtr& x = source.operand(0);
  if (x->rank() < 2) source.malformed("its input has no channels");
  Formula f(import, source);
  Ints axes = axes_from(1, x->rank());
  axes[0] = 0;
  const Ints beside = per_channel(x->dims[1], x->rank()), row = {x->dims[1]};
  const Term in = f.input(0), mean = f.reduce("ReduceMean", in, axes), difference = f("Sub", {in, mean});
  const Term variance = f.reduce("ReduceMean", f("Mul", {difference, difference}), axes);
  const Term root = f("Sqrt", {f("Add", {variance, f.number(epsilon_of(source, 1e-5f))})});
  const Term scaled = f("Mul", {f("Div", {difference, root}), f.reshape(f.input(1), beside)});
  f.give(f("Add", {scaled, f.reshape(f.input(2), beside)}));
  const float momentum = source.real("momentum", 0.9f);
  for (int i = 0; i < 2; ++i) {
    const Term kept = f("Mul", {f.input(3 + i), f.number(momentum)});
    f.give(f("Add", {kept, f("Mul", {f.reshape(i == 0 ? mean : variance, row), f.number(1 - momentum)})}));
  }
  f.run();
}

std::span<const OperatorImporter> norm_importers() { return kNormImporters; }

}  // namespace nacre::tools::onnx_import
