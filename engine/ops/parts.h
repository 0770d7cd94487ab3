// Runs kernels in phases, for ops that carry a sum from one iteration to the next. A device's threads make the sum's
// parts side by side in one phase, and read them in a later one:
//
//   phase 0          everything, by one thread in order; the host runs it so
//   phase 1, 2, ..   one of DeviceThreads::phases, each in a launch of its own; `data` is scratch of as many numbers as
//                    DeviceThreads::parts returns
//
// Both ways add the same terms. If each team has one thread, they add in the same order and give the same bytes.
#pragma once

#include <cstdint>

#include "engine/base/isa.h"
#include "engine/ops/independent.h"

namespace nacre::inline NACRE_ISA {

template <class A>
struct Parts {
  A* data = nullptr;
  int phase = 0;

  // Computes sum_i f(i), on a device in two phases. A team makes each f(i). Returns true in the threads of the
  // one team for which *total holds the sum.
  template <class F>
  constexpr bool sum(int n, F f, A* total) const {
    if (phase == 1) {
      for (int i : teams(n)) {
        const A part = f(i);
        if (leads()) data[i] = part;
      }
      return false;
    }
    if (!first_team()) return false;
    A mine = 0;
    for (int i : of_team(n)) mine += phase == 0 ? f(i) : data[i];
    *total = team_sum(mine);
    return true;
  }
};

}  // namespace nacre::inline NACRE_ISA
