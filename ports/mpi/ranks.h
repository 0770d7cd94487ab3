// The processes that mpirun started, as ranks of a communicator that take turns. Functions that exchange are
// collective: every rank calls the same functions in the same order.
//
// Example:
//   mpi::Ranks all_ranks(MPI_COMM_WORLD);                                         // after MPI_Init
//   const std::string why = all_ranks.require_same("model 3f..\nkernels avx2\n");   // "": all gave the same lines
//   if (!why.empty()) std::printf("%s\n", why.c_str());
//   const std::vector<mpi::Turn> turns = all_ranks.turn({.what = 1, .wishes = stop_wanted ? 1u : 0u});
//   for (const mpi::Turn& one : turns) stop_wanted |= one.wishes != 0;
//
// A turn is the message that every rank sends to all others before anything else is exchanged. A rank on which
// something failed says so in its turn: all others see it, and none waits for data that will not come. If a process
// dies, mpirun ends the others and says which one it was.
#pragma once

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace nacre::mpi {

// Sent as its bytes, so all ranks run one build on one kind of machine.
struct Turn {
  uint32_t what = 0;                   // the next exchange, a number below 0xFFFF0000; the same on all ranks
  int32_t failed = 0;                  // not 0: this rank cannot go on, and `text` says why
  uint32_t wishes = 0;                 // the caller's bits, such as a wish to stop
  uint32_t gives = 0;                  // whether sums follow (exchange.h)
  uint64_t numbers[6] = {};            // the caller's numbers
  char text[464] = {};                 // ends with 0
  void say(const std::string& words);  // cuts off what is too long
};

class Ranks {
 public:
  // Copies the communicator, so that the caller's own messages do not meet these. MPI must be initialized. The
  // constructor and the destructor are collective; destroy the Ranks before MPI_Finalize. An error of MPI goes to the
  // communicator's error handler, which ends the process unless the caller set another one.
  explicit Ranks(MPI_Comm communicator);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }                       // of this process, from 0
  int count() const { return count_; }                     // number of ranks
  MPI_Comm communicator() const { return communicator_; }  // the copy

  // Called on rank 0 each time another `patience` has passed, with the ranks that it still waits for, and the seconds
  // that it has waited.
  using Late = std::function<void(const std::vector<int>& ranks, double seconds)>;
  void on_late(std::chrono::milliseconds patience, Late late) {
    patience_ = patience;
    late_ = std::move(late);
  }

  // Exchanges turns and returns those of all ranks, by rank. If the ranks are at different points (`what` differs)
  // and no rank has failed, every turn is marked as failed.
  std::vector<Turn> turn(const Turn& mine);

  // Sends the bytes of rank 0 to all ranks. `bytes` has the same size on all ranks.
  void broadcast(std::span<std::byte> bytes);
  std::string broadcast_text(const std::string& text);  // rank 0's text, of any length

  // Compares lines "name value" with the lines of rank 0. Returns a sentence that names the first rank and line that
  // differ, the same on all ranks. Returns "" if all lines are equal.
  std::string require_same(const std::string& lines);

  // Waits until all requests are done, and calls `late` meanwhile. peers[i] is the rank that sends or receives message
  // i. Not collective.
  void wait_all(std::span<MPI_Request> requests, std::span<const int> peers);

 private:
  template <class F>
  void to_first(size_t size, F bytes, bool back);

  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, count_ = 1;
  std::chrono::milliseconds patience_{10'000};
  Late late_;
};

// Returns the first turn that failed, and writes its rank to *rank; null if no turn failed.
const Turn* first_failed(std::span<const Turn> turns, int* rank = nullptr);

}  // namespace nacre::mpi
