#include "tests/claims/cuda_timings.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "tests/claims/cuda_steps.h"
#ifndef NACRE_SIMULATED_DEVICE
#include "tests/claims/killing_allocator.h"
#endif

namespace nacre::test {
namespace {

constexpr float kRate = 0.01f;

int64_t allocator_calls_so_far() {
#ifdef NACRE_SIMULATED_DEVICE
  return -1;  // not counted: the simulated device allocates in this process
#else
  return int64_t(allocator_calls());
#endif
}

// Returns reals between -1 and 1 that follow from a seed.
Array random_reals(ElementType type, std::vector<int32_t> dims, uint32_t seed) {
  Array array = make_array(type, std::move(dims));
  for (int64_t i = 0; i < array.elements(); ++i) {
    const uint32_t hash = (uint32_t(i) * 2654435761u + seed * 40503u) * 2246822519u >> 8;
    array.set(i, double(hash % 4096) / 2048 - 1);
  }
  return array;
}

uint32_t word(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace

// ---- Models ----

struct CudaTimings::TimedModel {
  std::string name;
  bool training = false;
  Block file;
  const Port* ports[2];
  Places places;
  Bound bound;
  std::vector<std::vector<std::byte>> inputs;
  LaunchedGraph graph;  // graph of the last program of a run

  explicit TimedModel(const Port& port) : ports{nullptr, &port}, places(ports) { places.keep(1); }
  ~TimedModel() { bound.program.unbind(); }

  std::span<std::byte> input(uint32_t i) const { return training ? bound.trainer.input(i) : bound.program.input(i); }
  Status bind(cuda::Device& device) {
    uint32_t index = 0;
    NACRE_TRY(bound.model.open(file.bytes()));
    training = bound.model.find(Entry::kGradients, nullptr, &index).ok();
    if (!training) NACRE_TRY(bound.model.find(Entry::kInfer, nullptr, &index));
    NACRE_TRY(training ? bound.train(file, &places, &device) : bound.infer(file, index, &places, &device));
    const std::span<const uint32_t> ids = bound.model.program(index).inputs;
    for (uint32_t i = 0; i < ids.size(); ++i) {
      fill_input(input(i), bound.model.tensors()[ids[i]].element, i + 1);
      inputs.emplace_back(input(i).begin(), input(i).end());
    }
    return {};
  }
  // Inputs are written anew, because a run reuses their memory. A refused step does not count as a run, because it
  // takes less time.
  bool run() {
    for (uint32_t i = 0; i < inputs.size(); ++i) std::memcpy(input(i).data(), inputs[i].data(), inputs[i].size());
    if (!training) return bound.program.run().ok();
    Trainer::Report report;
    return bound.trainer.step(kRate, &report).ok() && report.applied;
  }
  // The first run records its programs; the first training step also copies the state. Steps are refused until the
  // loss scale has settled.
  bool warm_up() {
    int done = 0;
    for (int attempt = 0; attempt < (training ? 32 : 2) && done < 2; ++attempt) done += run() ? 1 : 0;
    return done == 2;
  }
};

// ---- Single kernels ----

struct CudaTimings::TimedKernel {
  StepOnDevice step;
};

struct CudaTimings::TimedCopy {
  const cuda::Driver& driver;
  cuda::DevicePointer from, to;
  size_t bytes;
  cuda::Stream stream = nullptr;
  cuda::Event first = nullptr, last = nullptr;

  ~TimedCopy() {
    for (cuda::Event event : {first, last})
      if (event != nullptr) driver.event_destroy(event);
    if (stream != nullptr) driver.stream_destroy(stream);
  }
  bool open() {
    return driver.stream_create(&stream, cuda::kStreamNonBlocking) == cuda::kSuccess &&
           driver.event_create(&first, 0) == cuda::kSuccess && driver.event_create(&last, 0) == cuda::kSuccess;
  }
  double seconds(int count) const {
    float milliseconds = 0;
    bool done = driver.event_record(first, stream) == cuda::kSuccess;
    for (int i = 0; i < count; ++i) done = done && driver.copy_on_device(to, from, bytes, stream) == cuda::kSuccess;
    done = done && driver.event_record(last, stream) == cuda::kSuccess;
    done = driver.stream_synchronize(stream) == cuda::kSuccess && done &&
           driver.event_elapsed(&milliseconds, first, last) == cuda::kSuccess;
    return done ? double(milliseconds) * 1e-3 : -1;
  }
};

// ---- Contenders ----

CudaTimings::CudaTimings(cuda::Device& device, const CountedDriver& driver, bool small)
    : device_(device), driver_(driver), small_(small) {}

CudaTimings::~CudaTimings() = default;

bool CudaTimings::fail(const std::string& what) {
  failure_ = what + (device_.sentence()[0] != 0 ? ": " : "") + device_.sentence();
  return false;
}

void CudaTimings::add(const std::string& name, std::function<void()> run, std::function<double(int)> clock,
                      const Work& work) {
  contenders_.push_back({.name = name, .run = std::move(run), .clock = std::move(clock)});
  work_.push_back(work);
}

// Measures, with events, whatever `run` lets the device do.
double CudaTimings::gpu_seconds(cuda::Device::Timing timing, int count, const std::function<bool()>& run) {
  device_.time(timing);
  bool done = true;
  for (int i = 0; i < count && done; ++i) done = run();
  double us = 0;
  for (const cuda::Device::Time& time : device_.times()) us += double(time.us);
  device_.time(cuda::Device::Timing::kNone);
  return done ? us * 1e-6 : -1;
}

bool CudaTimings::add_model(const std::string& path) {
  using Timing = cuda::Device::Timing;
  auto made = std::make_unique<TimedModel>(device_.port());
  if (!read_model(path.c_str(), &made->file)) return fail(path + " cannot be read");
  if (const Status status = made->bind(device_); !status.ok()) return fail(path + ": " + sentence(status.code));
  TimedModel* const model = made.get();
  model->name = std::filesystem::path(path).stem().string();
  models_.push_back(std::move(made));
  const auto run = [model] { return model->run(); };
  add(model->name + (model->training ? "/step" : "/run"), {},
      [run](int count) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < count; ++i)
          if (!run()) return -1.0;
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      },
      {});
  add(model->name + (model->training ? "/kernels" : "/gpu"), {},
      [this, run](int count) { return gpu_seconds(Timing::kGraphs, count, run); }, {});
  if (model->training) return true;
  add(model->name + "/replay",
      [this, model] {
        driver_.driver().graph_launch(model->graph.graph, model->graph.stream);
        driver_.driver().stream_synchronize(model->graph.stream);
      },
      {}, {});
  return true;
}

bool CudaTimings::add_kernel(const std::string& name, const char* entry, const std::vector<uint32_t>& words,
                             std::vector<Array> operands, size_t inputs, const Work& work) {
  const std::vector<reference::NamedEntry> named = all_entries();
  const auto is = [&](const reference::NamedEntry& e) { return std::strcmp(e.name, entry) == 0; };
  const auto at = std::ranges::find_if(named, is);
  if (at == named.end()) return fail(std::string(entry) + " is no kernel");
  size_t bytes = work.scratch + (size_t{1} << 16);  // 64 KiB for partial sums
  for (const Array& operand : operands) bytes += (operand.bytes.size() + 512) / 256 * 256;
  const std::span<std::byte> memory = device_.allocate(bytes);
  if (memory.empty()) return fail(name);
  auto made = std::make_unique<TimedKernel>();
  const KernelEntry& on_device = *device_.port().set->entries[size_t(at - named.begin())];
  if (made->step.place(device_.port(), memory, on_device, words, operands, inputs) != Code::kOk) return fail(name);
  const StepOnDevice* const step = &made->step;
  kernels_.push_back(std::move(made));
  const auto run = [step] { return step->run() == Code::kOk; };
  add(name, {}, [this, run](int count) { return gpu_seconds(cuda::Device::Timing::kSteps, count, run); }, work);
  return true;
}

// Adds the single kernels of the goals. Their `bytes` count each element that they read or write once.
bool CudaTimings::add_kernels() {
  constexpr ElementType kF32 = ElementType::kFloat32, kBf16 = ElementType::kBfloat16, kU32 = ElementType::kUint32;
  const int n = small_ ? 1 << 10 : 1 << 24, rows = small_ ? 8 : 1 << 14, width = n / rows;
  const int side = small_ ? 16 : 4096, judged = small_ ? 1 << 8 : 1 << 18;
  const auto reals = [](int count, uint32_t seed) { return random_reals(kF32, {count}, seed); };
  const auto ones = [](int count) { return array_of<double>(kF32, {count}, std::vector<double>(size_t(count), 1)); };
  const Array absent;
  // Moments are squares, so they are not below 0.
  Array second = reals(n, 4);
  for (int64_t i = 0; i < n; ++i) second.set(i, second.real(i) * second.real(i));
  constexpr ElementType kE4M3 = ElementType::kFloat8E4M3, kI8 = ElementType::kInt8;
  const auto codes = [side](uint32_t seed) {
    Array made = make_array(kI8, {side, side});
    for (size_t i = 0; i < made.bytes.size(); ++i)
      made.bytes[i] = decltype(made.bytes)::value_type((i * 2654435761u + seed) >> 16 & 0x7F);
    return made;
  };
  const double operations = 2.0 * side * side * side;
  const std::vector<uint32_t> adam = {0, 0, word(0.9f), word(0.999f), word(1e-7f)};
  return add_kernel("adam_f32", "kAdamF32", adam,
                    {reals(n, 1), ones(4), ones(1), array_of<double>(kU32, {1}, {9}), reals(n, 2), reals(n, 3), second},
                    7, {.bytes = 28.0 * n}) &&
         add_kernel("verdict_f32", "kVerdictF32", {0},
                    {reals(judged, 5), ones(1), ones(1), ones(1), make_array(kU32, {1}), make_array(kU32, {1}),
                     make_array(kF32, {4})},
                    4, {.bytes = 4.0 * judged}) &&
         add_kernel(
             "layer_norm_f32", "kLayerNormF32", {word(1e-5f)},
             {random_reals(kF32, {rows, width}, 6), reals(width, 7), reals(width, 8), make_array(kF32, {rows, width})},
             3, {.bytes = 8.0 * n}) &&
         add_kernel("softmax_f32", "kSoftmaxF32", {1, word(1)},
                    {random_reals(kF32, {rows, width}, 9), make_array(kF32, {rows, width})}, 1, {.bytes = 8.0 * n}) &&
         add_kernel("cast_f32_bf16", "kCastF32Bf16", {}, {reals(n, 10), make_array(kBf16, {n})}, 1,
                    {.bytes = 6.0 * n}) &&
         add_kernel("product_bf16", "kDenseBf16", {},
                    {random_reals(kBf16, {side, side}, 11), random_reals(kBf16, {side, side}, 12), absent,
                     make_array(kBf16, {side, side})},
                    3, {.bytes = 6.0 * side * side, .flop = operations}) &&
         add_kernel("product_f8", "kDenseFloat8Bf16", {},
                    {random_reals(kE4M3, {side, side}, 13), random_reals(kE4M3, {side, side}, 14), absent, ones(1),
                     ones(1), make_array(kBf16, {side, side})},
                    5, {.bytes = 4.0 * side * side, .flop = operations}) &&
         add_kernel(
             "product_i8", "kDenseI8Double", {},
             {codes(15), codes(16), absent, array_of<int32_t>(ElementType::kInt32, {1, 2}, {1 << 30, -12}),
              make_array(kI8, {side, side})},
             4,
             {.bytes = 3.0 * side * side, .flop = operations, .scratch = size_t(4 * side * side) + (size_t{1} << 20)});
}

bool CudaTimings::add_copy() {
  const size_t bytes = small_ ? size_t{1} << 12 : size_t{1} << 28;
  const std::span<std::byte> from = device_.allocate(bytes), to = device_.allocate(bytes);
  if (from.empty() || to.empty()) return fail("copy");
  const auto address = [](std::span<std::byte> at) {
    return cuda::DevicePointer(reinterpret_cast<uintptr_t>(at.data()));
  };
  copy_.reset(new TimedCopy{.driver = driver_.driver(), .from = address(from), .to = address(to), .bytes = bytes});
  if (!copy_->open()) return fail("copy");
  add("copy", {}, [copy = copy_.get()](int count) { return copy->seconds(count); }, {.bytes = 2.0 * double(bytes)});
  return true;
}

void CudaTimings::add_peer(PeerProcess& peer, double limit_seconds) {
  const std::vector<std::string> names = peer.names();  // the peer may end during this
  for (const std::string& name : names)
    add(name, {}, [&peer, name, limit_seconds](int count) { return peer.run(name, count, limit_seconds); }, {});
}

bool CudaTimings::count_host_work() {
  for (const auto& model : models_) {
    if (!model->warm_up()) return fail(model->name + " does not run");
    model->graph = driver_.last_graph();
    size_t free_before = 0, free_after = 0, all = 0;
    driver_.driver().memory_information(&free_before, &all);
    const DriverCalls before = driver_.calls();
    const int64_t allocations = allocator_calls_so_far();
    if (!model->run()) return fail(model->name + " does not run again");
    HostWork found = {.model = model->name, .training = model->training, .calls = driver_.calls() - before};
    if (allocations >= 0) found.allocator_calls = allocator_calls_so_far() - allocations;
    driver_.driver().memory_information(&free_after, &all);
    found.device_bytes = int64_t(free_before) - int64_t(free_after);
    host_work_.push_back(found);
  }
  return true;
}

const Timed* CudaTimings::find(const std::string& name) const {
  const auto at = std::ranges::find(contenders_, name, &Timed::name);
  return at == contenders_.end() ? nullptr : &*at;
}

double CudaTimings::bytes_of(const std::string& name) const {
  const auto at = std::ranges::find(contenders_, name, &Timed::name);
  return at == contenders_.end() ? 0 : work_[size_t(at - contenders_.begin())].bytes;
}

}  // namespace nacre::test
