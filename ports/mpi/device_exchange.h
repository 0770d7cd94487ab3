// Exchanges the sums of a training step among GPUs by NCCL. Exchange (exchange.h) does the same with blocks in the
// host's memory, slice by slice in the same order, so both give the same bytes on all ranks. MPI takes the turns.
//
// Example:
//   const cuda::Nccl* const nccl = cuda::load_nccl();     // null: Exchange does it by way of the host
//   if (nccl == nullptr) return {Code::kPortFailed};
//   mpi::DeviceExchange exchange(ranks, device, *nccl, runs, trainer.sums().size());
//   if (const std::string why = exchange.open(); !why.empty()) return {Code::kPortFailed};
//   NACRE_TRY(trainer.begin_at(mine));                    // one round, as exchange.h has several
//   NACRE_TRY(trainer.accumulate());
//   exchange.add(trainer.sums_at(device.port()));         // a rank without a micro-batch adds an empty span
//   exchange.finish(trainer.sums_at(device.port()));
//   NACRE_TRY(trainer.merged_at(device.port(), count));
//
// Memory on the device: a block and a slice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/numeric/step_sum.h"
#include "ports/cuda/cuda_port.h"
#include "ports/cuda/nccl.h"
#include "ports/mpi/ranks.h"

namespace nacre::mpi {

class DeviceExchange {
 public:
  // `runs` describe the step block of `bytes` bytes and are the same on all ranks. Each rank has its own device, which
  // is open. `ranks`, `device` and `nccl` must outlive the DeviceExchange.
  DeviceExchange(Ranks& ranks, cuda::Device& device, const cuda::Nccl& nccl, std::span<const SumRun> runs,
                 uint64_t bytes);
  ~DeviceExchange();
  DeviceExchange(const DeviceExchange&) = delete;
  DeviceExchange& operator=(const DeviceExchange&) = delete;

  // Collective; call it before any other function. Returns the problem of the first rank that failed, in the same
  // words on all ranks; "" if all ranks succeeded.
  std::string open();

  // These functions do what Exchange's do, with blocks in the device's memory. If NCCL or the device refuses, problem()
  // says so: look at it after each call. finish then returns false.
  const std::vector<Turn>& add(std::span<const std::byte> mine, Turn turn = {});
  bool finish(std::span<std::byte> all);

  // Returns why NCCL or the device refused in the middle of an exchange; "" if neither did. Other ranks may then wait
  // for bytes that this rank did not send; end these ranks with MPI_Abort.
  const std::string& problem() const { return problem_; }
  uint64_t sent_bytes() const { return sent_; }

 private:
  struct Slice {
    uint64_t first = 0, bytes = 0;
  };
  template <class F>
  bool together(F calls);
  bool call(cuda::NcclResult result, const char* name);
  bool on_device(bool done);
  bool send(const std::byte* from, uint64_t bytes, size_t to);
  bool receive(std::byte* to, uint64_t bytes, size_t from);
  bool join(const std::byte* part);
  std::string first_problem();

  Ranks& ranks_;
  cuda::Device& device_;
  const cuda::Nccl& nccl_;
  std::vector<SumRun> runs_;
  size_t count_, rank_;
  std::vector<Slice> slices_;    // slice of the block for each rank
  std::span<std::byte> memory_;  // memory of the device
  std::byte *sum_ = nullptr, *in_ = nullptr;
  cuda::NcclComm communicator_ = nullptr;
  std::vector<Turn> turns_;
  std::string problem_;
  bool given_ = false;
  uint64_t sent_ = 0;
};

}  // namespace nacre::mpi
