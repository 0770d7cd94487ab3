// Loops that a device shares among its threads:
//
//   for (int i : independent(n))    each iteration writes memory of its own and reads nothing that another one writes.
//                                   So any order, and running side by side, gives the same bytes
//   if (!in_order()) return;        the code after it carries values from one iteration to the next: one thread runs it
//   raise(at, v)                    sets *at = max(*at, v), whichever thread comes first
//
// A team runs a long iteration, such as a sum over many numbers. A team is a group of threads that wait for each
// other.
//
//   for (int i : teams(n))          as independent(n), but all threads of a team run the same iterations
//   for (int j : of_team(n))        gives, inside such an iteration, this thread's share
//   team_sum(v), team_max(v)        combine the v of the team's threads in a fixed order; each thread gets the result.
//                                   All threads must call it
//   leads()                         is true for one thread in each team, which stores the team's common result
//   if (first_team())               begins code that one team runs
//
// On the host there is one thread, and all of these are plain loops. A port whose threads run one kernel together
// names a file, -DNACRE_THREADS='"ports/cuda/threads.h"'. That file defines NACRE_THREAD, an initializer of the
// Thread that runs, and NACRE_RAISE(at, v), an atomic maximum. If teams have more than one thread, it also defines
// NACRE_TEAM and NACRE_IN_TEAM, initializers of Thread for the team and for the thread within it, and
// NACRE_TEAM_SUM(v) and NACRE_TEAM_MAX(v). Every kernel writes only in loops over independent(), teams() or of_team(),
// by raise(), or after in_order() or leads().
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

#ifndef NACRE_TEAM
#define NACRE_TEAM NACRE_THREAD
#define NACRE_IN_TEAM {0, 1}
#define NACRE_TEAM_SUM(v) (v)
#define NACRE_TEAM_MAX(v) (v)
#endif

#ifdef NACRE_THREADS

inline constexpr bool kThreads = true;

constexpr Thread this_thread() {
  if (std::is_constant_evaluated()) return {0, 1};
  return NACRE_THREAD;
}

constexpr Thread this_team() {
  if (std::is_constant_evaluated()) return {0, 1};
  return NACRE_TEAM;
}
constexpr Thread in_team() {
  if (std::is_constant_evaluated()) return {0, 1};
  return NACRE_IN_TEAM;
}

// The share of [0, count) that one of several threads or teams gets: index, index + threads, ... It counts unsigned,
// because past the last one it may be beyond int.
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
  Thread thread;
  constexpr Iterator begin() const { return {thread.index, thread.count}; }
  constexpr uint32_t end() const { return count; }
};
constexpr Independent independent(int n) { return {uint32_t(n), this_thread()}; }
constexpr Independent teams(int n) { return {uint32_t(n), this_team()}; }
constexpr Independent of_team(int n) { return {uint32_t(n), in_team()}; }

constexpr bool in_order() { return this_thread().index == 0; }
constexpr bool leads() { return in_team().index == 0; }
constexpr bool first_team() { return this_team().index == 0; }
constexpr int team_size() { return int(in_team().count); }

template <class A>
constexpr A team_sum(A v) {
  if (std::is_constant_evaluated()) return v;
  return NACRE_TEAM_SUM(v);
}
template <class A>
constexpr A team_max(A v) {
  if (std::is_constant_evaluated()) return v;
  return NACRE_TEAM_MAX(v);
}

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
constexpr Independent teams(int n) { return {n}; }
constexpr Independent of_team(int n) { return {n}; }

constexpr bool in_order() { return true; }
constexpr bool leads() { return true; }
constexpr bool first_team() { return true; }
constexpr int team_size() { return 1; }

template <class A>
constexpr A team_sum(A v) {
  return v;
}
template <class A>
constexpr A team_max(A v) {
  return v;
}

constexpr void raise(uint32_t* at, uint32_t v) { *at = v > *at ? v : *at; }

#endif

// Calls f(i, j, i * columns + j) for every element of a `rows` x `columns` matrix. The calls are independent of each
// other.
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

// Calls f(i, j) for every element of such a matrix. A team runs each call.
template <class F>
constexpr void each_team(int rows, int columns, F f) {
  for (int at : teams(rows * columns)) f(at / columns, at % columns);
}

// Does each_independent for an array of four axes, with f(i, j, k, l, e).
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
