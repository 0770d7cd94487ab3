/* Threads for C (threads.h): the workers that nacre_program_bind_with and nacre_trainer_bind_with take.
 *
 * Example:
 *   nacre_thread_pool* pool = nacre_thread_pool_open(4);
 *   const nacre_workers* workers = nacre_thread_pool_workers(pool);                      // NULL: one thread
 *   if (nacre_program_measure_with(&model, 0, kernels, 2, workers, &sizes).code == 0 &&   // scratch for each worker
 *       nacre_program_bind_with(&program, &model, 0, kernels, 2, workers, memory, memory_size).code == 0)
 *     use(nacre_program_run(&program).code == 0 ? nacre_program_output(&program, 0, NULL) : NULL);
 *   nacre_thread_pool_close(pool);                                                       // no program runs with it
 */
#ifndef NACRE_THREADS_C_H
#define NACRE_THREADS_C_H

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nacre_thread_pool nacre_thread_pool;

/* Opens a pool of `threads`, the caller's included; 0 means as many as this process may use. Returns NULL if
 * `threads` is below 0 or over 1,024, there is no memory, or the system gave fewer threads. No thread is left running
 * then. Allocates. No step waits for a thread that has not begun. */
nacre_thread_pool* nacre_thread_pool_open(int threads);

/* Times of a pool, in microseconds; a member's own number is in brackets. */
typedef struct {
  uint32_t size;    /* sizeof this struct */
  uint32_t spin_us; /* a thread without work looks for more for this long, then sleeps; 0: at once [50] */
  /* Sleeping threads are woken once the caller has worked for this long without a pause of a millisecond. They are
   * woken at once if it worked so long before its last pause. So a network that runs now and then, and takes less
   * time, costs the time of one thread. If 0, threads are always woken at once [500]. */
  uint32_t wake_after_us;
  /* A begun tile that takes long shows a thread that lost its processor; a slow wake-up shows a thread that got none.
   * The caller then runs alone for a while, which grows up to this. If 0, it never does [64,000]. */
  uint32_t most_rest_us;
} nacre_thread_settings;
/* Opens a pool with settings. If `settings` is NULL, or lacks members by its `size`, the numbers in brackets are
 * used. `started`, unless NULL, gets the number of threads; if NULL is returned, the number that could be started. */
nacre_thread_pool* nacre_thread_pool_open_with(int threads, const nacre_thread_settings* settings, int* started);
int nacre_thread_pool_count(const nacre_thread_pool* pool); /* the number of threads; 0 for NULL */
/* Returns the pool's workers, valid as long as the pool. Returns NULL, which means one thread, if it has one thread
 * or is NULL. Several threads may run programs with one pool; a caller that finds it busy runs its steps alone. */
const nacre_workers* nacre_thread_pool_workers(const nacre_thread_pool* pool);
/* Ends the threads. No program may run with the pool then or later. Does nothing for NULL. */
void nacre_thread_pool_close(nacre_thread_pool* pool);

#ifdef __cplusplus
}
#endif
#endif
