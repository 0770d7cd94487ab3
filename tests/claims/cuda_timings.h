// The work that claim cuda_speed times on a GPU: whole runs and training steps of models, single kernels, and copies
// on the device. It also counts a run's calls to the driver, and holds a peer's own times.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/claims/counted_driver.h"
#include "tests/claims/cuda_models.h"
#include "tests/claims/peer_process.h"
#include "tests/claims/timed_rounds.h"

namespace nacre::test {

// Work of one contender of time_in_turns.
struct Work {
  double bytes = 0;  // bytes that it reads and writes at least; 0: not counted
  double flop = 0;
  size_t scratch = 0;  // bytes besides its operands
};

// Counts calls and memory of one run of a model, after the first run.
struct HostWork {
  std::string model;
  bool training = false;
  DriverCalls calls;
  int64_t device_bytes = 0;      // by how much the device's free memory shrank
  int64_t allocator_calls = -1;  // malloc and free in all threads; -1: not counted

  uint64_t allocations() const { return calls.memory_allocate + calls.host_allocate; }
};

// Names of contenders:
//
//   STEM/run      inputs are written, and a whole run of STEM.nacre with its copies, by the host's clock
//   STEM/replay   the launch of its graph and the wait for it, without copies, by the host's clock
//   STEM/gpu      the graph, by the GPU's clock
//   STEM/step     a step of training: a micro-batch and a commit, with the copies, by the host's clock
//   STEM/kernels  its kernels, as graphs, by the GPU's clock
//   copy          on the device, by its clock
//   adam_f32 ...  a single kernel, by the GPU's clock
//   NAME          whatever the peer calls it
class CudaTimings {
 public:
  // `small` means few elements, for the simulated device.
  CudaTimings(cuda::Device& device, const CountedDriver& driver, bool small);
  ~CudaTimings();

  bool add_model(const std::string& path);  // call this before the functions below
  bool add_kernels();
  bool add_copy();
  void add_peer(PeerProcess& peer, double limit_seconds);  // the limit is for one request
  bool count_host_work();

  const std::string& failure() const { return failure_; }
  std::vector<Timed>& contenders() { return contenders_; }
  const std::vector<Timed>& contenders() const { return contenders_; }
  const Work& work(size_t contender) const { return work_[contender]; }
  const Timed* find(const std::string& name) const;
  double bytes_of(const std::string& name) const;
  const std::vector<HostWork>& host_work() const { return host_work_; }

 private:
  struct TimedModel;
  struct TimedKernel;
  struct TimedCopy;

  void add(const std::string& name, std::function<void()> run, std::function<double(int)> clock, const Work& work);
  bool add_kernel(const std::string& name, const char* entry, const std::vector<uint32_t>& words,
                  std::vector<Array> operands, size_t inputs, const Work& work);
  double gpu_seconds(cuda::Device::Timing timing, int count, const std::function<bool()>& run);
  bool fail(const std::string& what);

  cuda::Device& device_;
  const CountedDriver& driver_;
  bool small_;
  std::string failure_;
  std::vector<std::unique_ptr<TimedModel>> models_;
  std::vector<std::unique_ptr<TimedKernel>> kernels_;
  std::unique_ptr<TimedCopy> copy_;
  std::vector<Timed> contenders_;
  std::vector<Work> work_;
  std::vector<HostWork> host_work_;
};

}  // namespace nacre::test
