#include "tests/fake/fake_driver.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "ports/cuda/step_image.h"
#include "tests/fake/simulated_kernels.h"

namespace nacre::fake {

using cuda::Result;

namespace {

constexpr Result kInvalidValue = 1, kNotReady = 600, kCaptureUnsupported = 900;

FakeDriver* current = nullptr;

template <class Handle>
Handle handle(size_t number) {
  return reinterpret_cast<Handle>(number);
}

}  // namespace

struct FakeDriver::Kernel {
  const cuda::SimulatedKernel* kernel;
  std::vector<std::byte> image;  // or of many:
  cuda::DevicePointer images;
  uint32_t threads, steps;
};

struct FakeDriver::TimedEvent {
  bool recorded = false, done = false;
  uint64_t ns = 0;
};

struct FakeDriver::Operation {
  TimedEvent* event = nullptr;
  std::vector<Kernel> kernels;      // of a launch
  std::vector<std::byte> bytes;     // of a copy to the device, where it was taken at once
  const void* from_host = nullptr;  // where it is of a graph
  cuda::DevicePointer device = 0;
  void* host = nullptr;  // of a copy to the host, or on the device
  size_t count = 0;
  bool fills = false, leaves = false;  // no copy of the host's; to the host
};

struct FakeDriver::CapturedGraph {
  std::vector<Operation> operations;
};

// The functions of a Driver, under their symbols.
struct DriverFunctions {
  // Counts the call, and returns whether it goes on.
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
  static Result device_attribute(int* value, cuda::DeviceAttribute attribute, cuda::DeviceNumber) {
    const int architecture = current->options_.architecture;
    *value = attribute == cuda::kCapabilityMajor ? architecture / 10 : architecture % 10;
    return cuda::kSuccess;
  }
  static Result device_name(char* name, int length, cuda::DeviceNumber) {
    std::strncpy(name, "simulated GPU", size_t(length) - 1);
    return cuda::kSuccess;
  }
  static Result retain_context(cuda::Context* context, cuda::DeviceNumber device) {
    current->opened_ = device;
    return ++current->held_, *context = handle<cuda::Context>(1), cuda::kSuccess;
  }
  static Result release_context(cuda::DeviceNumber) { return --current->held_, cuda::kSuccess; }
  static Result set_context(cuda::Context) { return cuda::kSuccess; }
  static Result stream_create(cuda::Stream* stream, unsigned) {
    return ++current->held_, *stream = handle<cuda::Stream>(1), cuda::kSuccess;
  }
  static Result stream_destroy(cuda::Stream) { return --current->held_, cuda::kSuccess; }
  static Result stream_synchronize(cuda::Stream) { return current->synchronize(); }

  using TimedEvent = FakeDriver::TimedEvent;
  static TimedEvent& timed(cuda::Event event) { return *reinterpret_cast<TimedEvent*>(event); }
  static Result event_create(cuda::Event* event, unsigned) {
    return ++current->held_, *event = reinterpret_cast<cuda::Event>(new TimedEvent), cuda::kSuccess;
  }
  static Result event_destroy(cuda::Event event) {
    const auto waits = [&](const FakeDriver::Operation& operation) { return operation.event == &timed(event); };
    if (std::erase_if(current->queue_, waits) != 0) broken();
    delete &timed(event);
    return --current->held_, cuda::kSuccess;
  }
  static Result event_record(cuda::Event event, cuda::Stream) {
    if (current->capturing_ != nullptr) return kCaptureUnsupported;
    FakeDriver::Operation operation;
    *(operation.event = &timed(event)) = {.recorded = true};
    current->queue_.push_back(std::move(operation));
    return cuda::kSuccess;
  }
  static Result event_elapsed(float* milliseconds, cuda::Event first, cuda::Event last) {
    if (!timed(first).recorded || !timed(last).recorded) return broken();
    if (!timed(first).done || !timed(last).done) return kNotReady;
    return *milliseconds = float(double(timed(last).ns - timed(first).ns) * 1e-6), cuda::kSuccess;
  }

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
    for (const FakeDriver::Operation& operation : reinterpret_cast<const FakeDriver::CapturedGraph*>(exec)->operations)
      current->put(operation);
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
    const cuda::SimulatedKernel* const one = simulated_kernel(name);
    const cuda::SimulatedKernel* const found = one != nullptr ? one : simulated_kernel_of_many(name);
    if (found == nullptr) return cuda::kNotFound;
    LoadedFunction& loaded = current->functions_[name];
    loaded = {found, one == nullptr};
    *function = reinterpret_cast<cuda::Function>(&loaded);
    return cuda::kSuccess;
  }

  static Result function_load(cuda::Function) { return cuda::kSuccess; }

  static Result memory_allocate(cuda::DevicePointer* at, size_t bytes) {
    const size_t rounded = (bytes + 511) / 256 * 256;  // no two allocations touch
    if (rounded > current->options_.memory - current->taken_) return cuda::kOutOfMemory;
    *at = reinterpret_cast<uintptr_t>(current->memory_ + current->taken_);
    current->taken_ += rounded;
    current->protect(true);
    // Poisons no more than that: a page that nobody touched costs nothing when the memory is protected.
    constexpr size_t kPoisoned = size_t{4} << 20;
    std::memset(reinterpret_cast<void*>(*at), int(current->options_.poison), std::min(rounded, kPoisoned));
    current->protect(false);
    return ++current->held_, cuda::kSuccess;
  }
  static Result memory_free(cuda::DevicePointer) { return --current->held_, cuda::kSuccess; }
  static Result host_allocate(void** at, size_t bytes, unsigned) {
    ++current->held_, *at = std::calloc(1, bytes);
    current->pinned_[static_cast<const std::byte*>(*at)] = bytes;
    return cuda::kSuccess;
  }
  static Result host_free(void* at) {
    --current->held_, current->pinned_.erase(static_cast<const std::byte*>(at));
    return std::free(at), cuda::kSuccess;
  }
  static Result host_pointer(cuda::DevicePointer* device, void* host, unsigned) {
    return *device = reinterpret_cast<uintptr_t>(host), cuda::kSuccess;
  }

  static Result copy_to_device(cuda::DevicePointer to, const void* from, size_t bytes, cuda::Stream) {
    if (!current->holds(to, bytes)) return broken();
    FakeDriver::Operation operation;
    operation.device = to;
    if (current->capturing_ != nullptr) {
      if (!current->is_pinned(from, bytes)) return kCaptureUnsupported;
      operation.from_host = from, operation.count = bytes;
    } else {
      operation.bytes.assign(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes);
    }
    return current->put(std::move(operation));
  }
  static Result copy_to_host(void* to, cuda::DevicePointer from, size_t bytes, cuda::Stream) {
    if (current->capturing_ != nullptr && !current->is_pinned(to, bytes)) return kCaptureUnsupported;
    if (!current->holds(from, bytes)) return broken();
    FakeDriver::Operation operation;
    operation.device = from, operation.host = to, operation.count = bytes, operation.leaves = true;
    return current->put(std::move(operation));
  }
  static Result copy_on_device(cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes, cuda::Stream) {
    if (!current->holds(to, bytes) || !current->holds(from, bytes)) return broken();
    FakeDriver::Operation operation;
    operation.device = from, operation.host = reinterpret_cast<void*>(to), operation.count = bytes;
    return current->put(std::move(operation));
  }
  static Result memory_information(size_t* free_bytes, size_t* all_bytes) {
    *all_bytes = current->options_.memory;
    return *free_bytes = *all_bytes - current->taken_, cuda::kSuccess;
  }
  static Result set_bytes(cuda::DevicePointer at, unsigned char value, size_t bytes, cuda::Stream) {
    if (!current->holds(at, bytes)) return broken();
    FakeDriver::Operation operation;
    operation.device = at, operation.fills = true;
    operation.bytes.assign(bytes, std::byte{value});
    return current->put(std::move(operation));
  }
  static Result launch(cuda::Function function, unsigned grid_x, unsigned grid_y, unsigned, unsigned block_x, unsigned,
                       unsigned, unsigned, cuda::Stream, void** parameters, void**) {
    const auto& loaded = *reinterpret_cast<const LoadedFunction*>(function);
    FakeDriver::Kernel made = {loaded.kernel, {}, 0, grid_x * block_x, grid_y};
    if (loaded.many) {
      made.images = *static_cast<const cuda::DevicePointer*>(parameters[0]);
      if (!current->holds(made.images, loaded.kernel->bytes * grid_y)) return broken();
    } else {
      const auto* image = static_cast<const std::byte*>(parameters[0]);
      made.image.assign(image, image + loaded.kernel->bytes);
      if (grid_y != 1) return broken();
    }
    FakeDriver::Operation operation;
    operation.kernels.push_back(std::move(made));
    return current->put(std::move(operation));
  }
};

FakeDriver::FakeDriver(const DriverOptions& options) : options_(options) {
  if (current != nullptr) std::abort();
  current = this;
  void* const mapped = mmap(nullptr, options_.memory, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) std::abort();
  memory_ = static_cast<std::byte*>(mapped);
#define NACRE_CUDA_FUNCTION(name, symbol, ...)                                                   \
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

const void* FakeDriver::module() { return &current; }

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

bool FakeDriver::is_pinned(const void* at, size_t bytes) const {
  const auto* const first = static_cast<const std::byte*>(at);
  return std::ranges::any_of(pinned_,
                             [&](const auto& p) { return first >= p.first && first + bytes <= p.first + p.second; });
}

// Adds the operation to the graph that is captured, or to the queue.
Result FakeDriver::put(Operation operation) {
  if (capturing_ != nullptr) {
    capturing_->operations.push_back(std::move(operation));
    return cuda::kSuccess;
  }
  if (operation.leaves) bytes_out_ += operation.count;
  if (!operation.fills) bytes_in_ += operation.from_host != nullptr ? operation.count : operation.bytes.size();
  queue_.push_back(std::move(operation));
  return cuda::kSuccess;
}

void FakeDriver::protect(bool open) {
  const size_t pages = (taken_ + 4095) / 4096 * 4096;
  if (pages != 0 && mprotect(memory_, pages, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) std::abort();
}

Result FakeDriver::synchronize() {
  protect(true);
  for (const Operation& operation : queue_) {
    auto* const device = reinterpret_cast<std::byte*>(operation.device);
    for (const Kernel& kernel : operation.kernels) {
      for (uint32_t step = 0; step < kernel.steps; ++step) {
        const void* const image = kernel.images == 0
                                      ? kernel.image.data()
                                      : reinterpret_cast<const std::byte*>(kernel.images) + step * kernel.kernel->bytes;
        threads_ += run_threads(*kernel.kernel, image, kernel.threads, options_.simulation);
      }
      clock_ns_ += 1000 + kernel.threads * kernel.steps;
    }
    if (const size_t bytes = operation.bytes.size() + operation.count; bytes != 0) clock_ns_ += 1000 + bytes;
    if (operation.event != nullptr) *operation.event = {.recorded = true, .done = true, .ns = clock_ns_};
    if (!operation.bytes.empty()) std::memcpy(device, operation.bytes.data(), operation.bytes.size());
    if (operation.host != nullptr) std::memcpy(operation.host, device, operation.count);
    if (operation.from_host != nullptr) std::memcpy(device, operation.from_host, operation.count);
  }
  queue_.clear();
  protect(false);
  return cuda::kSuccess;
}

}  // namespace nacre::fake
