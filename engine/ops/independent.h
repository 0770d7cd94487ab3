// Loops that a device shares among its threads.
//
//   for (int i : independent(n))    iterations that write apart from each other and read nothing that another one
//                                   writes: the same bytes in any order, and side by side
//   if (!in_order()) return;        what follows carries something from one iteration to the next: one thread does it
//   raise(at, v)                    *at = max(*at, v), whichever thread comes first
//
// A long iteration, a sum over many numbers, is a team's: threads side by side that wait for each other.
//
//   for (int i : teams(n))          as independent(n); all threads of a team run the same iterations
//   for (int j : of_team(n))        inside of such an iteration: this thread's share
//   team_sum(v), team_max(v)        over what the threads of the team have, in a fixed order; each gets it. All of them
//                                   must come by here
//   leads()                         of one thread in each team: it stores what all of them know
//   if (first_team())               what one team does
//
// The host has one thread, and all are the plain loop. A port whose threads run one kernel together names a file,
// -DNACRE_THREADS='"ports/cuda/threads.h"', that defines NACRE_THREAD, an initializer of the Thread that runs, and
// NACRE_RAISE(at, v), an atomic maximum; and, where teams have more than one thread, NACRE_TEAM and NACRE_IN_TEAM,
// initializers of Thread for the team and for the thread within it, and NACRE_TEAM_SUM(v) and NACRE_TEAM_MAX(v). Every
// kernel is written so: all that it writes, it writes in loops of the first kinds, or behind in_order() or leads().
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

// The share of [0, count) of one of several: index, index + threads, ... Unsigned: past the last it may be beyond int.
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

// f(i, j) for every element of such a matrix, each element a team's.
template <class F>
constexpr void each_team(int rows, int columns, F f) {
  for (int at : teams(rows * columns)) f(at / columns, at % columns);
}

// each_independent for an array of four axes: f(i, j, k, l, e).
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
