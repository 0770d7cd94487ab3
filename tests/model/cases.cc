// The valid models that tests start from. Arena offsets are literal, because the tests also test the memory plan.

#include <bit>

#include "tests/model/builder.h"

namespace nacre::test {
namespace {

constexpr ElementType kF32 = ElementType::kFloat32, kI8 = ElementType::kInt8;

uint32_t word(int v) { return uint32_t(v); }
uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }

// Returns the values (i * 37 + seed) mod 101 - 50: neither all alike nor random.
template <class T>
std::vector<T> values(size_t count, int seed, float scale = 1) {
  std::vector<T> v(count);
  for (size_t i = 0; i < count; ++i) v[i] = T(float((int(i) * 37 + seed) % 101 - 50) * scale);
  return v;
}
std::vector<float> reals(size_t count, int seed) { return values<float>(count, seed, 0.02f); }

// Returns pairs {multiplier, shift} that mean about 2^-(shift + 1), one row per channel.
std::vector<int32_t> pairs(int channels, int shift) {
  std::vector<int32_t> v;
  for (int k = 0; k < channels; ++k) v.insert(v.end(), {(1 << 30) + k * 1000003, -shift});
  return v;
}

constexpr Policy kInt8Policy = {.compute = ElementType::kInt8,
                                .output = ElementType::kInt8,
                                .quantization = Quantization::kInt8Static,
                                .rounding = uint8_t(Rounding::kDouble)};

// Returns the words of a convolution or pool with kernel 3 and pads that keep the size: the window, then `rest`.
std::vector<uint32_t> same(std::vector<uint32_t> rest = {}) {
  std::vector<uint32_t> words = {0, 0, 0, 0, 1, 1, 1, 1};
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

}  // namespace

Draft dense_int8() {
  Draft d;
  const uint32_t qx = d.quantizer(0.05f, -3), qh = d.quantizer(0.1f, -128), qy = d.quantizer(0.2f, 5);
  const uint32_t qw = d.quantizer(0.01f, 0);
  const uint32_t w1 = d.weights<int8_t>({4, 8}, values<int8_t>(32, 1), qw);
  const uint32_t b1 = d.weights<int32_t>({4}, values<int32_t>(4, 5, 20));
  const uint32_t s1 = d.weights<int32_t>({1, 2}, pairs(1, 5));
  const uint32_t w2 = d.weights<int8_t>({3, 4}, values<int8_t>(12, 7), qw);
  const uint32_t b2 = d.weights<int32_t>({3}, values<int32_t>(3, 9, 20));
  const uint32_t s2 = d.weights<int32_t>({3, 2}, pairs(3, 6));
  const uint32_t x = d.arena(kI8, {1, 8}, 0, 0, 0, qx, kInput);
  const uint32_t h = d.arena(kI8, {1, 4}, 0, 1, 16, qh);
  const uint32_t y = d.arena(kI8, {1, 3}, 1, 1, 0, qy, kOutput);
  d.layer("fc1", "FULLY_CONNECTED", kInt8Policy);
  d.step(Op::kDense, {1, word(-128), 127, word(-3), word(-128)}, {x, w1, b1, s1}, {h}, Rounding::kDouble);
  d.layer("fc2", "FULLY_CONNECTED", kInt8Policy);
  d.step(Op::kDense, {0, 0, 0, word(-128), 5}, {h, w2, b2, s2}, {y}, Rounding::kDouble);
  d.program(Entry::kInfer, "", {32});
  d.tensor_names = {"w1", "b1", "s1", "w2", "b2", "s2", "x", "h", "y"};
  d.metadata = {{"source", "dense.tflite"}, {"labels", "yes\nno\nmaybe"}};
  d.golden.push_back(
      {0, {0, 16, 32, 48, 64, 240, 224, 208}, {6, 254, 13}, 0});  // by TFLite's formulas in exact integers
  return d;
}

Draft conv_add_int8() {
  Draft d;
  const uint32_t qx = d.quantizer(0.05f, 2), qc = d.quantizer(0.05f, 2), qy = d.quantizer(1.0f / 256, -128);
  const uint32_t w = d.weights<int8_t>({2, 3, 3, 2}, values<int8_t>(36, 3));
  const uint32_t b = d.weights<int32_t>({2}, values<int32_t>(2, 1, 30));
  const uint32_t s = d.weights<int32_t>({2, 2}, pairs(2, 7));
  const uint32_t sum = d.weights<int32_t>({3, 2}, pairs(3, 3));
  const uint32_t fw = d.weights<int8_t>({5, 50}, values<int8_t>(250, 11));
  const uint32_t fs = d.weights<int32_t>({1, 2}, pairs(1, 8));
  const uint32_t x = d.arena(kI8, {1, 5, 5, 2}, 0, 1, 0, qx, kInput);
  const uint32_t c = d.arena(kI8, {1, 5, 5, 2}, 0, 1, 64, qc);
  const uint32_t a = d.arena(kI8, {1, 5, 5, 2}, 1, 2, 64, qc);  // over c
  const uint32_t f = d.arena(kI8, {1, 5}, 2, 3, 0, qc);
  const uint32_t y = d.arena(kI8, {1, 5}, 3, 3, 0, qy, kOutput);  // over f
  const uint32_t flat = d.alias(a, {1, 50}, 2, 2);
  d.layer("conv", "CONV_2D", kInt8Policy);
  d.step(Op::kConv2d, same({0, 0, 0, 2, 2, 0}), {x, w, b, s}, {c}, Rounding::kDouble);
  d.layer("add", "ADD", kInt8Policy);
  d.step(Op::kAdd, {1, word(-100), 100, 2, 2, 2, 20}, {c, x, sum}, {a}, Rounding::kDouble);
  d.layer("fc", "FULLY_CONNECTED", kInt8Policy);
  d.step(Op::kDense, {0, 0, 0, 2, 2}, {flat, fw, kAbsent, fs}, {f}, Rounding::kDouble);
  d.layer("softmax", "SOFTMAX", kInt8Policy);
  d.step(Op::kSoftmax, {1, 0, 1 << 30, 23, word(-248)}, {f}, {y}, Rounding::kDouble);
  d.program(Entry::kInfer, "", {128});
  return d;
}

Draft float_chain() {
  Draft d;
  const uint32_t cw = d.weights<float>({4, 3, 3, 1}, reals(36, 1)), cb = d.weights<float>({4}, reals(4, 2));
  const uint32_t dw = d.weights<float>({3, 3, 8}, reals(72, 3)), db = d.weights<float>({8}, reals(8, 4));
  const uint32_t fw = d.weights<float>({3, 8}, reals(24, 5)), fb = d.weights<float>({3}, reals(3, 6));
  const uint32_t x = d.arena(kF32, {1, 6, 6, 1}, 0, 0, 0, kNoIndex, kInput);
  const uint32_t c = d.arena(kF32, {1, 6, 6, 4}, 0, 1, 1152);
  const uint32_t e = d.arena(kF32, {1, 6, 6, 8}, 1, 2, 0);
  const uint32_t p = d.arena(kF32, {1, 2, 2, 8}, 2, 3, 1152);
  const uint32_t m = d.arena(kF32, {1, 8}, 3, 4, 0);
  const uint32_t f = d.arena(kF32, {1, 3}, 4, 5, 64);
  const uint32_t y = d.arena(kF32, {1, 3}, 5, 5, 0, kNoIndex, kOutput);
  d.layer("conv", "Conv");
  d.step(Op::kConv2d, same({1, bits(0), bits(6)}), {x, cw, cb}, {c});
  d.step(Op::kDepthwiseConv2d, same(), {c, dw, db}, {e});
  d.step(Op::kMaxPool, {2, 2, 0, 0, 0, 0, 0, 0, 2, 2}, {e}, {p});
  d.step(Op::kMean, {2 | 4, 0}, {p}, {m});
  d.step(Op::kDense, {}, {m, fw, fb}, {f});
  d.step(Op::kSoftmax, {1, bits(1)}, {f}, {y});
  d.program(Entry::kInfer, "", {1152 + 576});
  return d;
}

Draft two_banks() {
  Draft d;
  const uint32_t w1 = d.weights<float>({8, 4}, reals(32, 1)), w2 = d.weights<float>({2, 8}, reals(16, 2));
  const uint32_t x = d.arena(kF32, {1, 4}, 0, 0, 0, kNoIndex, kInput, 0);
  const uint32_t h = d.arena(kF32, {1, 8}, 0, 1, 0, kNoIndex, 0, 1);
  const uint32_t g = d.arena(kF32, {1, 8}, 1, 2, 0, kNoIndex, 0, 0);
  const uint32_t y = d.arena(kF32, {1, 2}, 2, 2, 32, kNoIndex, kOutput, 1);
  d.layer("mlp", "Gemm");
  d.step(Op::kDense, {}, {x, w1, kAbsent}, {h});
  d.step(Op::kTanh, {}, {h}, {g});
  d.step(Op::kDense, {}, {g, w2, kAbsent}, {y});
  d.program(Entry::kInfer, "arm/m7", {32, 48});
  d.programs[0].bank_names = {"tcm", "sram"};
  return d;
}

Draft multi_input() {
  Draft d;
  const uint32_t a = d.arena(kF32, {2, 3, 4}, 0, 1, 0, kNoIndex, kInput);
  const uint32_t b = d.arena(kF32, {3, 1}, 0, 1, 96, kNoIndex, kInput);
  const uint32_t s = d.arena(kF32, {2, 3, 4}, 0, 1, 112, kNoIndex, kOutput);
  const uint32_t m = d.arena(kF32, {2, 3, 4}, 1, 1, 208, kNoIndex, kOutput);
  d.step(Op::kAdd, {}, {a, b}, {s});
  d.step(Op::kMul, {}, {a, b}, {m});
  d.program(Entry::kInfer, "", {304});
  return d;
}

Draft batched() {
  Draft d;
  const uint32_t w = d.weights<float>({3, 5}, reals(15, 1)), b = d.weights<float>({3}, reals(3, 2));
  const uint32_t x = d.arena(kF32, {4, 5}, 0, 0, 0, kNoIndex, kInput | kBatched);
  const uint32_t h = d.arena(kF32, {4, 3}, 0, 1, 80, kNoIndex, kBatched);
  const uint32_t y = d.arena(kF32, {4, 3}, 1, 1, 80, kNoIndex, kOutput | kBatched);  // over h
  d.layer("fc", "Gemm");
  d.step(Op::kDense, {}, {x, w, b}, {h});
  d.step(Op::kClamp, {1, bits(0), bits(6)}, {h}, {y});
  d.program(Entry::kInfer, "", {128}, 4);
  return d;
}

Draft moves() {
  Draft d;
  const uint32_t x = d.arena(kI8, {2, 3}, 0, 1, 0, kNoIndex, kInput);
  const uint32_t p = d.arena(kI8, {4, 4}, 0, 3, 16);
  const uint32_t t = d.arena(kI8, {3, 2}, 1, 3, 32);
  const uint32_t s = d.arena(kI8, {3, 2}, 2, 3, 48);
  const uint32_t y = d.arena(kI8, {6, 2}, 3, 3, 64, kNoIndex, kOutput);
  d.step(Op::kPad, {1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 7, 0}, {x}, {p});
  d.step(Op::kTranspose, {1, 0}, {x}, {t});
  d.step(Op::kSlice, {3, 0, 0, 0, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0, word(-2), 1}, {p}, {s});
  d.step(Op::kConcat, {0}, {t, s}, {y});
  d.program(Entry::kInfer, "", {96});
  return d;
}

Draft elided_concat() {
  Draft d;
  const uint32_t x = d.arena(kF32, {1, 4}, 0, 1, 0, kNoIndex, kInput);
  const uint32_t both = d.arena(kF32, {1, 8}, 0, 2, 16);
  const uint32_t y = d.arena(kF32, {1, 8}, 2, 2, 48, kNoIndex, kOutput);
  const uint32_t left = d.alias(both, {1, 4}, 0, 2, 0), right = d.alias(both, {1, 4}, 1, 2, 16);
  d.step(Op::kTanh, {}, {x}, {left});
  d.step(Op::kSigmoid, {}, {x}, {right});
  d.step(Op::kClamp, {1, bits(-0.5f), bits(0.5f)}, {both}, {y});
  d.program(Entry::kInfer, "", {80});
  return d;
}

Draft stateful() {
  Draft d;
  const uint32_t initial = d.weights<float>({2, 4}, reals(8, 1));
  const uint32_t w = d.global(Region::kState, kF32, {2, 4}, kTrainable);
  d.tensors[w].initial = initial;
  const uint32_t memory = d.global(Region::kStream, kF32, {1, 2});
  const uint32_t copy = d.global(Region::kDerived, kF32, {2, 4});
  const uint32_t x = d.arena(kF32, {1, 4}, 0, 1, 0, kNoIndex, kInput);
  const uint32_t h = d.arena(kF32, {1, 2}, 0, 2, 16);
  const uint32_t g = d.arena(kF32, {1, 2}, 1, 2, 32);
  const uint32_t s = d.arena(kF32, {1, 2}, 2, 3, 48);
  const uint32_t y = d.arena(kF32, {1, 2}, 3, 3, 0, kNoIndex, kOutput);
  d.step(Op::kDense, {}, {x, w, kAbsent}, {h});
  d.step(Op::kDense, {}, {x, copy, kAbsent}, {g});
  d.step(Op::kAdd, {}, {h, g}, {s});
  d.step(Op::kMul, {}, {s, memory}, {y});
  d.program(Entry::kInfer, "", {64});
  d.step(Op::kCopy, {}, {w}, {copy});
  d.program(Entry::kDerive, "", {0});
  return d;
}

Draft packed() {
  Draft d;
  const uint32_t initial = d.weights<float>({3, 5}, reals(15, 1));
  const uint32_t w = d.global(Region::kState, kF32, {3, 5}, kTrainable);
  d.tensors[w].initial = initial;
  const uint32_t panels = d.global(Region::kDerived, kF32, {3, 5}, 0, layout_of(2, 1));
  const uint32_t rows = d.global(Region::kDerived, ElementType::kInt4, {3, 5});
  const uint32_t x = d.arena(kF32, {1, 2, 1, 3}, 0, 1, 0, kNoIndex, kInput);
  const uint32_t pixels = d.arena(kF32, {1, 2, 1, 3}, 0, 0, 32);
  d.tensors[pixels].layout = layout_of(2, 0, kOfChannels);
  d.tensors[pixels].bytes = 32;
  const uint32_t y = d.arena(kF32, {1, 2, 1, 3}, 1, 1, 32, kNoIndex, kOutput);
  d.step(Op::kPack, {}, {x}, {pixels});
  d.step(Op::kTanh, {}, {x}, {y});
  d.program(Entry::kInfer, "", {64});
  d.step(Op::kPack, {}, {w}, {panels});
  d.program(Entry::kDerive, "", {0});
  (void)rows;
  return d;
}

Draft guarded() {
  Draft d;
  const uint32_t x = d.arena(kF32, {4}, 0, 1, 0, kNoIndex, kInput);
  const uint32_t go = d.arena(ElementType::kUint32, {1}, 0, 1, 16, kNoIndex, kInput);
  const uint32_t h = d.arena(kF32, {4}, 0, 1, 32);
  const uint32_t y = d.arena(kF32, {4}, 1, 1, 48, kNoIndex, kOutput);
  d.step(Op::kSigmoid, {}, {x}, {h});
  d.steps[d.step(Op::kTanh, {}, {h}, {y})].guard = go;
  d.program(Entry::kInfer, "", {64});
  return d;
}

Draft two_targets() {
  Draft d;
  const uint32_t w = d.weights<float>({2, 4}, reals(8, 1));
  for (const char* target : {"x86/avx2", "arm/m4"}) {
    const bool small = target[0] == 'a';
    const uint32_t x = d.arena(kF32, {1, 4}, 0, 0, small ? 0 : 4096, kNoIndex, kInput);
    const uint32_t h = d.arena(kF32, {1, 2}, 0, 1, small ? 16 : 4160);
    const uint32_t y = d.arena(kF32, {2}, 1, 1, 0, kNoIndex, kOutput);
    const uint32_t flat = d.alias(h, {2}, 1, 1);
    d.step(Op::kDense, {}, {x, w, kAbsent}, {h});
    d.step(Op::kTanh, {}, {flat}, {y});
    d.program(Entry::kInfer, target, {small ? 32u : 4224u});
  }
  return d;
}

Draft per_channel() {
  Draft d;
  const uint32_t scales = d.weights<float>({3}, {0.01f, 0.02f, 0.04f});
  const uint32_t zeros = d.weights<int32_t>({3}, {0, 0, 0});
  const uint32_t q = d.quantizer(0, 0);
  d.quantizers[q].scales = scales;
  d.quantizers[q].zeros = zeros;
  const uint32_t w = d.weights<int8_t>({3, 1, 1, 2}, values<int8_t>(6, 3), q);
  const uint32_t s = d.weights<int32_t>({3, 2}, pairs(3, 4));
  const uint32_t x = d.arena(kI8, {1, 3, 3, 2}, 0, 0, 0, kNoIndex, kInput);
  const uint32_t y = d.arena(kI8, {1, 2, 2, 3}, 0, 0, 32, kNoIndex, kOutput);
  d.layer("conv", "QLinearConv", kInt8Policy);
  d.step(Op::kConv2d, {1, 1}, {x, w, kAbsent, s}, {y}, Rounding::kSingle);
  d.program(Entry::kInfer, "", {48});
  return d;
}

Draft reshaped() {
  Draft d;
  const uint32_t x = d.arena(kF32, {2, 6}, 0, 0, 0, kNoIndex, kInput);
  const uint32_t y = d.arena(kF32, {3, 4}, 0, 0, 48, kNoIndex, kOutput);
  d.step(Op::kReshape, {2, 3, 4}, {x}, {y});
  d.program(Entry::kInfer, "", {96});
  return d;
}

Draft casts() {
  Draft d;
  const uint32_t scale = d.weights<float>({1}, {0.1f}), zero = d.weights<int32_t>({1}, {-7});
  const uint32_t pair = d.weights<int32_t>({1, 2}, pairs(1, 0));
  const uint32_t w = d.weights<int8_t>({2, 6}, values<int8_t>(12, 9)), ws = d.weights<float>({1}, {0.02f});
  const uint32_t x = d.arena(kF32, {3, 6}, 0, 0, 0, kNoIndex, kInput);
  const uint32_t q = d.arena(kI8, {3, 6}, 0, 1, 80);
  const uint32_t r = d.arena(kI8, {3, 6}, 1, 2, 80);  // over q
  const uint32_t f = d.arena(kF32, {3, 6}, 2, 3, 0);
  const uint32_t codes = d.arena(kI8, {3, 6}, 3, 4, 80);
  const uint32_t row_scale = d.arena(kF32, {3}, 3, 4, 112), row_zero = d.arena(ElementType::kInt32, {3}, 3, 4, 128);
  const uint32_t y = d.arena(kF32, {3, 2}, 4, 4, 144, kNoIndex, kOutput);
  d.step(Op::kQuantize, {0}, {x, scale, zero}, {q}, Rounding::kHalfAway);
  d.step(Op::kRequantize, {word(-7), 3}, {q, pair}, {r}, Rounding::kDouble);
  d.step(Op::kDequantize, {0}, {r, scale, kAbsent}, {f});
  d.step(Op::kDynamicQuantize, {1, 0}, {f}, {codes, row_scale, row_zero});
  d.step(Op::kDense, {}, {codes, w, kAbsent, ws, row_scale, row_zero}, {y});
  d.program(Entry::kInfer, "", {176});
  return d;
}

const std::vector<ModelCase>& cases() {
  static const std::vector<ModelCase> kAll = [] {
    std::vector<ModelCase> all = {{"dense_int8", dense_int8},
                                  {"conv_add_int8", conv_add_int8},
                                  {"float_chain", float_chain},
                                  {"two_banks", two_banks},
                                  {"multi_input", multi_input},
                                  {"batched", batched},
                                  {"moves", moves},
                                  {"elided_concat", elided_concat},
                                  {"stateful", stateful},
                                  {"packed", packed},
                                  {"guarded", guarded},
                                  {"two_targets", two_targets},
                                  {"per_channel", per_channel},
                                  {"casts", casts},
                                  {"reshaped", reshaped},
                                  {"training", training},
                                  {"training_immediate", training_immediate}};
    all.insert(all.end(), form_cases().begin(), form_cases().end());
    return all;
  }();
  return kAll;
}

}  // namespace nacre::test
