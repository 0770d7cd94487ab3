// A Workers (engine/kernels/kernel.h) on the threads of pthreadpool.
//
//   ThreadPool pool(4);
//   NACRE_TRY(program.bind(model, 0, kernels, memory, pool.workers()));
//
// The pool allocates when it is made and not again. The thread that runs a program is one of its workers.
#pragma once

#include <memory>

#include "engine/kernels/kernel.h"

struct pthreadpool;

namespace nacre {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // 0: as many as the machine has; throws std::bad_alloc
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int count() const { return workers_.count; }
  // Null where there is one thread: a plain loop. Valid while the pool is.
  const Workers* workers() const { return workers_.count > 1 ? &workers_ : nullptr; }

 private:
  pthreadpool* pool_;
  Workers workers_;
  long process_;  // that has the threads: one that fork made of it has none, and does not wait for them
};

}  // namespace nacre
