// Walks over two operands of a broadcast in runs. Along a run each operand moves by one element, or stays.
#pragma once

#include <cstddef>

#include "engine/kernels/fast/parallel.h"
#include "engine/ops/elementwise.h"

namespace nacre::inline NACRE_ISA {

// The beginning of a run in a, b and y, in elements of each, and its length.
struct RunAt {
  ptrdiff_t a, b, y;
  int count;
};

// The functions along a run: for two operands that move, and for one that moves while a or b stays. `context` is
// passed to each function.
struct RunFunctions {
  using Along = void(const void* context, const RunAt& at);
  Along *both, *fixed_a, *fixed_b;
};

// Joins the last axes along which both operands are contiguous or constant to a run, and walks over the others. The
// workers share the runs, or the numbers if there is one run. A number takes the time of `each` multiply-accumulates
// (parallel.h).
[[gnu::noinline]] inline void each_run(const Walk<2>& walk, const RunFunctions& functions, const void* context,
                                       const Args& args, uint64_t each) {
  RunAt run = {0, 0, 0, 1};
  int axis = walk.rank - 1, step_a = 1, step_b = 1;  // each 0 or 1, not both 0
  for (; axis >= 0; --axis) {
    if (walk.size[axis] == 1) continue;
    const int a = walk.stride[0][axis], b = walk.stride[1][axis];
    if (run.count == 1) step_a = a, step_b = b;
    else if (a != step_a * run.count || b != step_b * run.count) break;
    run.count *= walk.size[axis];
  }
  Walk<2> outer = walk;
  outer.rank = axis + 1;
  RunFunctions::Along* const along = step_a == 0 ? functions.fixed_a : step_b == 0 ? functions.fixed_b : functions.both;
  if (outer.rank == 0)
    return in_runs_of_numbers(args, run.count, each, [&](int first, int count, std::span<std::byte>) {
      along(context,
            {outer.first[0] + ptrdiff_t(step_a) * first, outer.first[1] + ptrdiff_t(step_b) * first, first, count});
    });
  in_runs(args, outer.elements(), each * uint64_t(run.count), [&](int first, int count, std::span<std::byte>) {
    int number = 0;
    outer.each([&](const int32_t* at) {
      const int n = number++;
      if (n >= first && n < first + count) along(context, {at[0], at[1], ptrdiff_t(n) * run.count, run.count});
    });
  });
}

}  // namespace nacre::inline NACRE_ISA
