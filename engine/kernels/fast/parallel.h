// Shares a kernel's work among the workers, in units. The number and the results of the units do not depend on the
// workers, so any number of workers gives the same bytes. Worker w of n does the units w, w + n, ..., or, if Part::all
// is set, the w-th of n runs of units. With runs it mostly reads numbers that it wrote in the step before, from its
// cache.
#pragma once

#include "engine/kernels/kernel.h"

namespace nacre::inline NACRE_ISA {

struct Part {
  int index = 0, count = 1;
  int unit = 0;  // the next unit
  int all = 0;   // number of units, of which each part takes a run; 0: the parts take units in turns

  // Goes past the next `units`. Returns whether one of them is this part's.
  bool any(int units) {
    const int first = unit;
    unit += units;
    if (all > 0) return first < end(index) && unit > end(index - 1);
    return (index - first % count + count) % count < units;
  }
  bool takes() { return any(1); }

 private:
  int end(int part) const { return int(int64_t{all} * (part + 1) / count); }
};

// Calls f(part, scratch of its worker) on every worker, or on this thread alone if `work` is small.
template <class F>
void in_parts(const Args& args, uint64_t work, const F& f) {
  const Workers* const workers = args.workers;
  if (workers == nullptr || workers->count < 2 || work < workers->least_work) return f(Part(), args.scratch);
  struct Context {
    const Args& args;
    const F& f;
  } context = {args, f};
  workers->run(
      workers->context,
      [](void* task, int tile, int worker) {
        const auto& c = *static_cast<const Context*>(task);
        c.f(Part{tile, c.args.workers->count}, c.args.scratch_of(worker));
      },
      &context, workers->count);
}

// Calls f(first, count, scratch of the worker) on every worker, with a run of the `items` for each. `each` is the
// multiply-accumulates that one item takes. f makes each item from that item alone, so the results do not depend on
// how the items are divided.
template <class F>
void in_runs(const Args& args, int items, uint64_t each, const F& f) {
  in_parts(args, uint64_t(items) * each, [&](const Part& part, std::span<std::byte> memory) {
    const auto begin = [&](int index) { return int(int64_t{items} * index / part.count); };
    const int first = begin(part.index), count = begin(part.index + 1) - first;
    if (count > 0) f(first, count, memory);
  });
}
// Shares single numbers as in_runs shares items, in runs that begin at multiples of 64.
template <class F>
void in_runs_of_numbers(const Args& args, int numbers, uint64_t each, const F& f) {
  constexpr int kPiece = 64;
  const int runs = numbers / kPiece + (numbers % kPiece != 0);
  in_runs(args, runs, each * kPiece, [&](int first, int count, std::span<std::byte> scratch) {
    const int left = numbers - first * kPiece, most = count <= left / kPiece ? count * kPiece : left;
    f(first * kPiece, most, scratch);
  });
}

}  // namespace nacre::inline NACRE_ISA
