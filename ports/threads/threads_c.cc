#include "ports/threads/threads_c.h"

#include <new>

#include "engine/c_api.h"
#include "ports/threads/threads.h"

struct nacre_thread_pool {
  nacre::ThreadPool threads;
};

extern "C" {

nacre_thread_pool* nacre_thread_pool_open(int threads) {
  if (threads < 0) return nullptr;
  try {
    return new nacre_thread_pool{nacre::ThreadPool(threads)};
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

int nacre_thread_pool_count(const nacre_thread_pool* pool) { return pool == nullptr ? 0 : pool->threads.count(); }

const nacre_workers* nacre_thread_pool_workers(const nacre_thread_pool* pool) {
  // The engine's struct is C's, member by member: engine/c_api.h.
  return pool == nullptr ? nullptr : reinterpret_cast<const nacre_workers*>(pool->threads.workers());
}

void nacre_thread_pool_close(nacre_thread_pool* pool) { delete pool; }

}  // extern "C"
