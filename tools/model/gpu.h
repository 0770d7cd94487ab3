// The GPU on which programs for the targets "cuda/sm90" and so on run: the first of this machine unless choose_gpu()
// says otherwise. The CUDA port (ports/cuda/cuda_port.h) opens it when it is first asked for.
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

// The place (StepRecord::place, engine/run/places.h) of all steps of a program for a GPU.
inline constexpr uint8_t kGpuPlace = 1;
bool is_gpu_target(std::string_view target);

// An architecture is a number, 90 for "cuda/sm90". A GPU runs programs for its own and for older architectures.
int architecture_of(std::string_view target);  // 0 if the target is no GPU
// Returns the newest of a file's targets that a GPU of this architecture runs, or null.
const std::string* newest_gpu_target(std::span<const std::string> targets, int architecture);

bool gpu_is_here();
int gpu_architecture();  // the architecture of the GPU that is here, or 0
// Returns whether with this word of --kernels a program for a GPU runs there: with "auto", or with "tf32", which
// multiplies float32 as TF32. With other words such a program runs on the host.
inline constexpr const char* kTf32 = "tf32";
bool chooses_gpu(std::string_view choice);
// Returns the CUDA port. Throws Error if there is no GPU, or if the GPU's architecture is older than the target's.
const Port* gpu_port(const std::string& target, const std::string& choice = "auto");
cuda::Device& gpu_device();
// Chooses a GPU of this machine by its number, modulo how many there are. Call it before a GPU is asked for. If each
// process on a machine takes another number, each has its own GPU as long as there are enough.
void choose_gpu(uint32_t number);
bool gpu_is_own();  // whether the chosen number is below the number of GPUs
// Returns the library by which GPUs exchange sums: the one given to use_nccl, or NCCL of this machine. Null if there
// is none.
const cuda::Nccl* gpu_nccl();
void use_nccl(const cuda::Nccl* nccl);
// From now on the GPU is that of this driver; null: this machine's driver. No program may be bound to the GPU before.
void use_gpu(const cuda::Driver* driver, std::span<const void* const> modules);

// Owns memory of the GPU. Throws if the GPU does not have that much. With 0 bytes it owns none.
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
