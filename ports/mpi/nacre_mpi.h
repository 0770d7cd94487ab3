/* Training on several machines for C, and for languages that call C. Python passes mpi4py's communicator as its
 * Fortran handle (comm.py2f()), C passes MPI_Comm_c2f(comm). ports/mpi/exchange.h says what is exchanged, and why all
 * ranks then have the state of one machine.
 *
 * Example:
 *   nacre_mpi* ranks = nacre_mpi_open(communicator, &model, &trainer, NULL);   // MPI_Comm_c2f(MPI_COMM_WORLD)
 *   if (nacre_mpi_problem(ranks) != NULL) return puts(nacre_mpi_problem(ranks));
 *   for (uint32_t first = 0; first < count; first += nacre_mpi_count(ranks)) {
 *     const uint32_t own = first + nacre_mpi_rank(ranks);
 *     if (own < count && !micro_batch(own)) nacre_mpi_fail(ranks, "no data");  // begin_at, inputs, accumulate
 *     else if (!nacre_mpi_add(ranks, own < count ? &trainer : NULL)) break;
 *   }
 *   if (nacre_mpi_finish(ranks, &trainer, count) && nacre_trainer_commit(&trainer, 0.01f, &report).code == 0)
 *     nacre_mpi_end_step(ranks, &model, &trainer, &report);
 *   nacre_mpi_close(ranks);                                                    // before MPI_Finalize
 *
 * All functions but _rank, _count, _problem and _sent_bytes are collective: every rank calls them, in one order. */
#ifndef NACRE_MPI_H
#define NACRE_MPI_H

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nacre_mpi nacre_mpi;

/* Options of nacre_mpi_open, the same on all ranks. */
typedef struct {
  uint32_t size;    /* set to sizeof(nacre_mpi_options) */
  uint32_t coding;  /* coding of sent gradients: 0 none, 1 bfloat16, 2 float8, with error feedback */
  const char* same; /* lines that must be equal on all ranks, like model, library and block; or NULL */
} nacre_mpi_options;

/* Returns NULL only if there is no memory. `communicator`: its Fortran handle; MPI is initialized. `model` is opened,
 * `trainer` bound and started. Model file, state and options are the same on all ranks: else nacre_mpi_problem names
 * the first fact that differs. `options` may be NULL, and is only read during the call. Always close the result. */
nacre_mpi* nacre_mpi_open(int communicator, const nacre_model* model, nacre_trainer* trainer,
                          const nacre_mpi_options* options);
/* Says why nothing more is exchanged: a failure on this rank or another, or `ranks` is NULL. Returns NULL if nothing
 * failed. The text is valid until the next call. */
const char* nacre_mpi_problem(const nacre_mpi* ranks);
uint32_t nacre_mpi_rank(const nacre_mpi* ranks);  /* this process, from 0 */
uint32_t nacre_mpi_count(const nacre_mpi* ranks); /* number of ranks; 0 for NULL */

/* Exchanges and adds the sums of one round. Returns 1 if it succeeded, else 0; then nacre_mpi_problem says why.
 * `trainer` is NULL if this rank has no micro-batch in this round. */
int nacre_mpi_add(nacre_mpi* ranks, nacre_trainer* trainer);
/* Called in place of nacre_mpi_add if this rank cannot go on. All other ranks are told, with the reason `why` if it
 * is not NULL. Returns 0, as nacre_mpi_add then does on the other ranks. Nothing more is exchanged. */
int nacre_mpi_fail(nacre_mpi* ranks, const char* why);
/* Gives each rank's trainer the sum of all rounds since the last finish, as that of `micro_batches` micro-batches;
 * commit comes next. Returns 1 if it succeeded, else 0; then nacre_mpi_problem says why. */
int nacre_mpi_finish(nacre_mpi* ranks, nacre_trainer* trainer, uint32_t micro_batches);
/* Called after commit, with its report. It does nothing with coding 0. */
void nacre_mpi_end_step(nacre_mpi* ranks, const nacre_model* model, const nacre_trainer* trainer,
                        const nacre_report* report);
uint64_t nacre_mpi_sent_bytes(const nacre_mpi* ranks); /* that this rank has sent to others since open */
void nacre_mpi_close(nacre_mpi* ranks);                /* does nothing for NULL */

#ifdef __cplusplus
}
#endif

#endif
