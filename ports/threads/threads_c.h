/* Threads of pthreadpool for C (threads.h): what nacre_program_bind_with and nacre_trainer_bind_with take as workers.
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

/* `threads`, the caller's among them; 0: as many as the machine has. NULL: fewer than 0, or no memory. Allocates. */
nacre_thread_pool* nacre_thread_pool_open(int threads);
int nacre_thread_pool_count(const nacre_thread_pool* pool); /* threads; 0 of NULL */
/* Valid while the pool is; NULL, which means one thread, where it has one or is NULL. */
const nacre_workers* nacre_thread_pool_workers(const nacre_thread_pool* pool);
void nacre_thread_pool_close(nacre_thread_pool* pool); /* NULL: nothing happens */

#ifdef __cplusplus
}
#endif
#endif
