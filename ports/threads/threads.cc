#include "ports/threads/threads.h"

#include <pthreadpool.h>
#include <unistd.h>

#include <new>

namespace nacre {
namespace {

struct Tasks {
  void (*task)(void* context, int tile, int worker);
  void* context;
};

// A task does not learn which thread runs it, so tasks are dealt here:
// pthreadpool gets one for each of its threads, whose number stands for the thread.
void run_on(void* pool, void (*task)(void* context, int tile, int worker), void* context, int tiles) {
  struct All {
    Tasks tasks;
    int tiles, count;
  } all = {{task, context}, tiles, int(pthreadpool_get_threads_count(static_cast<pthreadpool_t>(pool)))};
  pthreadpool_parallelize_1d(
      static_cast<pthreadpool_t>(pool),
      [](void* shared, size_t worker) {
        const All& a = *static_cast<const All*>(shared);
        for (int tile = int(worker); tile < a.tiles; tile += a.count) a.tasks.task(a.tasks.context, tile, int(worker));
      },
      &all, size_t(all.count), 0);
}

}  // namespace

ThreadPool::ThreadPool(int threads) : pool_(pthreadpool_create(size_t(threads))), workers_{}, process_(getpid()) {
  if (pool_ == nullptr) throw std::bad_alloc();
  workers_ = {pool_, int(pthreadpool_get_threads_count(pool_)), &run_on};
}

ThreadPool::~ThreadPool() {
  if (process_ == getpid()) pthreadpool_destroy(pool_);
}

}  // namespace nacre
