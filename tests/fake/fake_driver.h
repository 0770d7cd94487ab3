// A CUDA driver for tests, without a GPU: the port (ports/cuda) calls it as it calls NVIDIA's.
//
//   - The device has memory of its own, which is protected except while a kernel or a copy runs: a read or write by
//     the host ends the process. The first 4 MiB of an allocation are poisoned.
//   - A stream does its work when it is synchronized. Bytes to be copied to the device are taken at once, as a driver
//     takes them from memory that is not pinned.
//   - A graph keeps copies of its kernels' parameters. While one is captured, copies are only from and to pinned
//     memory of the host, which is read and written when the graph runs.
//   - Its clock advances by 1 us with each kernel and each copy, and by 1 ns with each thread of a launch and each byte
//     that is copied. Events tell the time once the stream is synchronized behind them.
//   - A kernel is the reference's, compiled for threads (ops/independent.h): some threads, one after another, in an
//     order that changes from launch to launch.
//   - Every function counts its calls, and fails on demand.
//
// There may be one at a time, because a driver's functions know no object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/kernels/kernel.h"
#include "ports/cuda/driver.h"
#include "ports/cuda/step_image.h"

namespace nacre::fake {

// How kernels run on the simulated device: the most threads, and the seed of their number and order.
struct Simulation {
  uint32_t most_threads = 9;
  uint64_t seed = 1;
  bool first_thread_alone = false;  // shows whether the others are missed

  uint32_t random();
};

// Returns the reference's kernels, training included, run by simulated threads on the host's memory, for tests of
// single steps. `simulation` holds until the next call.
const KernelSet& simulated_kernels(const Simulation& simulation);

struct DriverOptions {
  std::byte poison = std::byte{0xA5};
  Simulation simulation = {};
  int version = 13000, devices = 1, architecture = 90;
  cuda::Result init = cuda::kSuccess;
  cuda::Result load = cuda::kSuccess;  // of a module
  size_t memory = size_t{1} << 28;
};

// The function behind a driver's handle.
struct LoadedFunction {
  const cuda::SimulatedKernel* kernel;
  bool many;  // its images are in device memory, one for each row of blocks
};

class FakeDriver {
 public:
  explicit FakeDriver(const DriverOptions& options = {});
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const cuda::Driver& driver() const { return driver_; }
  static const void* module();  // to load; any will do

  // The n-th call of the function with this symbol ("cuLaunchKernel"), counted from 0, fails.
  void fail(const std::string& symbol, uint64_t nth, cuda::Result result = 719);
  bool failed() const { return fault_.empty(); }  // since fail()

  uint64_t calls(const std::string& symbol) const;
  uint64_t all_calls() const;
  uint64_t broken() const { return broken_; }    // calls that no caller may make
  uint64_t threads() const { return threads_; }  // that ran
  // Return the bytes copied from the host, and to the host.
  uint64_t bytes_in() const { return bytes_in_; }
  uint64_t bytes_out() const { return bytes_out_; }
  // Returns how many objects were given and not freed: allocations, graphs, modules, streams, contexts, events.
  uint64_t held() const { return held_; }
  int opened() const { return opened_; }  // the device whose context was asked for last, or -1

 private:
  friend struct DriverFunctions;
  struct Kernel;
  struct Operation;
  struct CapturedGraph;
  struct TimedEvent;

  bool fails(const char* symbol, cuda::Result* result);
  void protect(bool open);
  bool holds(cuda::DevicePointer at, size_t bytes) const;
  bool is_pinned(const void* at, size_t bytes) const;
  cuda::Result put(Operation operation);
  cuda::Result synchronize();

  DriverOptions options_;
  cuda::Driver driver_ = {};
  std::byte* memory_ = nullptr;
  size_t taken_ = 0;
  std::map<std::string, LoadedFunction> functions_;
  std::map<const std::byte*, size_t> pinned_;
  std::vector<Operation> queue_;
  CapturedGraph* capturing_ = nullptr;
  uint64_t clock_ns_ = 0;
  std::map<std::string, uint64_t> calls_;
  std::string fault_;
  uint64_t until_ = 0;
  cuda::Result result_ = 0;
  uint64_t broken_ = 0, threads_ = 0, held_ = 0, bytes_in_ = 0, bytes_out_ = 0;
  int opened_ = -1;
};

}  // namespace nacre::fake
