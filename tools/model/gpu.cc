#include "tools/model/gpu.h"

#include <string>

#include "ports/cuda/cuda_port.h"
#include "tools/base/error.h"

namespace nacre::tools {
namespace {

constexpr const char* kRemedy = "run it with --kernels reference, or convert the network with --target host";

struct Opened {
  cuda::Device device;
  bool here = device.open(cuda::load_driver(), cuda::modules());
};

Opened& opened() {
  static Opened gpu;
  return gpu;
}

Error failure(const cuda::Device& device) {
  // "cuda: what is wrong" without the name of the port, which is the place.
  const std::string sentence = device.sentence();
  return Error(kUnsupported, "cuda", sentence.substr(sentence.find(' ') + 1), kRemedy);
}

}  // namespace

bool is_gpu_target(std::string_view target) { return target.starts_with("cuda/"); }

bool gpu_is_here() { return opened().here; }

const Port* gpu_port() {
  if (!opened().here) throw failure(opened().device);
  return &opened().device.port();
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
