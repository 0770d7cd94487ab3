/* Threads for C (threads.h): what nacre_program_bind_with and nacre_trainer_bind_with take as workers.
 *
 *   nacre_thread_pool* pool = nacre_thread_pool_open(4);
 *   const nacre_workers* workers = nacre_thread_pool_workers(pool);
 *   nacre_program_measure_with(&model, 0, kernels, 2, workers, &sizes);       // scratch for each worker
 *   nacre_program_bind_with(&program, &model, 0, kernels, 2, workers, memory, sizes.total);
 *   ..., and when no program uses it any more: nacre_thread_pool_close(pool);
 */
#ifndef NACRE_THREADS_C_H
#define NACRE_THREADS_C_H

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nacre_thread_pool nacre_thread_pool;

/* `threads`, the caller's among them; 0: as many as this process may use. NULL: fewer than 0, no memory, or the system
 * gave fewer threads; none is left behind then. Allocates. No step waits for a thread that has not begun. */
nacre_thread_pool* nacre_thread_pool_open(int threads);

typedef struct {
  uint32_t size;    /* of this struct: sizeof */
  uint32_t spin_us; /* a thread without work looks for more so long, then sleeps; 0: it sleeps at once [50] */
  /* Threads that sleep are woken once the caller has been at work so long, without a pause of a millisecond, or at once
   * where it was before its last pause: a network that runs now and then, and is through sooner, costs the time of one
   * thread. 0: always at once [500] */
  uint32_t wake_after_us;
  /* A begun tile that takes long shows a thread that lost its processor, a slow wake-up one that got none: the caller
   * then runs alone for a while, which grows up to this. 0: never [64,000] */
  uint32_t most_rest_us;
} nacre_thread_settings;
/* Opens a pool with settings. NULL, and members behind `size`: the numbers in brackets. `started`, where not NULL: how
 * many threads there are, or where NULL is returned, how many could be started. */
nacre_thread_pool* nacre_thread_pool_open_with(int threads, const nacre_thread_settings* settings, int* started);
int nacre_thread_pool_count(const nacre_thread_pool* pool); /* threads; 0 of NULL */
/* Valid while the pool is; NULL, which means one thread, where it has one or is NULL. */
const nacre_workers* nacre_thread_pool_workers(const nacre_thread_pool* pool);
void nacre_thread_pool_close(nacre_thread_pool* pool); /* NULL: nothing happens */

#ifdef __cplusplus
}
#endif
#endif
