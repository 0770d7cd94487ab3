/* Training on several machines for C, and for languages that call C. Python passes mpi4py's communicator as its
 * Fortran handle (comm.py2f()), C passes MPI_Comm_c2f(comm). ports/mpi/exchange.h says what is exchanged, and why all
 * ranks then have the state of one machine.
 *
 *   nacre_mpi* ranks = nacre_mpi_open(MPI_Comm_c2f(MPI_COMM_WORLD), &model, &trainer, NULL);
 *   if (nacre_mpi_problem(ranks)) ..                        // a sentence, the same on all ranks
 *   for (first = 0; first < micro_batches; first += nacre_mpi_count(ranks)) {
 *     mine = first + nacre_mpi_rank(ranks);
 *     if (mine < micro_batches) {
 *       nacre_trainer_begin_at(&trainer, mine); write the inputs; nacre_trainer_accumulate(&trainer, 0);
 *     }
 *     nacre_mpi_add(ranks, mine < micro_batches ? &trainer : NULL);
 *   }
 *   nacre_mpi_finish(ranks, &trainer, micro_batches);
 *   nacre_trainer_commit(&trainer, rate, &report);
 *   nacre_mpi_end_step(ranks, &model, &trainer, &report);
 *   nacre_mpi_close(ranks);                                 // before MPI_Finalize
 *
 * All functions but _rank, _count, _problem and _sent_bytes are collective: every rank calls them, in one order. */
#ifndef NACRE_MPI_H
#define NACRE_MPI_H

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nacre_mpi nacre_mpi;

typedef struct {
  uint32_t size;    /* set to sizeof(nacre_mpi_options) */
  uint32_t coding;  /* coding of sent gradients: 0 none, 1 bfloat16, 2 float8, with error feedback */
  const char* same; /* lines that must be equal on all ranks, like model, library and block; or NULL */
} nacre_mpi_options;

/* Returns NULL only if there is no memory. `model` and `trainer` are bound and started. `options` may be NULL. */
nacre_mpi* nacre_mpi_open(int communicator, const nacre_model* model, nacre_trainer* trainer,
                          const nacre_mpi_options* options);
/* Says why nothing more is exchanged: a failure on this rank or another, or `ranks` is NULL. Returns NULL if nothing
 * failed. */
const char* nacre_mpi_problem(const nacre_mpi* ranks);
uint32_t nacre_mpi_rank(const nacre_mpi* ranks);
uint32_t nacre_mpi_count(const nacre_mpi* ranks);

/* Returns 1 if it succeeded, else 0; then nacre_mpi_problem says why. `trainer` is NULL if this rank has no
 * micro-batch in this round. */
int nacre_mpi_add(nacre_mpi* ranks, nacre_trainer* trainer);
/* Called in place of nacre_mpi_add if this rank cannot go on. All other ranks are told, with the reason `why` if it
 * is not NULL. */
int nacre_mpi_fail(nacre_mpi* ranks, const char* why);
int nacre_mpi_finish(nacre_mpi* ranks, nacre_trainer* trainer, uint32_t micro_batches);
/* Called after commit. It does nothing with coding 0. */
void nacre_mpi_end_step(nacre_mpi* ranks, const nacre_model* model, const nacre_trainer* trainer,
                        const nacre_report* report);
uint64_t nacre_mpi_sent_bytes(const nacre_mpi* ranks);
void nacre_mpi_close(nacre_mpi* ranks); /* does nothing for NULL */

#ifdef __cplusplus
}
#endif

#endif
