#include "ports/fake/fake_driver.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "engine/kernels/training.h"
#include "ports/cuda/step_image.h"
#include "ports/fake/simulated_threads.h"

namespace nacre::reference {

#define NACRE_ENTRY(name, ...) extern const cuda::SimulatedKernel simulated_##name;
#include "engine/kernels/reference.inc"
#define NACRE_ENTRY(name, ...) extern const cuda::SimulatedKernel simulated_##name;
#include "engine/kernels/training.inc"

}  // namespace nacre::reference

namespace nacre::fake {

thread_local SimulatedThread simulated_thread = {0, 1};

using cuda::Result;

namespace {

struct NamedKernel {
  const char* name;
  const cuda::SimulatedKernel* kernel;
};

constexpr NamedKernel kKernels[] = {
#define NACRE_ENTRY(name, ...) {"nacre_" #name, &reference::simulated_##name},
#include "engine/kernels/reference.inc"
#define NACRE_ENTRY(name, ...) {"nacre_" #name, &reference::simulated_##name},
#include "engine/kernels/training.inc"
};

constexpr Result kInvalidValue = 1, kCaptureUnsupported = 900;

FakeDriver* current = nullptr;

// Threads of one kernel, one after another; how many ran.
uint32_t run_threads(const cuda::SimulatedKernel& kernel, const void* image, uint32_t most, Simulation& simulation) {
  const uint32_t count = std::min(most, 1 + simulation.random() % simulation.most_threads);
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[simulation.random() % i]);
  for (const uint32_t index : order) {
    if (simulation.first_thread_alone && index != 0) continue;
    simulated_thread = {index, count};
    kernel.run(image);
  }
  simulated_thread = {0, 1};
  return count;
}

template <class Handle>
Handle handle(size_t number) {
  return reinterpret_cast<Handle>(number);
}

}  // namespace

uint32_t Simulation::random() {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return uint32_t(seed >> 33);
}

// ---- Single steps ----

namespace {

constexpr size_t kMostKernels = 1024;
static_assert(std::size(kKernels) <= kMostKernels);
Simulation simulation_of_steps;

template <size_t kIndex>
Code run_step(const Args& args) {
  cuda::StepImage<cuda::kMostOperands> image;
  uint32_t failure = 0;
  cuda::write_image(args, cuda::kMostOperands, &failure, &image.head);
  run_threads(*kKernels[kIndex].kernel, &image, ~0u, simulation_of_steps);
  return Code(failure);
}

struct Steps {
  std::vector<KernelEntry> entries;
  std::vector<const KernelEntry*> list;
  KernelSet set;

  template <size_t... kIndex>
  explicit Steps(std::index_sequence<kIndex...>) {
    const Kernel run[] = {run_step<kIndex>...};
    for (const auto& named : {reference::list(), reference::training_list()})
      for (const auto& [name, entry] : named) {
        const std::string symbol = std::string("nacre_") + name;
        const auto is = [&](const NamedKernel& kernel) { return symbol == kernel.name; };
        entries.push_back(*entry);
        entries.back().run = run[std::ranges::find_if(kKernels, is) - kKernels];
      }
    std::ranges::stable_sort(entries, {}, &KernelEntry::op);
    for (const KernelEntry& entry : entries) list.push_back(&entry);
    set = {"simulated", list};
  }
};

}  // namespace

const KernelSet& simulated_kernels(const Simulation& simulation) {
  static const Steps steps(std::make_index_sequence<std::size(kKernels)>{});
  simulation_of_steps = simulation;
  return steps.set;
}

// ---- The driver ----

struct FakeDriver::Kernel {
  const cuda::SimulatedKernel* kernel;
  std::vector<std::byte> image;
  uint32_t threads;
};

struct FakeDriver::CapturedGraph {
  std::vector<Kernel> kernels;
};

struct FakeDriver::Operation {
  std::vector<Kernel> kernels;   // of a launch
  std::vector<std::byte> bytes;  // of a copy to the device
  cuda::DevicePointer device = 0;
  void* host = nullptr;  // of a copy to the host
  size_t count = 0;
};

// The functions that a Driver has, under the names that it gives them.
struct DriverFunctions {
  // Whether the call goes on; counts it.
  static bool enter(const char* symbol, Result* result) {
    ++current->calls_[symbol];
    *result = cuda::kSuccess;
    return !current->fails(symbol, result);
  }
  static Result broken() {
    ++current->broken_;
    return kInvalidValue;
  }

  static Result init(unsigned) { return current->options_.init; }
  static Result driver_version(int* version) { return *version = current->options_.version, cuda::kSuccess; }
  static Result device_count(int* count) { return *count = current->options_.devices, cuda::kSuccess; }
  static Result device_get(cuda::DeviceNumber* device, int ordinal) { return *device = ordinal, cuda::kSuccess; }
  static Result device_name(char* name, int length, cuda::DeviceNumber) {
    std::strncpy(name, "simulated GPU", size_t(length) - 1);
    return cuda::kSuccess;
  }
  static Result retain_context(cuda::Context* context, cuda::DeviceNumber) {
    return ++current->held_, *context = handle<cuda::Context>(1), cuda::kSuccess;
  }
  static Result release_context(cuda::DeviceNumber) { return --current->held_, cuda::kSuccess; }
  static Result set_context(cuda::Context) { return cuda::kSuccess; }
  static Result stream_create(cuda::Stream* stream, unsigned) {
    return ++current->held_, *stream = handle<cuda::Stream>(1), cuda::kSuccess;
  }
  static Result stream_destroy(cuda::Stream) { return --current->held_, cuda::kSuccess; }
  static Result stream_synchronize(cuda::Stream) { return current->synchronize(); }

  static Result begin_capture(cuda::Stream, cuda::CaptureMode) {
    if (current->capturing_ != nullptr) return broken();
    current->capturing_ = new FakeDriver::CapturedGraph;
    return cuda::kSuccess;
  }
  static Result end_capture(cuda::Stream, cuda::Graph* graph) {
    if (current->capturing_ == nullptr) return broken();
    ++current->held_;
    *graph = reinterpret_cast<cuda::Graph>(std::exchange(current->capturing_, nullptr));
    return cuda::kSuccess;
  }
  static Result graph_instantiate(cuda::GraphExec* exec, cuda::Graph graph, unsigned long long) {
    ++current->held_;
    *exec = reinterpret_cast<cuda::GraphExec>(
        new FakeDriver::CapturedGraph(*reinterpret_cast<const FakeDriver::CapturedGraph*>(graph)));
    return cuda::kSuccess;
  }
  static Result graph_launch(cuda::GraphExec exec, cuda::Stream) {
    if (current->capturing_ != nullptr) return kCaptureUnsupported;
    FakeDriver::Operation operation;
    operation.kernels = reinterpret_cast<const FakeDriver::CapturedGraph*>(exec)->kernels;
    current->queue_.push_back(std::move(operation));
    return cuda::kSuccess;
  }
  static Result graph_destroy(cuda::Graph graph) {
    delete reinterpret_cast<FakeDriver::CapturedGraph*>(graph);
    return --current->held_, cuda::kSuccess;
  }
  static Result graph_exec_destroy(cuda::GraphExec exec) {
    delete reinterpret_cast<FakeDriver::CapturedGraph*>(exec);
    return --current->held_, cuda::kSuccess;
  }

  static Result module_load(cuda::Module* module, const void*) {
    if (current->options_.load != cuda::kSuccess) return current->options_.load;
    return ++current->held_, *module = handle<cuda::Module>(1), cuda::kSuccess;
  }
  static Result module_unload(cuda::Module) { return --current->held_, cuda::kSuccess; }
  static Result module_function(cuda::Function* function, cuda::Module, const char* name) {
    const auto found =
        std::ranges::find_if(kKernels, [&](const NamedKernel& k) { return std::strcmp(k.name, name) == 0; });
    if (found == std::end(kKernels)) return cuda::kNotFound;
    *function = reinterpret_cast<cuda::Function>(const_cast<cuda::SimulatedKernel*>(found->kernel));
    return cuda::kSuccess;
  }

  static Result function_load(cuda::Function) { return cuda::kSuccess; }

  static Result memory_allocate(cuda::DevicePointer* at, size_t bytes) {
    const size_t rounded = (bytes + 511) / 256 * 256;  // no two allocations touch
    if (rounded > current->options_.memory - current->taken_) return cuda::kOutOfMemory;
    *at = reinterpret_cast<uintptr_t>(current->memory_ + current->taken_);
    current->taken_ += rounded;
    current->protect(true);
    std::memset(reinterpret_cast<void*>(*at), int(current->options_.poison), rounded);
    current->protect(false);
    return ++current->held_, cuda::kSuccess;
  }
  static Result memory_free(cuda::DevicePointer) { return --current->held_, cuda::kSuccess; }
  static Result host_allocate(void** at, size_t bytes, unsigned) {
    return ++current->held_, *at = std::calloc(1, bytes), cuda::kSuccess;
  }
  static Result host_free(void* at) { return --current->held_, std::free(at), cuda::kSuccess; }
  static Result host_pointer(cuda::DevicePointer* device, void* host, unsigned) {
    return *device = reinterpret_cast<uintptr_t>(host), cuda::kSuccess;
  }

  static Result copy_to_device(cuda::DevicePointer to, const void* from, size_t bytes, cuda::Stream) {
    if (current->capturing_ != nullptr) return kCaptureUnsupported;
    if (!current->holds(to, bytes)) return broken();
    FakeDriver::Operation operation;
    operation.device = to;
    operation.bytes.assign(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes);
    current->queue_.push_back(std::move(operation));
    return cuda::kSuccess;
  }
  static Result copy_to_host(void* to, cuda::DevicePointer from, size_t bytes, cuda::Stream) {
    if (current->capturing_ != nullptr) return kCaptureUnsupported;
    if (!current->holds(from, bytes)) return broken();
    FakeDriver::Operation operation;
    operation.device = from, operation.host = to, operation.count = bytes;
    current->queue_.push_back(std::move(operation));
    return cuda::kSuccess;
  }
  static Result set_bytes(cuda::DevicePointer at, unsigned char value, size_t bytes, cuda::Stream) {
    if (current->capturing_ != nullptr) return kCaptureUnsupported;
    if (!current->holds(at, bytes)) return broken();
    FakeDriver::Operation operation;
    operation.device = at;
    operation.bytes.assign(bytes, std::byte{value});
    current->queue_.push_back(std::move(operation));
    return cuda::kSuccess;
  }
  static Result launch(cuda::Function function, unsigned grid_x, unsigned, unsigned, unsigned block_x, unsigned,
                       unsigned, unsigned, cuda::Stream, void** parameters, void**) {
    const auto* kernel = reinterpret_cast<const cuda::SimulatedKernel*>(function);
    const auto* image = static_cast<const std::byte*>(parameters[0]);
    FakeDriver::Kernel made = {kernel, {image, image + kernel->bytes}, grid_x * block_x};
    if (current->capturing_ != nullptr) {
      current->capturing_->kernels.push_back(std::move(made));
    } else {
      FakeDriver::Operation operation;
      operation.kernels.push_back(std::move(made));
      current->queue_.push_back(std::move(operation));
    }
    return cuda::kSuccess;
  }
};

FakeDriver::FakeDriver(const DriverOptions& options) : options_(options) {
  if (current != nullptr) std::abort();
  current = this;
  void* const mapped = mmap(nullptr, options_.memory, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) std::abort();
  memory_ = static_cast<std::byte*>(mapped);
#define NACRE_CUDA_FUNCTION(name, symbol, arguments)                                             \
  driver_.name = [](auto... values) {                                                            \
    Result result;                                                                               \
    return DriverFunctions::enter(#symbol, &result) ? DriverFunctions::name(values...) : result; \
  };
  NACRE_CUDA_FUNCTIONS(NACRE_CUDA_FUNCTION)
#undef NACRE_CUDA_FUNCTION
}

FakeDriver::~FakeDriver() {
  delete capturing_;
  munmap(memory_, options_.memory);
  current = nullptr;
}

const void* FakeDriver::module() { return &kKernels; }

void FakeDriver::fail(const std::string& symbol, uint64_t nth, Result result) {
  fault_ = symbol, until_ = nth, result_ = result;
}

bool FakeDriver::fails(const char* symbol, Result* result) {
  if (fault_ != symbol || until_-- > 0) return false;
  if (fault_ == "cuStreamSynchronize") queue_.clear();                            // a device that fails does no more
  if (fault_ == "cuStreamEndCapture") delete std::exchange(capturing_, nullptr);  // and a capture ends
  fault_.clear();
  *result = result_;
  return true;
}

uint64_t FakeDriver::calls(const std::string& symbol) const {
  const auto found = calls_.find(symbol);
  return found == calls_.end() ? 0 : found->second;
}

uint64_t FakeDriver::all_calls() const {
  return std::accumulate(calls_.begin(), calls_.end(), uint64_t{0},
                         [](uint64_t sum, const auto& c) { return sum + c.second; });
}

bool FakeDriver::holds(cuda::DevicePointer at, size_t bytes) const {
  const auto first = reinterpret_cast<uintptr_t>(memory_);
  return at >= first && at - first <= taken_ && bytes <= taken_ - (at - first);
}

void FakeDriver::protect(bool open) {
  const size_t pages = (taken_ + 4095) / 4096 * 4096;
  if (pages != 0 && mprotect(memory_, pages, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) std::abort();
}

Result FakeDriver::synchronize() {
  protect(true);
  for (const Operation& operation : queue_) {
    auto* const device = reinterpret_cast<std::byte*>(operation.device);
    for (const Kernel& kernel : operation.kernels)
      threads_ += run_threads(*kernel.kernel, kernel.image.data(), kernel.threads, options_.simulation);
    if (!operation.bytes.empty()) std::memcpy(device, operation.bytes.data(), operation.bytes.size());
    if (operation.host != nullptr) std::memcpy(operation.host, device, operation.count);
  }
  queue_.clear();
  protect(false);
  return cuda::kSuccess;
}

}  // namespace nacre::fake
