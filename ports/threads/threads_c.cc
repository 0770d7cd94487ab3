#include "ports/threads/threads_c.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "engine/c_api.h"
#include "ports/threads/threads.h"

struct nacre_thread_pool {
  nacre::ThreadPool threads;
};

extern "C" {

nacre_thread_pool* nacre_thread_pool_open_with(int threads, const nacre_thread_settings* settings, int* started) {
  int count = 0;
  nacre_thread_pool* pool = nullptr;
  nacre::ThreadSettings with;
  if (settings != nullptr) {
    nacre_thread_settings all = {sizeof all, with.spin_us, with.wake_after_us, with.most_rest_us};
    std::memcpy(&all, settings, std::min(size_t{settings->size}, sizeof all));
    with = {.spin_us = all.spin_us, .wake_after_us = all.wake_after_us, .most_rest_us = all.most_rest_us};
  }
  try {
    if (threads >= 0) pool = new nacre_thread_pool{nacre::ThreadPool(threads, with)};
    if (pool != nullptr) count = pool->threads.count();
  } catch (const nacre::ThreadsRefused& refused) {
    count = refused.started;
  } catch (const std::bad_alloc&) {
  }
  if (started != nullptr) *started = count;
  return pool;
}

nacre_thread_pool* nacre_thread_pool_open(int threads) {
  return nacre_thread_pool_open_with(threads, nullptr, nullptr);
}

int nacre_thread_pool_count(const nacre_thread_pool* pool) { return pool == nullptr ? 0 : pool->threads.count(); }

const nacre_workers* nacre_thread_pool_workers(const nacre_thread_pool* pool) {
  // The engine's struct is C's, member by member: engine/c_api.h.
  return pool == nullptr ? nullptr : reinterpret_cast<const nacre_workers*>(pool->threads.workers());
}

void nacre_thread_pool_close(nacre_thread_pool* pool) { delete pool; }

}  // extern "C"
