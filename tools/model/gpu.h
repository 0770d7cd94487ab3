// The GPU that programs for the targets "cuda/sm90" and so on run on: the first of this machine, through the CUDA port
// (ports/cuda/cuda_port.h), opened when it is first asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/kernels/kernel.h"

namespace nacre::cuda {
class Device;
struct Driver;
struct Nccl;
}  // namespace nacre::cuda

namespace nacre::tools {

// The place of the steps of such a program, all of them.
inline constexpr uint8_t kGpuPlace = 1;
bool is_gpu_target(std::string_view target);

// Architectures are numbers, 90 of "cuda/sm90". A GPU runs the programs for its own and for older ones.
int architecture_of(std::string_view target);  // 0: of no GPU
// Returns the newest of a file's targets that a GPU of this architecture runs; null: none.
const std::string* newest_gpu_target(std::span<const std::string> targets, int architecture);

bool gpu_is_here();
int gpu_architecture();  // of the GPU that is here, else 0
// Words of --kernels for programs on a GPU: "auto", or "tf32", with which float32 is multiplied as TF32. Other words
// run them on the host.
inline constexpr const char* kTf32 = "tf32";
bool chooses_gpu(std::string_view choice);
// Throws where there is none, with the port's sentence, and where the one that is here is older than the target.
const Port* gpu_port(const std::string& target, const std::string& choice = "auto");
cuda::Device& gpu_device();
// Before a GPU is asked for: of those of this machine the one with this number, from 0; beyond the last it counts on
// from the first. So every process on a machine has one of its own where there are enough.
void choose_gpu(uint32_t number);
bool gpu_is_own();  // whether the number that was chosen is below how many there are
// Library by which GPUs exchange sums: NCCL of this machine, or the one that use_nccl gave; null: none.
const cuda::Nccl* gpu_nccl();
void use_nccl(const cuda::Nccl* nccl);
// From now on the GPU is that of this driver; null: this machine's. Not while a program is bound to the one before.
void use_gpu(const cuda::Driver* driver, std::span<const void* const> modules);

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
