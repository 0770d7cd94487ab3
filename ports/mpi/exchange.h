// Exchanges the sums of a training step (engine/train/step_sums.h) among the ranks of an MPI communicator. On any
// number of ranks uncoded sums are, to the byte, those of one machine with Trainer::accumulate_apart: NUMERICS.md (57).
//
// Example:
//   std::vector<SumRun> runs(sum_runs(model, {}));
//   sum_runs(model, runs);
//   mpi::Exchange exchange(ranks, runs, trainer.sums().size());
//   for (uint32_t first = 0; first < count; first += uint32_t(ranks.count())) {   // one round: a micro-batch per rank
//     const bool works = first + uint32_t(ranks.rank()) < count;
//     mpi::Turn turn = {};
//     if (works && !micro_batch(first + uint32_t(ranks.rank())).ok()) turn.failed = 1;   // begin_at .. accumulate
//     if (mpi::first_failed(exchange.add(works ? trainer.sums() : std::span<std::byte>(), turn)) != nullptr) stop();
//   }
//   exchange.finish(trainer.sums());
//   NACRE_TRY(trainer.merged(count));
//   NACRE_TRY(trainer.commit(0.01f, &report));                                    // on every rank: the same state
//
// The block is cut into one slice per rank. In a round every rank sends slice r of its block to rank r. Rank r adds
// the slices that it gets to its slice of the sum, in the order of the ranks. At the end all ranks get all slices.
// One rank adds each number, in the order of the micro-batches, so work and sent data do not grow with the number of
// ranks.
//
// Memory: at most two blocks. A coding needs more, for the errors that it feeds back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/numeric/step_sum.h"
#include "ports/mpi/compression.h"
#include "ports/mpi/ranks.h"

namespace nacre::mpi {

// All functions but sent_bytes, discard, begin_step and end_step are collective.
class Exchange {
 public:
  // `runs` describe the step block of `bytes` bytes: sum_runs of the model. `gradients` is the float32 run that
  // `coding` shrinks, gradient_run of the model; an empty run turns the coding off. All ranks give the same arguments.
  // `ranks` must outlive the Exchange. Allocates.
  Exchange(Ranks& ranks, std::span<const SumRun> runs, uint64_t bytes, Coding coding = Coding::kNone,
           SumRun gradients = {});

  // Exchanges and adds the blocks of one round. `mine` is this rank's block, or empty if it has none. `turn` is what
  // this rank tells the others besides; turn.failed: this rank cannot go on. Returns the turns of all ranks, valid
  // until the next call. If a rank failed (first_failed), nothing was exchanged.
  const std::vector<Turn>& add(std::span<const std::byte> mine, Turn turn = {});

  // Writes the sum of all blocks since the last finish or discard to `all`, on every rank. `all` has the bytes of a
  // block, such as Trainer::sums(). Returns false if there was no block; nothing is written then.
  bool finish(std::span<std::byte> all);
  void discard() { given_ = false; }  // forgets the sum; call it on all ranks

  // Needed only with a coding. Call begin_step before the first round, with the loss scale of the next step's
  // gradients. Call end_step after commit; `applied` says whether the step was applied. The errors of a refused step
  // are discarded.
  void begin_step(float loss_scale);
  void end_step(bool applied);
  // Returns the bytes that this rank has sent to others.
  uint64_t sent_bytes() const { return sent_; }

 private:
  struct Part {  // a part of the block, in the memory of one slice
    uint64_t first = 0, bytes = 0;
  };
  struct Slice {
    Part whole, before, coded, behind;  // before and behind are sent uncoded
    size_t sent = 0;                    // bytes of the slice when it is sent
  };
  Slice slice(uint64_t first, uint64_t bytes) const;
  void pack(const Slice& s, const std::byte* block, uint64_t origin, std::span<float> error, std::byte* to) const;
  void unpack(const Slice& s, const std::byte* from, std::byte* block, uint64_t origin) const;
  std::span<const Slice> piece(size_t i) const { return std::span(slices_).subspan(i * count_, count_); }
  void add_piece(size_t piece, std::span<const std::byte> mine);
  void finish_piece(size_t piece, std::span<std::byte> all);

  Ranks& ranks_;
  std::vector<SumRun> runs_;
  Coding coding_;
  SumRun gradients_;
  size_t count_ = 1, rank_ = 0, pieces_ = 0;
  std::vector<Slice> slices_;     // slices of each piece, one for each rank
  std::vector<std::byte> sum_;    // this rank's slice of each piece, one after another
  std::vector<size_t> at_;        // offset of each piece in sum_
  std::vector<size_t> error_at_;  // offset of each piece in sum_error_
  std::vector<std::byte> out_, in_, decoded_;
  std::vector<float> error_, next_error_;          // errors of this rank's blocks
  std::vector<float> sum_error_, next_sum_error_;  // errors of its slices of the sum
  std::vector<Turn> turns_;
  float unit_ = 1;
  bool given_ = false;
  uint64_t sent_ = 0;
};

}  // namespace nacre::mpi
