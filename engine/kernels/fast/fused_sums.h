// Computes the epilogue of fused_epilogue.h over vectors V, y = T(f(T(T(s + b) + r))), for a row of sums s.
#pragma once

#include "engine/kernels/fast/real_maps.h"
#include "engine/kernels/fast/scaled_sums.h"
#include "engine/ops/fused_epilogue.h"

namespace nacre::inline NACRE_ISA {

// Returns the function that a clamp names; null if the clamp has bounds or nothing.
template <class V>
RealMap::Function* function_of(const Clamp& clamp) {
  using R = RealFunctions<V>;
  switch (clamp.kind) {
    case Clamp::kLeakyRelu: return &RealMap::run<V, &R::leaky_relu>;
    case Clamp::kSigmoid: return &RealMap::run<V, &R::sigmoid>;
    case Clamp::kTanh: return &RealMap::run<V, &R::tanh>;
    case Clamp::kHardSwish: return &RealMap::run<V, &R::hard_swish>;
    case Clamp::kSilu: return &RealMap::run<V, &R::silu>;
    case Clamp::kGelu: return &RealMap::run<V, &R::gelu>;
    case Clamp::kGeluTanh: return &RealMap::run<V, &R::gelu_tanh>;
    default: return nullptr;
  }
}

template <class V, class T>
struct FusedSums {
  using F = typename V::F;

  Clamp clamp;
  Optional<const T> bias, residual;
  RealMap::Function* function;

  FusedSums(const Clamp& c, Optional<const T> b, Optional<const T> r)
      : clamp(c), bias(b), residual(r), function(function_of<V>(c)) {}

  // Finishes the sums of n channels from k on. Their elements of y and of the residual begin at i.
  [[gnu::noinline]] void operator()(const float* sums, int n, int k, int i, T* y) const {
    constexpr int kPiece = 64;
    alignas(64) float piece[kPiece];
    const F low = V::set(function != nullptr ? low_of({}) : low_of(clamp)),
            high = V::set(function != nullptr ? high_of({}) : high_of(clamp));
    for (int first = 0; first < n; first += kPiece) {
      const int count = n - first < kPiece ? n - first : kPiece;
      each_vector<V>(count, [&](int j, auto lanes) {
        const int c = first + j;
        F v = load<V>(sums + c, lanes);
        if (bias) v = V::add(v, load<V>(bias.data + k + c, lanes));
        if (residual) v = V::add(rounded_to<V, T>(v), load<V>(residual.data + i + c, lanes));
        v = V::min(high, V::max(low, v));
        if (function == nullptr) store<V>(y + i + c, v, lanes);
        else store<V>(piece + j, rounded_to<V, T>(v), lanes);
      });
      if (function == nullptr) continue;
      function(piece, piece, count, {function_alpha(), 0});
      from_floats<V>(y + i + first, piece, count);
    }
  }

  // Finishes a tile whose sums include the bias: rows of n sums, `step` apart, and `row` apart in y. The function is
  // applied to the whole tile at once: computing few vectors at a time, each operation would wait for the one before.
  static constexpr int kMostRows = 16, kMostColumns = 64;
  [[gnu::noinline]] void tile(const float* sums, ptrdiff_t step, int rows, int n, int i, int row, T* y) const {
    if (function == nullptr) {
      for (int r = 0; r < rows; ++r) (*this)(sums + r * step, n, 0, i + r * row, y);
      return;
    }
    alignas(64) float tile[kMostRows * kMostColumns];
    const int width = (n + V::kLanes - 1) / V::kLanes * V::kLanes;
    for (int r = 0; r < rows; ++r)
      each_vector<V>(n, [&](int c, auto lanes) {
        F v = load<V>(sums + r * step + c, lanes);
        if (residual) v = V::add(rounded_to<V, T>(v), load<V>(residual.data + i + r * row + c, lanes));
        V::store(tile + r * width + c, rounded_to<V, T>(v));
      });
    function(tile, tile, rows * width, {function_alpha(), 0});
    for (int r = 0; r < rows; ++r) from_floats<V>(y + i + r * row, tile + r * width, n);
  }

 private:
  float function_alpha() const { return std::bit_cast<float>(clamp.low); }
};

}  // namespace nacre::inline NACRE_ISA
