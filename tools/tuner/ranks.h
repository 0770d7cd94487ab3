// Ranks: the processes of a training that mpirun started (nacre tune --mpi). It tells each process its number and how
// many there are, and exchanges sums, counts and failures. If the build has no MPI, start() throws and nothing else is
// called.
//
//   const std::unique_ptr<Ranks> ranks = Ranks::start();
//   ranks->require_same("kernels avx2\n");
//   ..
//   ranks->leave();        // the last call of every rank
//
// Functions that exchange something are collective: every rank makes the same calls in the same order. A rank that
// fails calls fail() in place of its next call. The calls of the other ranks then throw Told.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "engine/numeric/step_sum.h"
#include "tools/base/error.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// Returns how many processes mpirun says that it started for this program, or 0 if mpirun did not start it.
uint32_t started_processes();

// The error that is thrown if another rank failed, or all did, and every rank knows it: no rank has to be told.
struct Told : Error {
  using Error::Error;
};

class Ranks {
 public:
  // Starts MPI. Throws Error if the build has no MPI, or if mpirun did not start this process. From here on the
  // standard output and standard error of every rank but 0 go to /dev/null.
  static std::unique_ptr<Ranks> start();
  ~Ranks();  // ends MPI
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  uint32_t rank() const;
  uint32_t count() const;
  bool first() const { return rank() == 0; }

  // Throws Told unless these lines "name value" are equal on all ranks.
  void require_same(const std::string& lines);
  // Sends the bytes of rank 0 to all ranks. Only rank 0 knows their length before.
  void give_all(std::vector<std::byte>* bytes);

  // Prepares the exchange of the sums of this model's steps. `coding`: "", "bfloat16" or "float8"
  // (ports/mpi/compression.h). `on_gpus`: the sums lie on a GPU of each rank. If there are several ranks, all have NCCL
  // and a GPU of their own, and nothing is coded, then the blocks of add and finish are in the GPU's memory, and
  // on_gpus() is true. Otherwise the blocks are in host memory.
  void exchange_sums(const Model& model, const std::string& coding, bool on_gpus);
  bool on_gpus() const;

  struct Said {  // the numbers of a rank in a round
    uint64_t right = 0, answers = 0, rows = 0, left_out = 0;
    bool stops = false;  // the rank wants to end here
  };
  // Runs one round with this rank's block, which may be empty. Returns the counts of all ranks added up, with `stops`
  // true if any rank stops.
  Said add(std::span<const std::byte> block, const Said& mine);
  // Gives every rank the sum of all rounds. Returns false if there was no block.
  bool finish(std::span<std::byte> all);
  void begin_step(float loss_scale);
  void end_step(bool applied);

  // Throws Told unless the number is equal on all ranks. `what` names the number.
  void require_same_number(uint64_t number, const std::string& what);
  void leave();  // waits for all ranks, since a rank may still fail
  // Tells all ranks why this rank cannot go on. Rank 0 prints the reason of the first rank that failed. `told`: all
  // ranks know it already.
  void fail(const std::string& why, int code, bool told);

 private:
  Ranks();
  std::string open_devices(const Model& model, std::span<const SumRun> runs);
  void require_exchanged() const;

  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::FILE* loud_ = nullptr;  // a copy of standard error, on ranks other than 0; null on rank 0
};

}  // namespace nacre::tools
