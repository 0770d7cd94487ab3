// Valid models with every number format that a policy makes: 16-bit and float64 networks, weight-only and grouped
// codes, dynamic int8, float8, casts. Each model is a chain: a step reads the previous step's output, and no two
// values share arena bytes.

#include <algorithm>
#include <bit>

#include "engine/numeric/small_float.h"
#include "tests/model/builder.h"

namespace nacre::test {
namespace {

using Type = ElementType;
using Dim = std::vector<int32_t>;
using List = std::vector<uint32_t>;

constexpr Type kF32 = Type::kFloat32, kF16 = Type::kFloat16, kBf16 = Type::kBfloat16, kF64 = Type::kFloat64;
constexpr Type kI8 = Type::kInt8, kI4 = Type::kInt4, kE4M3 = Type::kFloat8E4M3, kE5M2 = Type::kFloat8E5M2;

uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }

template <class T>
void append(std::vector<std::byte>& bytes, T v) {
  const auto* data = reinterpret_cast<const std::byte*>(&v);
  bytes.insert(bytes.end(), data, data + sizeof v);
}

// Appends v as one element of `type`.
void append(std::vector<std::byte>& bytes, Type type, float v) {
  if (type == kF16) append(bytes, Float16(v));
  else if (type == kBf16) append(bytes, Bfloat16(v));
  else if (type == kF64) append(bytes, double(v));
  else if (type == kE4M3) append(bytes, Float8E4M3::saturated(v));
  else if (type == kI8) append(bytes, int8_t(v * 50));
  else append(bytes, v);
}

size_t elements(const Dim& dims) {
  size_t count = 1;
  for (const int32_t dim : dims) count *= size_t(dim);
  return count;
}

class Chain {
 public:
  // Adds weights in [-1, 1] that are neither all alike nor random. For int4, adds codes of all kinds.
  uint32_t weights(Type type, const Dim& dims, int seed = 1) {
    std::vector<std::byte> bytes;
    const size_t count = elements(dims);
    for (size_t i = 0; type != kI4 && i < count; ++i)
      append(bytes, type, float((int(i) * 37 + seed) % 101 - 50) * 0.02f);
    for (size_t i = 0; type == kI4 && i < count; i += 2)
      bytes.push_back(std::byte(i + 1 < count ? int(i) * 29 + seed : seed & 15));
    return draft_.weights(type, dims, bytes, kNoIndex);
  }
  // Adds positive scales.
  uint32_t scale(const Dim& dims, Type type = kF32) {
    std::vector<std::byte> bytes;
    for (size_t i = 0; i < elements(dims); ++i) append(bytes, type, 0.125f * float(i + 1));
    return draft_.weights(type, dims, bytes, kNoIndex);
  }
  template <class T>
  uint32_t values(const Dim& dims, const std::vector<T>& v) {
    return draft_.weights<T>(dims, v);
  }

  void input(Type type, const Dim& dims) { value_ = place(type, dims, 0, kInput); }

  // Replaces the chain's value by op(value, rest).
  void step(Op op, Type type, const Dim& dims, List rest = {}, List words = {}, Rounding rounding = Rounding::kNone) {
    rest.insert(rest.begin(), value_);
    const uint32_t y = place(type, dims, steps_);
    draft_.step(op, std::move(words), std::move(rest), {y}, rounding);
    value_ = y, ++steps_;
  }
  // Replaces the chain's value by its codes. Returns their scale.
  uint32_t dynamic(uint32_t axis, Type codes, const Dim& dims, Type scale_type, const Dim& scale_dims) {
    const uint32_t q = place(codes, dims, steps_), s = place(scale_type, scale_dims, steps_);
    draft_.step(Op::kDynamicQuantize, {axis}, {value_}, {q, s});
    value_ = q, ++steps_;
    return s;
  }
  void cast(Type type, const Dim& dims) { step(Op::kCast, type, dims); }
  void reshape(Type type, const Dim& dims) {
    List words = {uint32_t(dims.size())};
    for (const int32_t dim : dims) words.push_back(uint32_t(dim));
    step(Op::kReshape, type, dims, {}, words);
  }

  // If `batch` is given, axis 0 of every arena tensor is the batch.
  Draft finish(uint32_t batch = 1) {
    for (TensorRecord& r : draft_.tensors) {
      if (r.region != Region::kArena) continue;
      r.last_step = std::min(r.last_step, steps_ - 1);
      if (batch > 1) r.flags |= kBatched;
    }
    draft_.tensors[value_].flags |= kOutput;
    draft_.program(Entry::kInfer, "", {at_}, batch);
    return std::move(draft_);
  }

 private:
  uint32_t place(Type type, const Dim& dims, uint32_t first, uint16_t flags = 0) {
    const bool is_input = (flags & kInput) != 0;
    const uint32_t id = draft_.arena(type, dims, first, is_input ? 0 : first + 1, at_, kNoIndex, flags);
    at_ += (draft_.tensors[id].bytes + kAlignment - 1) / kAlignment * kAlignment;
    return id;
  }

  Draft draft_;
  uint64_t at_ = 0;
  uint32_t steps_ = 0, value_ = 0;
};

// Returns the words of a window: strides, dilations, pads at the top, left, bottom and right, then `rest`.
List window(uint32_t stride, uint32_t before, uint32_t after, List rest = {}) {
  List words = {stride - 1, stride - 1, 0, 0, before, before, after, after};
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}
// Return the attributes of a convolution after its window, and those of dense.
List conv_form(uint32_t form, uint32_t block = 0) { return {0, 0, 0, 0, 0, 0, form, block}; }
List dense_form(uint32_t form, uint32_t block = 0) { return {0, 0, 0, 0, 0, form, block}; }

Draft network(Type t) {
  const Type parameters = t == kF64 ? kF64 : kF32;
  Chain c;
  const uint32_t cw = c.weights(t, {2, 3, 3, 1}), cb = c.weights(t, {2}, 2);
  const uint32_t dw = c.weights(t, {2, 2, 4}, 3), db = c.weights(t, {4}, 4);
  const uint32_t scale = c.scale({4}, parameters), mean = c.weights(parameters, {4}, 5);
  const uint32_t fw = c.weights(t, {3, 4}, 6), fb = c.weights(t, {3}, 7);
  c.input(t, {1, 4, 4, 1});
  c.step(Op::kConv2d, t, {1, 4, 4, 2}, {cw, cb}, window(1, 1, 1, {1, bits(-6), bits(6)}));
  c.step(Op::kDepthwiseConv2d, t, {1, 2, 2, 4}, {dw, db}, window(2, 0, 0));
  c.step(Op::kAveragePool, t, {1, 2, 2, 4}, {}, window(1, 0, 1, {1, 1}));
  c.step(Op::kMaxPool, t, {1, 1, 1, 4}, {}, window(1, 0, 0, {1, 1}));
  c.step(Op::kBatchNorm, t, {1, 1, 1, 4}, {scale, mean, mean, scale}, {bits(1e-3f)});
  c.step(Op::kMean, t, {1, 4}, {}, {2 | 4, 0});
  c.step(Op::kDense, t, {1, 3}, {fw, fb});
  c.step(Op::kSoftmax, t, {1, 3}, {}, {1, bits(1)});
  return c.finish();
}

}  // namespace

Draft network_f16() { return network(kF16); }
Draft network_bf16() { return network(kBf16); }
Draft network_f64() { return network(kF64); }

Draft moves_f16() {
  Chain c;
  const uint32_t more = c.weights(kF16, {3, 2});
  c.input(kF16, {2, 3});
  c.step(Op::kPad, kF16, {4, 4}, {}, {1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 2});
  c.step(Op::kTranspose, kF16, {4, 4}, {}, {1, 0});
  c.step(Op::kSlice, kF16, {3, 2}, {}, {3, 0, 0, 0, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0, uint32_t(-2), 1});
  c.step(Op::kConcat, kF16, {6, 2}, {more}, {0});
  c.reshape(kF16, {3, 4});
  c.step(Op::kCopy, kF16, {3, 4});
  return c.finish();
}

Draft pointwise_bf16() {
  Chain c;
  const uint32_t a = c.weights(kBf16, {3}), b = c.weights(kBf16, {2, 1}, 2);
  c.input(kBf16, {2, 3});
  for (const Op op : {Op::kAdd, Op::kSub, Op::kMul}) c.step(op, kBf16, {2, 3}, {op == Op::kSub ? b : a});
  c.step(Op::kClamp, kBf16, {2, 3}, {}, {1, bits(-6), bits(6)});
  c.step(Op::kLeakyRelu, kBf16, {2, 3}, {}, {bits(0.25f)});
  for (const Op op : {Op::kSigmoid, Op::kTanh, Op::kHardSwish}) c.step(op, kBf16, {2, 3});
  return c.finish();
}

Draft weight_only() {  // int4 weights of 27, 9 and 15 codes: the last byte holds one
  Chain c;
  const uint32_t w8 = c.weights(kI8, {3, 3}), s3 = c.scale({3}), s1 = c.scale({1}), s5 = c.scale({5});
  const uint32_t w4 = c.weights(kI4, {3, 3, 3, 1}, 5), d4 = c.weights(kI4, {1, 3, 3}, 7), f4 = c.weights(kI4, {5, 3});
  const uint32_t b = c.weights(kF64, {5});
  c.input(kF32, {2, 3});
  c.step(Op::kDense, kF32, {2, 3}, {w8, kAbsent, s3}, dense_form(1));
  c.cast(kF16, {2, 3});
  c.reshape(kF16, {1, 2, 3, 1});
  c.step(Op::kConv2d, kF16, {1, 2, 3, 3}, {w4, kAbsent, s3}, window(1, 1, 1, conv_form(1)));
  c.cast(kBf16, {1, 2, 3, 3});
  c.step(Op::kDepthwiseConv2d, kBf16, {1, 2, 1, 3}, {d4, kAbsent, s1}, window(1, 0, 0, conv_form(0)));
  c.cast(kF64, {1, 2, 1, 3});
  c.step(Op::kDense, kF64, {1, 2, 1, 5}, {f4, b, s5}, dense_form(1));
  return c.finish();
}

Draft grouped_int4() {  // the last group of every filter is shorter than `block`
  Chain c;
  const uint32_t fw = c.weights(kI4, {3, 5}), fs = c.scale({3, 3}), fz = c.weights(kI8, {3, 3});
  const uint32_t cw = c.weights(kI4, {2, 2, 2, 1}), cs = c.scale({2, 2}), cz = c.weights(kI8, {2, 2});
  const uint32_t dw = c.weights(kI4, {3, 3, 2}), ds = c.scale({2, 3}), dz = c.weights(kI8, {2, 3});
  const uint32_t ew = c.weights(kI8, {3, 2}), es = c.scale({3, 2}), ez = c.weights(kI8, {3, 2});
  const uint32_t b = c.weights(kBf16, {2});
  c.input(kF32, {2, 5});
  c.step(Op::kDense, kF32, {2, 3}, {fw, kAbsent, fs, fz}, dense_form(0, 2));
  c.cast(kF16, {2, 3});
  c.reshape(kF16, {1, 2, 3, 1});
  c.step(Op::kConv2d, kF16, {1, 2, 3, 2}, {cw, kAbsent, cs, cz}, window(1, 0, 1, conv_form(0, 3)));
  c.cast(kBf16, {1, 2, 3, 2});
  c.step(Op::kDepthwiseConv2d, kBf16, {1, 2, 3, 2}, {dw, b, ds, dz}, window(1, 1, 1, conv_form(0, 4)));
  c.cast(kF64, {1, 2, 3, 2});
  c.step(Op::kDense, kF64, {1, 2, 3, 3}, {ew, kAbsent, es, ez}, dense_form(0, 1));  // int8 weights
  return c.finish();
}

Draft dynamic_int8() {  // Keras' int8 layers
  Chain c;
  const uint32_t fw = c.weights(kI8, {6, 4}), fb = c.weights(kF32, {6}), fs = c.scale({6});
  const uint32_t cw = c.weights(kI8, {2, 1, 2, 2}), cs = c.scale({2}, kBf16);
  const uint32_t dw = c.weights(kI8, {1, 2, 2}), ds = c.scale({1}, kF64), db = c.weights(kF64, {2});
  c.input(kF32, {2, 4});
  const uint32_t rows = c.dynamic(1, kI8, {2, 4}, kF32, {2});
  c.step(Op::kDense, kF32, {2, 6}, {fw, fb, fs, rows});
  c.cast(kBf16, {2, 6});
  c.reshape(kBf16, {2, 1, 3, 2});
  const uint32_t images = c.dynamic(1, kI8, {2, 1, 3, 2}, kBf16, {2});
  c.step(Op::kConv2d, kBf16, {2, 1, 2, 2}, {cw, kAbsent, cs, images}, window(1, 0, 0));
  c.cast(kF64, {2, 1, 2, 2});
  const uint32_t all = c.dynamic(0, kI8, {2, 1, 2, 2}, kF64, {1});
  c.step(Op::kDepthwiseConv2d, kF64, {2, 1, 1, 2}, {dw, db, ds, all}, window(1, 0, 0));
  return c.finish();
}

Draft float8_static() {
  Chain c;
  const uint32_t s = c.scale({1}), s2 = c.scale({2});
  const uint32_t cw = c.weights(kE4M3, {2, 3, 3, 1}), cb = c.weights(kF32, {2});
  const uint32_t dw = c.weights(kE4M3, {2, 2, 2}), db = c.weights(kBf16, {2});
  c.input(kF32, {1, 4, 4, 1});
  c.step(Op::kQuantize, kE4M3, {1, 4, 4, 1}, {s}, {0, 1}, Rounding::kHalfEven);
  c.step(Op::kConv2d, kE4M3, {1, 4, 4, 2}, {cw, cb, s2, s, s}, window(1, 1, 1, {1, bits(0), bits(6)}));
  c.step(Op::kDepthwiseConv2d, kBf16, {1, 2, 2, 2}, {dw, db, s, s}, window(2, 0, 0));
  c.cast(kF32, {1, 2, 2, 2});
  c.step(Op::kQuantize, kE5M2, {1, 2, 2, 2}, {s2}, {3, 0}, Rounding::kHalfEven);
  c.step(Op::kDequantize, kF32, {1, 2, 2, 2}, {s2}, {3, 1});
  c.step(Op::kQuantize, kE4M3, {1, 2, 2, 2}, {s2}, {3, 1}, Rounding::kHalfEven);
  c.step(Op::kDequantize, kF32, {1, 2, 2, 2}, {s}, {0, 0});
  return c.finish();
}

Draft float8_current() {
  Chain c;
  const uint32_t s = c.scale({1}), s3 = c.scale({3});
  const uint32_t w = c.weights(kE4M3, {3, 4}), b = c.weights(kF16, {3}), v = c.weights(kE4M3, {5, 3});
  c.input(kF32, {2, 2, 4});
  const uint32_t rows = c.dynamic(2, kE4M3, {2, 2, 4}, kF32, {2, 2});
  c.step(Op::kDense, kF16, {2, 2, 3}, {w, b, s3, rows});
  c.cast(kF32, {2, 2, 3});
  const uint32_t all = c.dynamic(0, kE4M3, {2, 2, 3}, kF32, {1});
  c.step(Op::kDense, kE4M3, {2, 2, 5}, {v, kAbsent, s, all, s});
  return c.finish();
}

Draft fused_casts() {
  Chain c;
  const uint32_t wf16 = c.weights(kF16, {3, 3}), wf32 = c.weights(kF32, {3, 3}), wbf16 = c.weights(kBf16, {3, 3});
  const uint32_t b = c.weights(kF16, {3});
  c.input(kF16, {2, 3});
  c.step(Op::kDense, kF32, {2, 3}, {wf16, b});
  c.step(Op::kDense, kBf16, {2, 3}, {wf32, kAbsent});
  c.step(Op::kDense, kF32, {2, 3}, {wbf16, kAbsent});
  c.step(Op::kDense, kF16, {2, 3}, {wf32, kAbsent}, {1, bits(-3), bits(3)});
  for (const Type type : {kBf16, kF64, kF16, kF64, kBf16, kF32, kF64, kF32, Type::kInt8, Type::kInt64})
    c.cast(type, {2, 3});
  return c.finish();
}

Draft dynamic_batched() {  // scales are batched as rows are
  Chain c;
  const uint32_t w = c.weights(kI8, {4, 3}), s = c.scale({4}), one = c.scale({1});
  const uint32_t v = c.weights(kE4M3, {5, 4}), g = c.weights(kI4, {2, 5}), gs = c.scale({2, 2});
  const uint32_t gz = c.weights(kI8, {2, 2});
  c.input(kF32, {4, 3});
  const uint32_t rows = c.dynamic(1, kI8, {4, 3}, kF32, {4});
  c.step(Op::kDense, kF32, {4, 4}, {w, kAbsent, s, rows});
  const uint32_t more = c.dynamic(1, kE4M3, {4, 4}, kF32, {4});
  c.step(Op::kDense, kF32, {4, 5}, {v, kAbsent, one, more});
  c.step(Op::kDense, kF32, {4, 2}, {g, kAbsent, gs, gz}, dense_form(0, 3));
  return c.finish(4);
}

Draft hybrid() {  // zero points that no code has: sums wrap
  Chain c;
  const uint32_t zeros = c.values<int32_t>({2}, {INT32_MIN, INT32_MAX});
  const uint32_t s = c.scale({2}), one = c.scale({1});
  const uint32_t w = c.weights(kI8, {4, 3}), cw = c.weights(kI8, {2, 2, 2, 1}), dw = c.weights(kI8, {1, 2, 2});
  c.input(kI8, {2, 3});
  c.step(Op::kDense, kF32, {2, 4}, {w, kAbsent, one, s, zeros});
  c.cast(kI8, {2, 4});
  c.reshape(kI8, {2, 2, 2, 1});
  c.step(Op::kConv2d, kF32, {2, 1, 1, 2}, {cw, kAbsent, s, s, zeros}, window(1, 0, 0));
  c.cast(kI8, {2, 1, 1, 2});
  c.reshape(kI8, {2, 1, 2, 1});
  c.step(Op::kDepthwiseConv2d, kF32, {2, 1, 1, 2}, {dw, kAbsent, one, s, zeros}, window(1, 0, 0));
  return c.finish();
}

std::span<const ModelCase> form_cases() {
  static constexpr ModelCase kCases[] = {{"network_f16", network_f16},
                                         {"network_bf16", network_bf16},
                                         {"network_f64", network_f64},
                                         {"moves_f16", moves_f16},
                                         {"pointwise_bf16", pointwise_bf16},
                                         {"weight_only", weight_only},
                                         {"grouped_int4", grouped_int4},
                                         {"dynamic_int8", dynamic_int8},
                                         {"float8_static", float8_static},
                                         {"float8_current", float8_current},
                                         {"fused_casts", fused_casts},
                                         {"dynamic_batched", dynamic_batched},
                                         {"hybrid", hybrid}};
  return kCases;
}

}  // namespace nacre::test
