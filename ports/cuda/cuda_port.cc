#include "ports/cuda/cuda_port.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

#include "ports/cuda/cuda_tables.h"

namespace nacre::cuda {
namespace {

constexpr int kOldestDriver = 13000;  // CUDA 13.0, for which the kernels are compiled
constexpr uint32_t kAlignment = 256;

}  // namespace

// ---- Opening ----

bool Device::refuse(const char* sentence) {
  std::snprintf(sentence_, sizeof sentence_, "cuda: %s", sentence);
  return false;
}

bool Device::succeeded(Result result, const char* what) {
  if (result == kSuccess) return true;
  std::snprintf(sentence_, sizeof sentence_, "cuda: %s failed with CUDA error %d", what, result);
  return false;
}

bool Device::open(const Driver* driver, std::span<const void* const> modules, int ordinal, const CublasLt* library) {
  close();
  sentence_[0] = 0;
  if (driver == nullptr) return refuse("this machine has no NVIDIA driver (libcuda.so.1)");
  if (modules.empty()) return refuse("this build has no kernels for it; build with -Dcuda=enabled where nvcc is");
  int version = 0, count = 0;
  const Result started = driver->init(0);
  if (started == kNoDevice) return refuse("this machine has no NVIDIA GPU");
  if (!succeeded(started, "cuInit") || !succeeded(driver->driver_version(&version), "cuDriverGetVersion")) return false;
  if (version < kOldestDriver) {
    std::snprintf(sentence_, sizeof sentence_,
                  "cuda: the NVIDIA driver knows CUDA %d.%d, and 13.0 is needed; update it", version / 1000,
                  version % 1000 / 10);
    return false;
  }
#define NACRE_CUDA_FUNCTION(name, symbol, ...) \
  if (driver->name == nullptr) return refuse("the NVIDIA driver lacks " #symbol "; update it");
  NACRE_CUDA_FUNCTIONS(NACRE_CUDA_FUNCTION)
#undef NACRE_CUDA_FUNCTION
  if (!succeeded(driver->device_count(&count), "cuDeviceGetCount")) return false;
  if (ordinal < 0 || ordinal >= count) {
    std::snprintf(sentence_, sizeof sentence_, "cuda: there is no GPU %d; this machine has %d", ordinal, count);
    return false;
  }
  driver_ = driver;
  int major = 0, minor = 0;
  if (!succeeded(driver->device_get(&device_, ordinal), "cuDeviceGet") ||
      !succeeded(driver->device_name(name_, sizeof name_, device_), "cuDeviceGetName") ||
      !succeeded(driver->device_attribute(&major, kCapabilityMajor, device_), "cuDeviceGetAttribute") ||
      !succeeded(driver->device_attribute(&minor, kCapabilityMinor, device_), "cuDeviceGetAttribute") ||
      !succeeded(driver->retain_context(&context_, device_), "cuDevicePrimaryCtxRetain")) {
    driver_ = nullptr;
    return false;
  }
  architecture_ = 10 * major + minor;
  void* failure = nullptr;
  bool opened = succeeded(driver->set_context(context_), "cuCtxSetCurrent") &&
                succeeded(driver->stream_create(&stream_, kStreamNonBlocking), "cuStreamCreate") &&
                succeeded(driver->host_allocate(&failure, sizeof *failure_, kHostMapped), "cuMemHostAlloc");
  failure_ = static_cast<uint32_t*>(failure);
  opened = opened && succeeded(driver->host_pointer(&failure_on_device_, failure, 0), "cuMemHostGetDevicePointer");
  for (const void* image : modules) {
    Module module = nullptr;
    const Result loaded = opened ? driver->module_load(&module, image) : kSuccess;
    if (loaded == kNoBinaryForDevice || loaded == kUnsupportedPtx)
      opened = refuse("this build's kernels are not for this GPU; set -Dgpu_targets to its architecture");
    else opened = opened && succeeded(loaded, "cuModuleLoadData");
    if (opened) modules_.push_back(module);
  }
  if (!opened) {
    close();
    return false;
  }
  *failure_ = 0;
  functions_.assign(tables().entries.size(), nullptr);
  if (library != nullptr) {
    const std::span<std::byte> workspace = allocate(Products::kWorkspace);
    if (!products_.open(library, workspace.data())) release(workspace);
    sentence_[0] = 0;
  }
  port_ = {.name = "cuda",
           .set = has_products() ? &tables().set_with_products : &tables().set,
           .context = this,
           .begin = [](void* self) { return static_cast<Device*>(self)->begin(); },
           .finish = [](void* self) { return static_cast<Device*>(self)->finish(); },
           .copy = [](void* self, CopyDirection direction, void* to, const void* from,
                      size_t bytes) { return static_cast<Device*>(self)->copy(direction, to, from, bytes); },
           .fill = [](void* self, void* to, std::byte value,
                      size_t bytes) { return static_cast<Device*>(self)->fill(to, value, bytes); },
           .alignment = kAlignment,
           .tail_bytes = 0,
           .reads_guards = true,
           .hold = [](void* self) { return static_cast<Device*>(self)->hold(); },
           .release = [](void* self, bool drop, bool* ran) { return static_cast<Device*>(self)->release(drop, ran); }};
  return true;
}

void Device::close() {
  if (driver_ == nullptr) return;
  driver_->set_context(context_);
  if (stream_ != nullptr) driver_->stream_synchronize(stream_);
  forget_recordings();
  products_.close();
  forget_events();
  for (Module module : modules_) driver_->module_unload(module);
  for (DevicePointer at : allocated_) driver_->memory_free(at);
  for (const PinnedBlock& block : pinned_) driver_->host_free(block.at);
  if (failure_ != nullptr) driver_->host_free(failure_);
  if (stream_ != nullptr) driver_->stream_destroy(stream_);
  driver_->release_context(device_);
  modules_.clear(), functions_.clear(), allocated_.clear(), commands_.clear(), product_kernels_.clear();
  many_functions_.clear(), arrivals_.clear(), pinned_.clear();
  driver_ = nullptr, context_ = nullptr, stream_ = nullptr, failure_ = nullptr, failure_on_device_ = 0;
  port_ = {}, in_segment_ = holding_ = false, counts_ = {}, architecture_ = 0, tf32_ = false;
  timing_ = Timing::kNone, times_.clear();
}

std::span<std::byte> Device::allocate(size_t bytes) {
  DevicePointer at = 0;
  if (driver_ == nullptr || bytes == 0) return {};
  if (!succeeded(driver_->set_context(context_), "cuCtxSetCurrent")) return {};
  const Result result = driver_->memory_allocate(&at, bytes);
  if (result == kOutOfMemory) {
    std::snprintf(sentence_, sizeof sentence_,
                  "cuda: %s has not %llu bytes free; bind fewer programs or a smaller batch", name_,
                  static_cast<unsigned long long>(bytes));
    return {};
  }
  if (!succeeded(result, "cuMemAlloc")) return {};
  allocated_.push_back(at);
  return {reinterpret_cast<std::byte*>(at), bytes};
}

void Device::release(std::span<std::byte> memory) {
  const auto at = DevicePointer(reinterpret_cast<uintptr_t>(memory.data()));
  if (driver_ == nullptr || std::erase(allocated_, at) == 0) return;
  driver_->set_context(context_);
  driver_->memory_free(at);
}

// ---- Binding ----

// Recorded graphs hold copies of images, and a new binding may lie at the addresses of an earlier one.
Code Device::prepare(const Args& args, int room, StepHead* image) {
  forget_recordings();
  Function function = nullptr;
  const auto& kernels = tables().kernels;
  const auto index = size_t(std::ranges::find(kernels, args.call.run) - kernels.begin());
  if (index >= tables().entries.size() || !function_of(index, &function)) return Code::kPortFailed;
  write_image(args, room, reinterpret_cast<uint32_t*>(failure_on_device_), image);
  if (!has_products()) return Code::kOk;
  return find_product_kernels(tables().entries[index], tables().names[index], *image) ? Code::kOk : Code::kPortFailed;
}

bool Device::function_of(size_t entry, Function* function) {
  Function& found = functions_[entry];
  if (found == nullptr && !find_function(tables().names[entry], &found)) return false;
  *function = found;
  return true;
}

bool Device::find_function(const char* kernel, Function* found) {
  char name[96];
  std::snprintf(name, sizeof name, "nacre_%s", kernel);
  Result result = kNotFound;
  for (size_t i = 0; i < modules_.size() && result == kNotFound; ++i)
    result = driver_->module_function(found, modules_[i], name);
  // Loads the function now. A driver that loads kernels at their first launch would do so in the middle of a capture.
  return succeeded(result, name) && succeeded(driver_->function_load(*found), name);
}

// ---- Running ----

Code Device::begin() {
  if (holding_) return Code::kOk;
  commands_.clear(), marks_.clear();
  if (in_segment_ || !succeeded(driver_->set_context(context_), "cuCtxSetCurrent")) return Code::kPortFailed;
  in_segment_ = true;
  return Code::kOk;
}

Code Device::finish() {
  if (holding_) return Code::kOk;
  in_segment_ = false;
  const Code flushed = flush();
  if (!succeeded(driver_->stream_synchronize(stream_), "a kernel or a copy") || flushed != Code::kOk)
    return Code::kPortFailed;
  const Code failure = Code(std::exchange(*failure_, 0));
  return read_times() ? failure : Code::kPortFailed;
}

Code Device::copy(CopyDirection direction, void* to, const void* from, size_t bytes) {
  if (holding_) return hold_copy(direction, to, from, bytes);
  if (!in_segment_ && !succeeded(driver_->set_context(context_), "cuCtxSetCurrent")) return Code::kPortFailed;
  const auto there = DevicePointer(reinterpret_cast<uintptr_t>(to)),
             here = DevicePointer(reinterpret_cast<uintptr_t>(from));
  bool done = true;
  if (direction == CopyDirection::kToPort) {
    done = succeeded(driver_->copy_to_device(there, from, bytes, stream_), "a copy to the device");
  } else if (const Code flushed = flush(); flushed != Code::kOk) {
    return flushed;
  } else if (direction == CopyDirection::kFromPort) {
    done = succeeded(driver_->copy_to_host(to, here, bytes, stream_), "a copy to the host");
  } else {
    done = succeeded(driver_->copy_on_device(there, here, bytes, stream_), "a copy on the device");
  }
  done = done && (in_segment_ || succeeded(driver_->stream_synchronize(stream_), "a copy"));
  return done ? Code::kOk : Code::kPortFailed;
}

Code Device::fill(void* to, std::byte value, size_t bytes) {
  if (holding_) {
    commands_.push_back({.kind = Command::kFill, .to = static_cast<std::byte*>(to), .bytes = bytes, .value = value});
    return Code::kOk;
  }
  const auto at = DevicePointer(reinterpret_cast<uintptr_t>(to));
  const bool done =
      succeeded(driver_->set_context(context_), "cuCtxSetCurrent") &&
      succeeded(driver_->set_bytes(at, static_cast<unsigned char>(value), bytes, stream_), "cuMemsetD8") &&
      (in_segment_ || succeeded(driver_->stream_synchronize(stream_), "cuMemsetD8"));
  return done ? Code::kOk : Code::kPortFailed;
}

Code Device::enqueue(size_t entry, const Args& args) {
  if (!in_segment_ && !holding_) return Code::kPortFailed;
  commands_.push_back({.kind = Command::kStep,
                       .image = static_cast<const StepHead*>(args.call.prepared),
                       .entry = uint32_t(entry),
                       .rows = args.rows});
  return Code::kOk;
}

// Launches the deferred commands.
Code Device::flush() {
  if (commands_.empty()) return Code::kOk;
  const bool launched = timing_ == Timing::kSteps ? launch_steps() : launch_graph();
  commands_.clear();
  return launched ? Code::kOk : Code::kPortFailed;
}

// ---- Several segments as one ----

// Refuses in a segment, and while steps are timed one by one.
Code Device::hold() {
  if (in_segment_ || timing_ == Timing::kSteps || !succeeded(driver_->set_context(context_), "cuCtxSetCurrent"))
    return Code::kPortFailed;
  commands_.clear(), marks_.clear(), arrivals_.clear();
  pinned_block_ = pinned_taken_ = 0;
  holding_ = true;
  return Code::kOk;
}

Code Device::release(bool drop, bool* ran) {
  holding_ = *ran = false;
  if (drop) commands_.clear();
  const Code flushed = flush();
  const bool waited = drop || succeeded(driver_->stream_synchronize(stream_), "a kernel or a copy");
  if (drop || !waited || flushed != Code::kOk) return drop ? Code::kOk : Code::kPortFailed;
  *ran = true;
  const Code failure = Code(std::exchange(*failure_, 0));
  for (const Arrival& arrival : arrivals_)
    if (failure == Code::kOk) std::memcpy(arrival.to, arrival.from, arrival.bytes);
  return read_times() ? failure : Code::kPortFailed;
}

// Takes copies from the host now. Copies to the host wait until all commands have run.
Code Device::hold_copy(CopyDirection direction, void* to, const void* from, size_t bytes) {
  Command command = {.kind = Command::kCopyWithin,
                     .to = static_cast<std::byte*>(to),
                     .from = static_cast<const std::byte*>(from),
                     .bytes = bytes};
  if (direction != CopyDirection::kWithinPort) {
    std::byte* const piece = pinned_piece(bytes);
    if (piece == nullptr) return Code::kPortFailed;
    if (direction == CopyDirection::kToPort) {
      std::memcpy(piece, from, bytes);
      command.kind = Command::kCopyIn, command.from = piece;
    } else {
      arrivals_.push_back({to, piece, bytes});
      command.kind = Command::kCopyOut, command.to = piece;
    }
  }
  commands_.push_back(command);
  return Code::kOk;
}

// Returns a piece of pinned memory. Equal sequences of sizes get the same pieces, so that a recorded graph fits again.
// Returns null if there is no memory.
std::byte* Device::pinned_piece(size_t bytes) {
  constexpr size_t kBlockBytes = size_t{1} << 20;
  while (pinned_block_ < pinned_.size() && pinned_[pinned_block_].bytes - pinned_taken_ < bytes)
    ++pinned_block_, pinned_taken_ = 0;
  if (pinned_block_ == pinned_.size()) {
    void* at = nullptr;
    const size_t size = std::max(bytes, kBlockBytes);
    if (!succeeded(driver_->host_allocate(&at, size, 0), "cuMemHostAlloc")) return nullptr;
    pinned_.push_back({static_cast<std::byte*>(at), size});
    pinned_taken_ = 0;
  }
  const size_t at = pinned_taken_;
  pinned_taken_ += std::min((bytes + 15) / 16 * 16, pinned_[pinned_block_].bytes - at);
  return pinned_[pinned_block_].at + at;
}

void Device::multiply_as_tf32(bool allowed) {
  if (allowed != tf32_) forget_recordings();
  tf32_ = allowed;
}

}  // namespace nacre::cuda
