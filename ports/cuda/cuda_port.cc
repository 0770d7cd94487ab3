#include "ports/cuda/cuda_port.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

#include "engine/kernels/training.h"

namespace nacre::cuda {
namespace {

constexpr int kOldestDriver = 13000;  // CUDA 13.0, that of the kernels
constexpr uint32_t kAlignment = 256;

constexpr const char* kNames[] = {
#define NACRE_ENTRY(name, ...) #name,
#include "engine/kernels/reference.inc"
#define NACRE_ENTRY(name, ...) #name,
#include "engine/kernels/training.inc"
};
constexpr size_t kEntries = std::size(kNames);

bool fits(const Words& words, const Operands& operands) {
  return words.count <= kMostWords && operands.count <= kMostOperands;
}

}  // namespace

// The entries of the reference and of training, whose kernels put a step off.
struct Device::Tables {
  std::vector<const char*> names;
  std::vector<KernelEntry> entries;
  std::vector<Kernel> kernels;
  std::vector<Preparation> preparations;  // by the operands of an image
  std::vector<const KernelEntry*> list;
  KernelSet set;

  Tables() {
    kernels = Device::enqueuers(std::make_index_sequence<kEntries>());
    preparations = Device::preparations(std::make_index_sequence<kMostOperands + 1>());
    std::vector<reference::NamedEntry> named;
    for (const auto& entries_of : {reference::list(), reference::training_list()})
      named.insert(named.end(), entries_of.begin(), entries_of.end());
    std::ranges::stable_sort(named, {}, [](const reference::NamedEntry& e) { return e.entry->op; });
    for (const auto& [name, entry] : named) {
      KernelEntry& made = entries.emplace_back(*entry);
      made.run = kernels[names.size()];
      made.accepts = &fits;
      made.preparation = &preparations[size_t(image_operands(entry->operands, entry->operand_count))];
      names.push_back(name);
    }
    for (const KernelEntry& entry : entries) list.push_back(&entry);
    set = {"cuda", list};
  }
};

const Device::Tables& Device::tables() {
  static const Tables tables;
  return tables;
}

size_t Device::entry_count() { return tables().entries.size(); }

const char* Device::name_of(Kernel kernel) {
  const auto& kernels = tables().kernels;
  const auto index = size_t(std::ranges::find(kernels, kernel) - kernels.begin());
  return index < tables().names.size() ? tables().names[index] : nullptr;
}

template <size_t kIndex>
Code Device::enqueue_entry(const Args& args) {
  return static_cast<Device*>(args.context)->enqueue(kIndex, args);
}

template <size_t... kIndex>
std::vector<Kernel> Device::enqueuers(std::index_sequence<kIndex...>) {
  return {enqueue_entry<kIndex>...};
}

template <int kCount>
Code Device::prepare_image(const Args& args) {
  return static_cast<Device*>(args.context)->prepare(args, kCount, static_cast<StepHead*>(args.call.prepared));
}

template <size_t... kCount>
std::vector<Preparation> Device::preparations(std::index_sequence<kCount...>) {
  return {
      Preparation{.bytes = [](const Words&, const Operands&) { return sizeof(StepImage<int(kCount) + (kCount == 0)>); },
                  .prepare = prepare_image<int(kCount)>,
                  .release = nullptr}...};
}

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

bool Device::open(const Driver* driver, std::span<const void* const> modules, int ordinal) {
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
  if (!succeeded(driver->device_count(&count), "cuDeviceGetCount")) return false;
  if (ordinal < 0 || ordinal >= count) {
    std::snprintf(sentence_, sizeof sentence_, "cuda: there is no GPU %d; this machine has %d", ordinal, count);
    return false;
  }
  driver_ = driver;
  if (!succeeded(driver->device_get(&device_, ordinal), "cuDeviceGet") ||
      !succeeded(driver->device_name(name_, sizeof name_, device_), "cuDeviceGetName") ||
      !succeeded(driver->retain_context(&context_, device_), "cuDevicePrimaryCtxRetain")) {
    driver_ = nullptr;
    return false;
  }
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
  port_ = {.name = "cuda",
           .set = &tables().set,
           .context = this,
           .begin = [](void* self) { return static_cast<Device*>(self)->begin(); },
           .finish = [](void* self) { return static_cast<Device*>(self)->finish(); },
           .copy = [](void* self, CopyDirection direction, void* to, const void* from,
                      size_t bytes) { return static_cast<Device*>(self)->copy(direction, to, from, bytes); },
           .fill = [](void* self, void* to, std::byte value,
                      size_t bytes) { return static_cast<Device*>(self)->fill(to, value, bytes); },
           .alignment = kAlignment,
           .tail_bytes = 0,
           .reads_guards = true};
  return true;
}

void Device::close() {
  if (driver_ == nullptr) return;
  driver_->set_context(context_);
  if (stream_ != nullptr) driver_->stream_synchronize(stream_);
  forget_recordings();
  for (Module module : modules_) driver_->module_unload(module);
  for (DevicePointer at : allocated_) driver_->memory_free(at);
  if (failure_ != nullptr) driver_->host_free(failure_);
  if (stream_ != nullptr) driver_->stream_destroy(stream_);
  driver_->release_context(device_);
  modules_.clear(), functions_.clear(), allocated_.clear(), commands_.clear();
  driver_ = nullptr, context_ = nullptr, stream_ = nullptr, failure_ = nullptr, failure_on_device_ = 0;
  port_ = {}, in_segment_ = false, counts_ = {};
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

// A recorded graph holds copies of images: what is bound anew may lie where others did.
Code Device::prepare(const Args& args, int room, StepHead* image) {
  forget_recordings();
  Function function = nullptr;
  const auto& kernels = tables().kernels;
  const auto index = size_t(std::ranges::find(kernels, args.call.run) - kernels.begin());
  if (index >= tables().entries.size() || !function_of(index, &function)) return Code::kPortFailed;
  write_image(args, room, reinterpret_cast<uint32_t*>(failure_on_device_), image);
  return Code::kOk;
}

bool Device::function_of(size_t entry, Function* function) {
  Function& found = functions_[entry];
  char name[96];
  std::snprintf(name, sizeof name, "nacre_%s", tables().names[entry]);
  Result result = found != nullptr ? kSuccess : kNotFound;
  for (size_t i = 0; found == nullptr && i < modules_.size() && result == kNotFound; ++i)
    result = driver_->module_function(&found, modules_[i], name);
  *function = found;
  // Now: a driver that loads kernels when they are first launched would have to in the middle of a capture.
  return succeeded(result, name) && succeeded(driver_->function_load(found), name);
}

// ---- Running ----

Code Device::begin() {
  commands_.clear();
  if (in_segment_ || !succeeded(driver_->set_context(context_), "cuCtxSetCurrent")) return Code::kPortFailed;
  in_segment_ = true;
  return Code::kOk;
}

Code Device::finish() {
  in_segment_ = false;
  const Code flushed = flush();
  if (!succeeded(driver_->stream_synchronize(stream_), "a kernel or a copy") || flushed != Code::kOk)
    return Code::kPortFailed;
  return Code(std::exchange(*failure_, 0));
}

Code Device::copy(CopyDirection direction, void* to, const void* from, size_t bytes) {
  if (!in_segment_ && !succeeded(driver_->set_context(context_), "cuCtxSetCurrent")) return Code::kPortFailed;
  if (direction == CopyDirection::kToPort) {
    const auto at = DevicePointer(reinterpret_cast<uintptr_t>(to));
    if (!succeeded(driver_->copy_to_device(at, from, bytes, stream_), "a copy to the device")) return Code::kPortFailed;
  } else {
    const auto at = DevicePointer(reinterpret_cast<uintptr_t>(from));
    if (const Code flushed = flush(); flushed != Code::kOk) return flushed;
    if (!succeeded(driver_->copy_to_host(to, at, bytes, stream_), "a copy to the host")) return Code::kPortFailed;
  }
  const bool done = in_segment_ || succeeded(driver_->stream_synchronize(stream_), "a copy");
  return done ? Code::kOk : Code::kPortFailed;
}

Code Device::fill(void* to, std::byte value, size_t bytes) {
  const auto at = DevicePointer(reinterpret_cast<uintptr_t>(to));
  const bool done =
      succeeded(driver_->set_context(context_), "cuCtxSetCurrent") &&
      succeeded(driver_->set_bytes(at, static_cast<unsigned char>(value), bytes, stream_), "cuMemsetD8") &&
      (in_segment_ || succeeded(driver_->stream_synchronize(stream_), "cuMemsetD8"));
  return done ? Code::kOk : Code::kPortFailed;
}

Code Device::enqueue(size_t entry, const Args& args) {
  if (!in_segment_) return Code::kPortFailed;
  commands_.push_back({static_cast<const StepHead*>(args.call.prepared), uint32_t(entry), args.rows});
  return Code::kOk;
}

// Launches what was put off, as the graph that was recorded when these steps ran first.
Code Device::flush() {
  if (commands_.empty()) return Code::kOk;
  const auto same = [&](const Recording& recording) { return recording.commands == commands_; };
  const auto found = std::ranges::find_if(recordings_, same);
  const Recording* const recording = found != recordings_.end() ? &*found : record();
  const size_t kernels = commands_.size();
  commands_.clear();
  if (recording == nullptr || !succeeded(driver_->graph_launch(recording->graph, stream_), "cuGraphLaunch"))
    return Code::kPortFailed;
  ++counts_.launches;
  counts_.kernels += kernels;
  return Code::kOk;
}

const Device::Recording* Device::record() {
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  const bool captured = capture(&graph);
  const bool made = captured && succeeded(driver_->graph_instantiate(&exec, graph, 0), "cuGraphInstantiate");
  if (graph != nullptr) driver_->graph_destroy(graph);
  if (!made) return nullptr;
  ++counts_.recordings;
  return &recordings_.emplace_back(Recording{commands_, exec});
}

// A capture that began is ended, whatever failed in it.
bool Device::capture(Graph* graph) {
  if (!succeeded(driver_->begin_capture(stream_, kCaptureThread), "cuStreamBeginCapture")) return false;
  bool launched = true;
  for (const Command& command : commands_) {
    alignas(StepImage<kMostOperands>) std::byte image[sizeof(StepImage<kMostOperands>)];
    const KernelEntry& entry = *tables().list[command.entry];
    std::memcpy(image, command.image, entry.preparation->bytes({}, {}));
    reinterpret_cast<StepHead*>(image)->rows = command.rows;
    void* parameters[] = {image};
    launched = launched && succeeded(driver_->launch(functions_[command.entry], command.image->blocks, 1, 1,
                                                     kBlockThreads, 1, 1, 0, stream_, parameters, nullptr),
                                     "cuLaunchKernel");
  }
  return succeeded(driver_->end_capture(stream_, graph), "cuStreamEndCapture") && launched;
}

void Device::forget_recordings() {
  for (const Recording& recording : recordings_) driver_->graph_exec_destroy(recording.graph);
  recordings_.clear();
}

}  // namespace nacre::cuda
