// The GPU that programs for the targets "cuda/sm90" and so on run on: the first of this machine, through the CUDA port
// (ports/cuda/cuda_port.h), opened when it is first asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/kernels/kernel.h"

namespace nacre::tools {

// The place of the steps of such a program, all of them.
inline constexpr uint8_t kGpuPlace = 1;
bool is_gpu_target(std::string_view target);

bool gpu_is_here();
// Throws where there is none, with the port's sentence.
const Port* gpu_port();

// Memory of the GPU while it lives; throws where there is not as much. 0 bytes: none.
class GpuMemory {
 public:
  explicit GpuMemory(size_t bytes = 0);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace nacre::tools
