#include "tools/model/gpu.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>

#include "ports/cuda/cuda_port.h"
#include "tools/base/error.h"
#include "tools/base/option_id.h"

namespace nacre::tools {
namespace {

std::string remedy() {
  return "run it with " + option("kernels", "reference") + ", or convert the network with " + option("target", "host");
}

uint32_t chosen = 0;
std::optional<const cuda::Nccl*> given_nccl;

int gpus_of(const cuda::Driver* driver) {
  int count = 0;
  const bool counted =
      driver != nullptr && driver->init(0) == cuda::kSuccess && driver->device_count(&count) == cuda::kSuccess;
  return counted ? count : 0;
}

// Returns 0 if there is no GPU: opening that number reports why.
int ordinal_of_chosen(const cuda::Driver* driver) {
  const int count = gpus_of(driver);
  return count > 0 ? int(chosen % uint32_t(count)) : 0;
}

struct Opened {
  const cuda::Driver* driver = cuda::load_driver();
  cuda::Device device;
  bool here = device.open(driver, cuda::modules(), ordinal_of_chosen(driver), cuda::load_cublaslt(driver));
};

Opened& opened() {
  static Opened gpu;
  return gpu;
}

Error failure(const cuda::Device& device) {
  // The port's sentence without its name in front ("cuda: what is wrong"), because the name is the place.
  const std::string sentence = device.sentence();
  return Error(kUnsupported, "cuda", sentence.substr(sentence.find(' ') + 1), remedy());
}

}  // namespace

bool is_gpu_target(std::string_view target) { return target.starts_with("cuda/"); }

int architecture_of(std::string_view target) {
  constexpr std::string_view kBefore = "cuda/sm";
  int architecture = 0;
  if (!target.starts_with(kBefore)) return 0;
  const std::string_view digits = target.substr(kBefore.size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), architecture);
  return error == std::errc() && end == digits.data() + digits.size() ? architecture : 0;
}

const std::string* newest_gpu_target(std::span<const std::string> targets, int architecture) {
  const std::string* newest = nullptr;
  for (const std::string& target : targets) {
    const int needed = architecture_of(target), best = newest == nullptr ? 0 : architecture_of(*newest);
    if (needed > best && needed <= architecture) newest = &target;
  }
  return newest;
}

bool gpu_is_here() { return opened().here; }
int gpu_architecture() { return opened().here ? opened().device.architecture() : 0; }

cuda::Device& gpu_device() {
  if (!opened().here) throw failure(opened().device);
  return opened().device;
}

bool chooses_gpu(std::string_view choice) { return choice == "auto" || choice == kTf32; }

const Port* gpu_port(const std::string& target, const std::string& choice) {
  const Port* const port = &gpu_device().port();
  if (architecture_of(target) > gpu_architecture())
    throw Error(kUnsupported, "a program for " + target, fmt::format("this GPU is a cuda/sm{}", gpu_architecture()),
                "name an older target of the file with " + option("target") + ", or run it with " +
                    option("kernels", "reference"));
  gpu_device().multiply_as_tf32(choice == kTf32);
  return port;
}

void choose_gpu(uint32_t number) { chosen = number; }
bool gpu_is_own() { return chosen < uint32_t(gpus_of(opened().driver)); }

const cuda::Nccl* gpu_nccl() { return given_nccl ? *given_nccl : cuda::load_nccl(); }
void use_nccl(const cuda::Nccl* nccl) { given_nccl = nccl; }

void use_gpu(const cuda::Driver* driver, std::span<const void* const> modules) {
  Opened& gpu = opened();
  const bool own = driver == nullptr;
  gpu.driver = driver = own ? cuda::load_driver() : driver;
  gpu.here = gpu.device.open(driver, own ? cuda::modules() : modules, ordinal_of_chosen(driver),
                             own ? cuda::load_cublaslt(driver) : nullptr);
}

GpuMemory::GpuMemory(size_t bytes) {
  if (bytes == 0) return;
  bytes_ = opened().device.allocate(bytes);
  if (bytes_.empty()) throw failure(opened().device);
}

GpuMemory::~GpuMemory() {
  if (!bytes_.empty()) opened().device.release(bytes_);
}

}  // namespace nacre::tools
