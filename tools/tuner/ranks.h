// The processes of a training that mpirun started (nacre tune --mpi): which micro-batch of a step is whose, and how
// they hear of each other. Without MPI in the build: start() refuses, and nothing else is called.
//
//   const std::unique_ptr<Ranks> ranks = Ranks::start();
//   ranks->require_same("kernels avx2\n");
//   ..
//   ranks->leave();        // the last that all of them do
//
// All of it is collective: every rank calls the same in the same order. A rank on which something failed calls fail()
// in place of what it would do next; the others are told by what they call, which throws Told.
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

// How many processes mpirun says that it started for this program; 0: it was not started by one.
uint32_t started_processes();

// Another rank failed, or all did, and every rank knows: nothing is left to say to them.
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

  // Lines "name value": throws Told where they are not the same on all ranks.
  void require_same(const std::string& lines);
  // Bytes of rank 0 to all, of a length that only rank 0 knows.
  void give_all(std::vector<std::byte>* bytes);

  // Prepares the exchange of the sums of this model's steps. `coding`: "", "bfloat16" or "float8"
  // (ports/mpi/compression.h). `on_gpus`: the sums lie on a GPU of each rank. If there are several ranks, all have NCCL
  // and a GPU of their own, and nothing is coded, then the blocks of add and finish are in the GPU's memory, and
  // on_gpus() is true. Otherwise the blocks are in host memory.
  void exchange_sums(const Model& model, const std::string& coding, bool on_gpus);
  bool on_gpus() const;

  struct Said {  // by a rank in a round
    uint64_t right = 0, answers = 0, rows = 0, left_out = 0;
    bool stops = false;  // wishes to end here
  };
  // Runs one round with this rank's block, which may be empty. Returns the counts of all ranks added up, with `stops`
  // true if any rank stops.
  Said add(std::span<const std::byte> block, const Said& mine);
  // The sum of all rounds, on every rank; false: there was no block.
  bool finish(std::span<std::byte> all);
  void begin_step(float loss_scale);
  void end_step(bool applied);

  // Throws Told where the numbers are not the same on all ranks: `what` is then said of them.
  void require_same_number(uint64_t number, const std::string& what);
  void leave();  // waits for all: a rank may still fail
  // Says to all why this rank cannot go on, and prints on rank 0 what those said that cannot. `told`: it is no news.
  void fail(const std::string& why, int code, bool told);

 private:
  Ranks();
  std::string open_devices(const Model& model, std::span<const SumRun> runs);
  void require_exchanged() const;

  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::FILE* loud_ = nullptr;  // standard error, of ranks whose own is closed
};

}  // namespace nacre::tools
