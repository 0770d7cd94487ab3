// Gradients of broadcasts and of reductions, over vectors:
//
//   dx_i = sum_j f(dy_ij, ..)    the sum over the elements of y in which x_i was repeated; one term if it was not
//
// If the last axes of y are kept (not summed), vectors go along them. Each sum is then made in the order of the
// reference. The code is in run.h.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/reduction/forms.h"
#include "engine/ops/binary.h"
#include "engine/ops/select.h"

namespace nacre::inline NACRE_ISA {

// Walks over y for each element of dx, with offsets into N arrays. The last axes that are all kept, or all summed,
// form a run if memory allows it. Along a run the offset of each array grows by one or stays.
template <int N>
struct TermWalk {
  Walk<N> kept, summed;  // the walks without the run's axes
  int count = 1;         // elements of the run
  bool sums = false;     // whether the run's terms become one number
  int step[N] = {};      // each array's step along the run: 0 or 1
  uint64_t elements = 1;

  template <class Summed>
  [[gnu::cold, gnu::noinline]] static TermWalk of(const Walk<N>& all, const Summed& summed) {
    Walk<N> axes;  // joined axes, the last one first
    bool kind[kMaxRank] = {};
    TermWalk made;
    for (int axis = all.rank - 1; axis >= 0; --axis) {
      made.elements *= uint64_t(all.size[axis]);
      if (all.size[axis] == 1) continue;
      const int last = axes.rank - 1;
      bool joins = last >= 0 && kind[last] == summed(axis);
      for (int n = 0; joins && n < N; ++n) joins = all.stride[n][axis] == axes.stride[n][last] * axes.size[last];
      if (joins) {
        axes.size[last] *= all.size[axis];
        continue;
      }
      kind[axes.rank] = summed(axis);
      axes.size[axes.rank] = all.size[axis];
      for (int n = 0; n < N; ++n) axes.stride[n][axes.rank] = all.stride[n][axis];
      ++axes.rank;
    }
    if (axes.rank == 0) return made;
    made.count = axes.size[0];
    made.sums = kind[0];
    for (int n = 0; n < N; ++n) made.step[n] = axes.stride[n][0];
    for (int i = axes.rank - 1; i > 0; --i) {
      Walk<N>& walk = kind[i] ? made.summed : made.kept;
      walk.size[walk.rank] = axes.size[i];
      for (int n = 0; n < N; ++n) walk.stride[n][walk.rank] = axes.stride[n][i];
      ++walk.rank;
    }
    return made;
  }

  // Returns the walk for an x that was repeated along some axes of y.
  static TermWalk of(const Walk<N>& all, Shape x, Shape y) {
    return of(all, [x, y](int axis) {
      const int i = axis - (y.rank - x.rank);
      return i < 0 || (x[i] == 1 && y[axis] != 1);
    });
  }
};

// Returns the walk of SumTo, MulGradient and SelectGradient. dx is the last operand, dy the first.
[[gnu::cold, gnu::noinline]] inline TermWalk<2> terms_of_pair(const Operands& operands, int other) {
  const Shape y = operands[0];
  return TermWalk<2>::of(broadcast_walk(y, operands[other], y), operands[operands.count - 1], y);
}

template <class T>
struct FastSumTo {
  TermWalk<2> walk;  // both offsets are into dy
  bool negative;

  static FastSumTo from(const Words& words, const Operands& operands) {
    return {terms_of_pair(operands, 0), words[SumTo::kNegative] != 0};
  }
  uint64_t work() const { return walk.elements; }
  void run(const T* dy, T* dx) const;
};

template <class T>
struct FastMulGradient {
  TermWalk<2> walk;

  static FastMulGradient from(const Words&, const Operands& operands) { return {terms_of_pair(operands, 1)}; }
  uint64_t work() const { return walk.elements; }
  void run(const T* dy, const T* b, T* da) const;
};

template <class T>
struct FastSelectGradient {
  TermWalk<2> walk;
  bool when;

  static FastSelectGradient from(const Words& words, const Operands& operands) {
    return {terms_of_pair(operands, 1), words[SelectGradient::kInput] == 0};
  }
  uint64_t work() const { return walk.elements; }
  void run(const T* dy, const Bool* c, T* dx) const;
};

// Gradient of every function of binary.h on real numbers but pow.
template <class T>
struct FastBinaryGradient {
  TermWalk<3> walk;
  uint32_t function;
  bool second;

  static FastBinaryGradient from(const Words& words, const Operands& operands) {
    return {terms_of(operands), words[Binary::kFunction], words[Binary::kInput] != 0};
  }
  uint64_t work() const { return walk.elements; }
  void run(const T* dy, const T* a, const T* b, T* dx) const;
  static bool accepts(const Words& words, const Operands&) { return words[Binary::kFunction] != Binary::kPow; }

 private:
  [[gnu::cold, gnu::noinline]] static TermWalk<3> terms_of(const Operands& operands) {
    const Shape y = operands[0];
    const Walk<2> of_a = broadcast_walk(y, operands[1], y), of_b = broadcast_walk(y, operands[2], y);
    Walk<3> all;
    all.rank = y.rank;
    for (int axis = 0; axis < y.rank; ++axis) {
      all.size[axis] = y[axis];
      for (int n = 0; n < 2; ++n) all.stride[n][axis] = of_a.stride[n][axis];
      all.stride[2][axis] = of_b.stride[1][axis];
    }
    return TermWalk<3>::of(all, operands[operands.count - 1], y);
  }
};

// Returns a walk over x, reduced along `axes`, with the offset into dy. It is for gradients that sum nothing.
[[gnu::cold, gnu::noinline]] inline TermWalk<1> spread_of(uint32_t axes, Shape x) {
  Walk<1> all;
  all.rank = x.rank;
  int stride = 1;
  for (int axis = x.rank - 1; axis >= 0; --axis) {
    const bool reduced = (axes >> axis & 1) != 0;
    all.size[axis] = x[axis];
    all.stride[0][axis] = reduced ? 0 : stride;
    stride *= reduced ? 1 : x[axis];
  }
  return TermWalk<1>::of(all, [](int) { return false; });
}

template <class T>
struct FastMeanGradient {
  TermWalk<1> walk;
  int count;  // terms of each mean

  static FastMeanGradient from(const Words& words, const Operands& operands) {
    const Shape x = operands[operands.count - 1];
    return {spread_of(words[MeanGradient::kAxes], x), x.elements() / operands[0].elements()};
  }
  uint64_t work() const { return walk.elements; }
  void run(const T* dy, T* dx) const;
};

// Gradient of sums, and of maxima and minima over axes that are neighbours. It takes no products.
template <class T>
struct FastReduceGradient {
  TermWalk<1> walk;
  Extent extent;
  uint32_t function;

  static FastReduceGradient from(const Words& words, const Operands& operands) {
    const uint32_t axes = words[Reduce::kAxes];
    return {spread_of(axes, operands[1]), Extent::of(axes, operands[1]), words[Reduce::kFunction]};
  }
  uint64_t work() const { return 2 * walk.elements; }
  void run(const T* dy, const T* x, const T* y, T* dx) const;
  static bool accepts(const Words& words, const Operands& operands) {
    const FastReduceGradient form = from(words, operands);
    return form.function == Reduce::kSum || (form.function != Reduce::kProd && form.extent.fits);
  }
};

namespace fast::broadcast_gradient {

template <class Tier>
constexpr auto lines() {
  return floats<FastSumTo>("SumTo", Op::kSumTo, SumTo::shapes, 1) +
         floats<FastMulGradient>("MulGradient", Op::kMulGradient, MulGradient::shapes, 1) +
         floats<FastBinaryGradient>("BinaryGradient", Op::kBinaryGradient, BinaryGradient::shapes, 1) +
         floats<FastSelectGradient>("SelectGradient", Op::kSelectGradient, SelectGradient::shapes, 1) +
         floats<FastMeanGradient>("MeanGradient", Op::kMeanGradient, MeanGradient::shapes) +
         floats<FastReduceGradient>("ReduceGradient", Op::kReduceGradient, ReduceGradient::shapes);
}

}  // namespace fast::broadcast_gradient

}  // namespace nacre::inline NACRE_ISA
