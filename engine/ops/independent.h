// Loops that a device shares among its threads.
//
//   for (int i : independent(n))    iterations that write apart from each other and read nothing that another one
//                                   writes: the same bytes in any order, and side by side
//   if (!in_order()) return;        what follows carries something from one iteration to the next: one thread does it
//   raise(at, v)                    *at = max(*at, v), whichever thread comes first
//
// The host has one thread, and both are the plain loop. A port whose threads run one kernel together names a file,
// -DNACRE_THREADS='"ports/cuda/threads.h"', that defines NACRE_THREAD, an initializer of the Thread that runs, and
// NACRE_RAISE(at, v), an atomic maximum. Every kernel is written so: all that it writes, it writes in loops of the
// first kind, or behind the second.
#pragma once

#include <cstdint>
#include <type_traits>

#include "engine/base/isa.h"

#ifdef NACRE_THREADS
#include NACRE_THREADS
#endif

namespace nacre::inline NACRE_ISA {

struct Thread {
  uint32_t index, count;
};

#ifdef NACRE_THREADS

inline constexpr bool kThreads = true;

constexpr Thread this_thread() {
  if (std::is_constant_evaluated()) return {0, 1};
  return NACRE_THREAD;
}

// This thread's share of [0, count): index, index + threads, ... Unsigned: past the last it may be beyond int.
struct Independent {
  struct Iterator {
    uint32_t i, step;
    constexpr int operator*() const { return int(i); }
    constexpr Iterator& operator++() {
      i += step;
      return *this;
    }
    constexpr bool operator!=(uint32_t end) const { return i < end; }
  };
  uint32_t count;
  constexpr Iterator begin() const {
    const Thread thread = this_thread();
    return {thread.index, thread.count};
  }
  constexpr uint32_t end() const { return count; }
};
constexpr Independent independent(int n) { return {uint32_t(n)}; }

constexpr bool in_order() { return this_thread().index == 0; }

constexpr void raise(uint32_t* at, uint32_t v) {
  if (std::is_constant_evaluated()) *at = v > *at ? v : *at;
  else NACRE_RAISE(at, v);
}

#else

inline constexpr bool kThreads = false;

struct Independent {
  struct Iterator {
    int i;
    constexpr int operator*() const { return i; }
    constexpr Iterator& operator++() {
      ++i;
      return *this;
    }
    constexpr bool operator!=(int end) const { return i < end; }
  };
  int count;
  constexpr Iterator begin() const { return {0}; }
  constexpr int end() const { return count; }
};
constexpr Independent independent(int n) { return {n}; }

constexpr bool in_order() { return true; }

constexpr void raise(uint32_t* at, uint32_t v) { *at = v > *at ? v : *at; }

#endif

// f(i, j, i * columns + j) for every element of a matrix of `rows` x `columns`, independent of each other.
template <class F>
constexpr void each_independent(int rows, int columns, F f) {
  if constexpr (kThreads) {
    for (int at : independent(rows * columns)) f(at / columns, at % columns, at);
  } else {
    int at = 0;
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j, ++at) f(i, j, at);
  }
}

// The same for an array of four axes: f(i, j, k, l, e).
template <class F>
constexpr void each_independent(int a, int b, int c, int d, F f) {
  if constexpr (kThreads) {
    for (int e : independent(a * b * c * d)) f(e / d / c / b, e / d / c % b, e / d % c, e % d, e);
  } else {
    int e = 0;
    for (int i = 0; i < a; ++i)
      for (int j = 0; j < b; ++j)
        for (int k = 0; k < c; ++k)
          for (int l = 0; l < d; ++l, ++e) f(i, j, k, l, e);
  }
}

}  // namespace nacre::inline NACRE_ISA
