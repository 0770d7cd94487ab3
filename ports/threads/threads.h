// A Workers (engine/kernels/kernel.h) with threads of its own. No step waits for threads that have not begun its
// work.
//
// Example:
//   ThreadPool four(4);                                              // the caller's thread and three others
//   const Machine machine = {.workers = uint32_t(four.count())};     // each worker needs scratch
//   NACRE_TRY(Program::measure(model, 0, kernels, &sizes, machine));
//   NACRE_TRY(Memory::cut(block, sizes, &memory));
//   NACRE_TRY(program.bind(model, 0, kernels, memory, four.workers()));
//   NACRE_TRY(program.run());
//   program.unbind();                                                // before the pool ends
//
// Steps below 30 us are tried alone from time to time, and run so while that is quicker. The pool allocates only when
// it is made. The thread that runs a program is one of its workers, number 0.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>

#include "engine/kernels/kernel.h"

namespace nacre {

// Times of a ThreadPool, in microseconds.
struct ThreadSettings {
  // A thread without work looks for more for this long, then sleeps. If 0, it sleeps at once.
  uint32_t spin_us = 50;
  // Sleeping threads are woken once the caller has worked for this long without a pause of a millisecond. They are
  // woken at once if it worked so long before its last pause. So a network that runs now and then, and takes less
  // time, costs the time of one thread. If 0, threads are always woken at once.
  uint32_t wake_after_us = 500;
  // A begun tile that takes long shows a thread that lost its processor; a slow wake-up shows a thread that got none.
  // The caller then runs alone for a while, which grows up to this. If 0, it never does.
  uint32_t most_rest_us = 64'000;
};

// Thrown if the system gave fewer threads than requested. `started` includes the caller's.
struct ThreadsRefused : std::runtime_error {
  ThreadsRefused(int started, int asked);
  int started, asked;
};

// Threads that wait for work from when the pool is made until it ends. They block all signals but SIGPROF and those of
// a fault.
class ThreadPool {
 public:
  // `threads`: the caller's included, 0 to 1,024. If it is 0, starts as many as this process may use. Throws
  // std::bad_alloc, or ThreadsRefused: `asked` is below 0 or over 1,024, or the system gave fewer. No thread is left
  // running then.
  explicit ThreadPool(int threads, const ThreadSettings& settings = {});
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();  // no program may run with it; after a fork the child has no threads, and waits for none

  int count() const { return workers_.count; }  // threads, the caller's included
  // Returns null if there is one thread: then a plain loop runs all tiles. Valid as long as the pool. Several threads
  // may run programs with one pool. A caller that finds the pool busy does all tiles itself, and so does a forked
  // process.
  const Workers* workers() const { return workers_.count > 1 ? &workers_ : nullptr; }

 private:
  class Crew;
  std::unique_ptr<Crew> crew_;
  Workers workers_;
};

}  // namespace nacre
