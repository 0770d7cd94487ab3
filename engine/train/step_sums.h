// The step block of a training model as sums that several machines share. Each machine runs its micro-batches, the
// blocks are joined in the order of the micro-batches, and every machine commits the same block. NUMERICS.md (57).
//
// Example:
//   NACRE_TRY(trainer.begin_at(mine));                        // which micro-batch of the step this machine takes
//   next_batch(trainer.input(0), trainer.input(1));
//   NACRE_TRY(trainer.accumulate());
//   send_to_all(trainer.sums());                              // the caller's transport; `all` holds block 0
//   for (uint32_t m = 1; m < count; ++m) NACRE_TRY(join_sums(model, all, block_of(m)));
//   std::memcpy(trainer.sums().data(), all.data(), trainer.sums().size());
//   NACRE_TRY(trainer.merged(count));
//   NACRE_TRY(trainer.commit(0.01f, &report));                // on every machine: the same state
//
// One machine gives the same bytes with Trainer::accumulate_apart, micro-batch after micro-batch. Each `model` below
// must be opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/model/model.h"
#include "engine/numeric/step_sum.h"

namespace nacre {

// Finds the stretches of the step block whose numbers join in one way, in the order of their offsets. Returns how
// many there are, and writes as many as `runs` has room for, beginning with number `from`. The bytes between them are
// padding. There are at most model.tensors().size().
uint32_t sum_runs(const Model& model, std::span<SumRun> runs, uint32_t from = 0);

// Returns the run that holds the gradients of parameters and nothing else. The run is empty if these are not float32.
// A transport may send this run in fewer bits.
SumRun gradient_run(const Model& model);

// Returns the factor of the next step's gradients, read from the state, Trainer::state(); 1 if gradients are integers,
// or if the state is empty.
float loss_scale(const Model& model, std::span<const std::byte> state);

// Computes into = into + from for whole step blocks, each number as numeric/step_sum.h says. `into` holds the earlier
// micro-batches. kMemorySize: one of them is smaller than the step block; nothing is written then.
Status join_sums(const Model& model, std::span<std::byte> into, std::span<const std::byte> from);

}  // namespace nacre
