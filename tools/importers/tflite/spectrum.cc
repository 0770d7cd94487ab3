// Converts RFFT2D of one axis, as TensorFlow's converter writes tf.signal.rfft, and operators that read its complex
// numbers. The two parts of these are values of their own, products with stored cosines and sines:
//
//   re_k = sum_n x_n cos(2 pi k n / N),   im_k = -sum_n x_n sin(2 pi k n / N),   k = 0 .. N / 2
//
// x_n counts as 0 after the end of x. Elements of x from N on are cut off.
#include <cmath>
#include <numbers>

#include "tools/importers/tflite/steps.h"

namespace nacre::tools::tflite {
namespace {

void convert_rfft(Importer& importer, Operation& op) {
  constexpr int64_t kMostOfSpectrum = 1 << 23;                         // most elements of a matrix
  op.layer = importer.graph().add_layer({op.name, op.code_name, {}});  // emit() would name the layer by an output
  Steps s(importer, op);
  ValueId x = importer.real_input(op, 0);
  const Steps::Ints dims = s.dims(x), length = importer.integers(op, 1);
  if (dims.size() < 2 || length.size() != 2) importer.bad(op, "its input has not two axes, or its length is not two");
  if (length[0] != 1 || dims[dims.size() - 2] != 1) importer.unsupported(op, "a transform of two axes");
  if (importer.value(x).quantizer) importer.unsupported(op, "a transform of codes");
  const int64_t n = length[1], given = std::min(n, dims.back()), bins = n / 2 + 1;
  if (n < 1 || bins > kMostOfSpectrum / given) importer.unsupported(op, "a transform of " + std::to_string(n));
  if (given < dims.back()) x = s.slice(x, int(dims.size()) - 1, 0, given);
  importer.graph().budget.take(uint64_t(bins * given) * 8, op.name, "cosines and sines", "use a shorter transform");
  std::vector<float> cosines, sines;
  for (int64_t k = 0; k < bins; ++k)
    for (int64_t i = 0; i < given; ++i) {
      const double angle = 2 * std::numbers::pi * double(k * i % n) / double(n);
      cosines.push_back(float(std::cos(angle)));
      sines.push_back(float(-std::sin(angle)));
    }
  const auto part = [&](const std::vector<float>& matrix) {
    return s(Op::kDense, {x, s.numbers({bins, given}, matrix)}, {}, ElementType::kFloat32);
  };
  const ValueId real = part(cosines);
  importer.scope().front_end.complexes[op.outputs[0]] = {.real = real, .imaginary = part(sines)};
}

}  // namespace

bool convert_complex(Importer& importer, Operation& op) {
  if (op.code == BuiltinOperator::RFFT2D) {
    convert_rfft(importer, op);
    return true;
  }
  std::map<int, Complex>& complexes = importer.scope().front_end.complexes;
  const auto x = complexes.find(op.has_input(0) ? op.inputs[0] : kNone);
  if (x == complexes.end()) return false;
  const auto [re, im] = x->second;
  Steps s(importer, op);
  switch (op.code) {
    case BuiltinOperator::RESHAPE:
    case BuiltinOperator::SQUEEZE:
    case BuiltinOperator::EXPAND_DIMS: {
      const Steps::Ints dims = importer.tensors().dims(op.outputs[0]);
      if (product_of(dims, 0, dims.size()) != importer.value(re).elements())
        importer.unsupported(op, "complex numbers in a shape that the file does not fix");
      op.layer = importer.graph().add_layer({op.name, op.code_name, {}});
      const ValueId real = s.reshape(re, dims);
      complexes[op.outputs[0]] = {.real = real, .imaginary = s.reshape(im, dims)};
      return true;
    }
    case BuiltinOperator::REAL: s.give(re); return true;
    case BuiltinOperator::IMAG: s.give(im); return true;
    case BuiltinOperator::COMPLEX_ABS:
      s.give(s.unary(Unary::kSqrt, s(Op::kAdd, {s.unary(Unary::kSquare, re), s.unary(Unary::kSquare, im)})));
      return true;
    default: importer.unsupported(op, "arithmetic on complex numbers");
  }
}

}  // namespace nacre::tools::tflite
