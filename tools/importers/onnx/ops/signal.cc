// Imports windows, mel filters, Fourier transforms, running sums and products, Trilu and EyeLike. Windows, mel filters
// and EyeLike become constants.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

int64_t one_integer(const Source& source, int input, const char* what) {
  const Value& value = source.constant(input, what);
  if (value.elements() != 1 || !is_integer(value.stored)) source.malformed(std::string(what) + " is not one integer");
  return integers(value)[0];
}

void give_reals(Import& import, const Source& source, const Ints& dims, const std::vector<float>& numbers) {
  const ElementType type = element_type(int(source.integer("output_datatype", ::onnx::TensorProto::FLOAT)));
  if (type == ElementType::kNone) source.refuse("gives a type that is not supported");
  import.give_constant(0, make_constant("", type, dims, numbers));
}

// w_i = a_0 - a_1 cos(2 pi i / n) + a_2 cos(4 pi i / n),  n = size if periodic, else size - 1
struct Cosines {
  double a0, a1, a2;
};
constexpr Cosines kHann = {0.5, 0.5, 0}, kHamming = {25.0 / 46, 21.0 / 46, 0}, kBlackman = {0.42, 0.5, 0.08};

template <const Cosines& kSum>
void window(Import& import, const Source& source) {
  const int64_t size = one_integer(source, 0, "its size");
  if (size < 1 || size > (1 << 24)) source.refuse("its size is below 1 or above 2^24");
  import.spend(uint64_t(size) * 8);
  const double n = double(size) - (source.integer("periodic", 1) != 0 ? 0 : 1);
  std::vector<float> numbers;
  numbers.reserve(size_t(size));
  for (int64_t i = 0; i < size; ++i) {
    const double angle = n > 0 ? 2 * std::numbers::pi * double(i) / n : 0;
    numbers.push_back(float(kSum.a0 - kSum.a1 * std::cos(angle) + kSum.a2 * std::cos(2 * angle)));
  }
  give_reals(import, source, {size}, numbers);
}

// Gives triangular filters [bins, filters] over the bins of a spectrum. Their edges have equal distances in mel =
// 2595 log10(1 + f / 700). Filter b rises from edge b to edge b + 1 and falls to edge b + 2.
void mel_weights(Import& import, const Source& source) {
  const int64_t bands = one_integer(source, 0, "its number of filters"), length = one_integer(source, 1, "its length");
  const int64_t rate = one_integer(source, 2, "its sample rate"), bins = length / 2 + 1;
  if (bands < 1 || bands > (1 << 16) || length < 1 || length > (1 << 24) || rate < 1)
    source.malformed("its number of filters, its length or its sample rate is out of range");
  const auto mel = [&](int input, const char* what) {
    return 2595 * std::log10(1 + double(source.constant_real(input, what)) / 700);
  };
  const double low = mel(3, "its lower edge"), step = (mel(4, "its upper edge") - low) / double(bands + 2);
  const auto edge = [&](int64_t i) {
    const double hertz = 700 * (std::pow(10, (double(i) * step + low) / 2595) - 1);
    const double bin = std::floor(double(length + 1) * hertz / double(rate));
    if (!(bin >= 0 && bin < double(bins))) source.malformed("an edge is outside the spectrum");
    return int64_t(bin);
  };
  import.spend(uint64_t(checked_elements(source.place, {bins, bands})) * 4);
  std::vector<float> weights(size_t(bins * bands), 0);
  for (int64_t b = 0; b < bands; ++b) {
    const int64_t first = edge(b), middle = edge(b + 1), last = edge(b + 2);
    for (int64_t j = first; j <= middle; ++j)
      weights[size_t(j * bands + b)] = middle == first ? 1 : float(double(j - first) / double(middle - first));
    for (int64_t j = middle; j < last; ++j)
      weights[size_t(j * bands + b)] = float(double(last - j) / double(last - middle));
  }
  give_reals(import, source, {bins, bands}, weights);
}

// The transform X_k = sum_j x_j e^(s 2 pi i j k / n), s = -1, as a matrix with rows (j, part of x) and columns (k,
// part of X). The parts of a complex number are its real and its imaginary one. The inverse has s = 1 and the factor
// 1 / n. The inverse of a half spectrum gives real numbers, and counts bins with a mirror image twice.
struct Fourier {
  int64_t n, terms, parts, bins;
  bool inverse, from_half;

  int64_t parts_out() const { return from_half ? 1 : 2; }

  std::vector<float> matrix() const {
    std::vector<float> m(size_t(terms * parts * bins * parts_out()), 0);
    const double scale = inverse ? 1 / double(n) : 1, s = inverse ? 1 : -1;
    for (int64_t j = 0; j < terms; ++j)
      for (int64_t k = 0; k < bins; ++k) {
        const double angle = s * 2 * std::numbers::pi * double(j * k % n) / double(n);
        const bool mirrored = from_half && j != 0 && 2 * j != n;
        const double c = std::cos(angle) * scale * (mirrored ? 2 : 1), d = std::sin(angle) * scale * (mirrored ? 2 : 1);
        const double values[2][2] = {{c, d}, {-d, c}};  // rows of the real and the imaginary part of x_j
        for (int64_t part = 0; part < parts; ++part)
          for (int64_t of = 0; of < parts_out(); ++of)
            m[size_t(((j * parts + part) * bins + k) * parts_out() + of)] = float(values[part][of]);
      }
    return m;
  }
};

// Transforms along `axis` of x [.., n, .., parts]. The axis is an attribute until opset 19, an input from opset 20
// on.
void dft(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const int rank = x->rank();
  if (rank < 2 || x->dims.back() < 1 || x->dims.back() > 2) source.malformed("its last axis is no complex number");
  int64_t given_axis = source.opset < 20 ? source.integer("axis", 1) : -2;
  if (source.given(2)) given_axis = one_integer(source, 2, "its axis");
  const auto axis = size_t(source.axis(given_axis, rank));
  if (axis + 1 == size_t(rank)) source.malformed("its axis is the last one");
  const bool inverse = source.integer("inverse", 0) != 0, half = source.integer("onesided", 0) != 0;
  Fourier fourier{.n = inverse && half ? 2 * (x->dims[axis] - 1) : x->dims[axis],
                  .terms = 0,
                  .parts = x->dims.back(),
                  .bins = 0,
                  .inverse = inverse,
                  .from_half = inverse && half};
  if (source.given(1)) fourier.n = one_integer(source, 1, "its length");
  if (fourier.n < 1 || fourier.n > (1 << 16)) source.refuse("its length is below 1 or above 65536");
  fourier.terms = std::min(x->dims[axis], fourier.from_half ? fourier.n / 2 + 1 : fourier.n);
  fourier.bins = half && !inverse ? fourier.n / 2 + 1 : fourier.n;
  const int64_t in = fourier.terms * fourier.parts, out = fourier.bins * fourier.parts_out();
  import.spend(uint64_t(checked_elements(source.place, {in, out})) * 4);
  Ints perm, back(size_t(rank), 0), dims;
  for (int i = 0; i < rank; ++i)
    if (size_t(i) != axis && i + 1 != rank) perm.push_back(i);
  for (const int64_t i : perm) dims.push_back(x->dims[size_t(i)]);
  perm.insert(perm.end(), {int64_t(axis), rank - 1});
  for (size_t i = 0; i < perm.size(); ++i) back[size_t(perm[i])] = int64_t(i);
  Formula f(import, source);
  const Term rows = f.transpose(f.slice(f.input(0), int64_t(axis), 0, fourier.terms), perm);
  const Term y = f("MatMul", {f.reshape(rows, {-1, in}), f.numbers({in, out}, fourier.matrix())});
  dims.insert(dims.end(), {fourier.bins, fourier.parts_out()});
  f.give(f.transpose(f.reshape(y, dims), back));
  f.run();
}

// Imports STFT: transforms frames of x [b, length, parts] that begin `step` apart. It is a convolution whose kernels
// are the columns of the Fourier matrix, times the window.
void stft(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  if (x->rank() != 3 && x->rank() != 2) source.malformed("its signal has neither two nor three axes");
  const int64_t batch = x->dims[0], length = x->dims[1], parts = x->rank() == 3 ? x->dims[2] : 1;
  if (parts < 1 || parts > 2) source.malformed("its last axis is no complex number");
  const int64_t step = one_integer(source, 1, "its step");
  std::vector<float> weights;
  if (source.given(2)) weights = reals(source.constant(2, "its window"));
  const int64_t n = source.given(3) ? one_integer(source, 3, "its frame length") : int64_t(weights.size());
  if (weights.empty()) weights.assign(size_t(std::clamp<int64_t>(n, 0, 1 << 16)), 1);
  if (n < 1 || n > length || step < 1 || int64_t(weights.size()) != n)
    source.refuse("its window, its frame length and its signal do not fit each other");
  const bool half = source.integer("onesided", 1) != 0;
  const Fourier fourier{n, n, parts, half ? n / 2 + 1 : n, false, false};
  const int64_t out = fourier.bins * 2, frames = (length - n) / step + 1;
  import.spend(uint64_t(checked_elements(source.place, {n, parts, out})) * 8);
  const std::vector<float> matrix = fourier.matrix();
  std::vector<float> kernel(matrix.size());
  for (int64_t j = 0; j < n; ++j)
    for (int64_t part = 0; part < parts; ++part)
      for (int64_t k = 0; k < out; ++k)
        kernel[size_t((k * parts + part) * n + j)] = matrix[size_t((j * parts + part) * out + k)] * weights[size_t(j)];
  Formula f(import, source);
  const Term signal = f.transpose(f.reshape(f.input(0), {batch, length, parts}), {0, 2, 1});
  const Term y = f("Conv", {signal, f.numbers({out, parts, n}, kernel)}, {{"strides", Ints{step}}});
  f.give(f.reshape(f.transpose(y, {0, 2, 1}), {batch, frames, fourier.bins, 2}));
  f.run();
}

// y_i = x_0 o .. o x_i along an axis, with o = + or times. log2 n rounds compute y_i <- y_i o y_(i - s) for s = 1, 2,
// 4, .. where i >= s. `exclusive` omits x_i from y_i; `reverse` begins at the other end.
struct Running {
  const char* op;
  float nothing;
};
constexpr Running kSum = {"Add", 0}, kProduct = {"Mul", 1};

template <const Running& kRunning>
void cumulative(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  const int64_t axis = source.axis(one_integer(source, 1, "its axis"), x->rank()), dim = x->dims[size_t(axis)];
  const bool reverse = source.integer("reverse", 0) != 0;
  Formula f(import, source);
  Term y = f.input(0);
  const Term nothing = f.number(kRunning.nothing);
  const auto shifted = [&](const Term& from, int64_t by) {
    Ints pads(size_t(x->rank()) * 2, 0);
    pads[size_t(axis) + (reverse ? x->dims.size() : 0)] = by;
    const Term part = reverse ? f.slice(from, axis, by, dim) : f.slice(from, axis, 0, dim - by);
    return f("Pad", {part, f.list(pads), nothing});
  };
  if (source.integer("exclusive", 0) != 0) y = dim == 1 ? f("Expand", {nothing, f.list(x->dims)}) : shifted(y, 1);
  for (int64_t by = 1; by < dim; by *= 2) y = f(kRunning.op, {y, shifted(y, by)});
  f.give(y);
  f.run();
}

// Gives the part of each matrix on and above the k-th diagonal (upper), or on and below it, with zeros elsewhere.
void triangle(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  if (x->rank() < 2) source.malformed("its input is no matrix");
  const int64_t k = source.given(1) ? one_integer(source, 1, "its diagonal") : 0;
  const bool upper = source.integer("upper", 1) != 0;
  const int64_t rows = x->dims[size_t(x->rank()) - 2], columns = x->dims.back();
  import.spend(uint64_t(rows * columns) * 8);
  Ints inside;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) inside.push_back((upper ? j - i >= k : j - i <= k) ? 1 : 0);
  Formula f(import, source);
  f.give(f("Where", {f.bools({rows, columns}, inside), f.input(0), f.zero_of(x->type)}));
  f.run();
}

// Gives a matrix of the input's shape with ones on the k-th diagonal.
void eye_like(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  if (x->rank() != 2) source.malformed("its input is no matrix");
  const ElementType type = source.has("dtype") ? element_type(int(source.integer("dtype", 0))) : x->type;
  if (type == ElementType::kNone) source.refuse("gives a type that is not supported");
  import.spend(uint64_t(x->dims[0] * x->dims[1]) * 8);
  const int64_t k = source.integer("k", 0);
  Ints ones;
  for (int64_t i = 0; i < x->dims[0]; ++i)
    for (int64_t j = 0; j < x->dims[1]; ++j) ones.push_back(j - i == k ? 1 : 0);
  import.give_constant(0, make_constant("", type, x->dims, ones));
}

constexpr OperatorImporter kSignalImporters[] = {
    {"HannWindow", window<kHann>},
    {"HammingWindow", window<kHamming>},
    {"BlackmanWindow", window<kBlackman>},
    {"MelWeightMatrix", mel_weights},
    {"DFT", dft},
    {"STFT", stft},
    {"CumSum", cumulative<kSum>},
    {"CumProd", cumulative<kProduct>},
    {"Trilu", triangle},
    {"EyeLike", eye_like},
};

}  // namespace

std::span<const OperatorImporter> signal_importers() { return kSignalImporters; }

}  // namespace nacre::tools::onnx_import
