// Facts of NVIDIA's GPU. Its libraries are opened when a program runs, so a build needs none of them.
#include <fmt/format.h>

#include "ports/cuda/cuda_port.h"
#include "tools/commands/doctor/facts.h"

namespace nacre::tools {
namespace {

constexpr int kLeastDriver = 13000;  // CUDA 13, as cuDriverGetVersion counts

Fact driver_fact(const cuda::Driver* driver) {
  int version = 0;
  if (driver == nullptr || driver->driver_version(&version) != cuda::kSuccess)
    return {.name = "CUDA driver",
            .presence = Presence::kMissing,
            .is = "there is no libcuda.so.1",
            .remedy = "install NVIDIA's driver for CUDA 13, if this machine has a GPU"};
  Fact fact = {.name = "CUDA driver", .is = fmt::format("of CUDA {}.{}", version / 1000, version % 1000 / 10)};
  if (version < kLeastDriver)
    fact.presence = Presence::kMissing, fact.is += ", which is too old",
    fact.remedy = "install NVIDIA's driver for CUDA 13";
  return fact;
}

Facts device_facts(const cuda::Driver* driver) {
  const Fact none = {.name = "GPU",
                     .presence = Presence::kMissing,
                     .is = "there is none that the driver shows",
                     .remedy = "run models for cuda/... with --kernels reference"};
  int count = 0;
  const bool whole = driver != nullptr && driver->device_count != nullptr && driver->device_get != nullptr &&
                     driver->device_name != nullptr && driver->device_attribute != nullptr;
  if (!whole || driver->init(0) != cuda::kSuccess || driver->device_count(&count) != cuda::kSuccess || count == 0)
    return {none};
  Facts facts;
  for (int i = 0; i < count; ++i) {
    cuda::DeviceNumber device = 0;
    char name[64] = "";
    int major = 0, minor = 0;
    if (driver->device_get(&device, i) != cuda::kSuccess) continue;
    driver->device_name(name, sizeof name, device);
    driver->device_attribute(&major, cuda::kCapabilityMajor, device);
    driver->device_attribute(&minor, cuda::kCapabilityMinor, device);
    facts.push_back(
        {.name = fmt::format("GPU {}", i),
         .is = fmt::format("{}, compute capability {}.{}: --target cuda/sm{}{}", name, major, minor, major, minor)});
  }
  return facts;
}

Fact library_fact(const char* name, bool there, const char* use, const char* remedy) {
  if (there) return {.name = name, .is = use};
  return {.name = name, .presence = Presence::kMissing, .is = use, .remedy = remedy};
}

}  // namespace

Facts gpu_facts(const cuda::Driver* driver, bool cublaslt, bool nccl) {
  Facts facts = {driver_fact(driver)};
  for (Fact& fact : device_facts(driver)) facts.push_back(std::move(fact));
  Fact kernels = {.name = "CUDA kernels", .is = "run models converted for a GPU"};
  if (cuda::modules().empty())
    kernels.presence = Presence::kNotCompiled,
    kernels.remedy = "install nvcc of CUDA 13, and build with -Dcuda=enabled";
  facts.push_back(std::move(kernels));
  facts.push_back(library_fact("cuBLASLt", cublaslt,
                               "products of matrices on a GPU (without it, the port's own kernels make them)",
                               "install NVIDIA's libcublas of CUDA 13, beside the driver"));
  facts.push_back(library_fact("NCCL", nccl, "sums between GPUs (without it, they go by way of the host)",
                               "install NVIDIA's libnccl2"));
  return facts;
}

}  // namespace nacre::tools
