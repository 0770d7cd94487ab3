// A Workers (engine/kernels/kernel.h) on threads of its own, that no step waits for before they have begun.
//
//   ThreadPool pool(4);
//   NACRE_TRY(program.bind(model, 0, kernels, memory, pool.workers()));
//
// The pool allocates when it is made and not again. The thread that runs a program is one of its workers, number 0.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>

#include "engine/kernels/kernel.h"

namespace nacre {

struct ThreadSettings {
  // A thread without work looks for more so long, then sleeps. 0: it sleeps at once.
  uint32_t spin_us = 50;
  // Threads that sleep are woken once the caller has been at work so long, without a pause of a millisecond, or at once
  // where it was before its last pause: a network that runs now and then, and is through sooner, costs the time of one
  // thread. 0: always at once.
  uint32_t wake_after_us = 500;
  // A begun tile that takes long shows a thread that lost its processor, a slow wake-up one that got none: the caller
  // then runs alone for a while, which grows up to this. 0: never.
  uint32_t most_rest_us = 64'000;
};

// The system gave fewer threads than were asked for. `started` counts the caller's.
struct ThreadsRefused : std::runtime_error {
  ThreadsRefused(int started, int asked);
  int started, asked;
};

class ThreadPool {
 public:
  // 0: as many threads as this process may use; at most 1,024. Throws ThreadsRefused or std::bad_alloc, and leaves no
  // thread behind.
  explicit ThreadPool(int threads, const ThreadSettings& settings = {});
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();  // in a process that fork made, which has no threads, it waits for none

  int count() const { return workers_.count; }
  // Null where there is one thread: a plain loop. Valid while the pool is. Several threads may run programs with one
  // pool: who finds it at work does all tiles itself. So does a process that fork made.
  const Workers* workers() const { return workers_.count > 1 ? &workers_ : nullptr; }

 private:
  class Crew;
  std::unique_ptr<Crew> crew_;
  Workers workers_;
};

}  // namespace nacre
