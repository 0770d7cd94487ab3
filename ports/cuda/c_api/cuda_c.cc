#include "ports/cuda/c_api/cuda_c.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "engine/c_api.h"
#include "ports/cuda/c_api/cuda_handle.h"
#include "ports/cuda/cublaslt.h"

using nacre::arguments;
using nacre::cuda::Device;

static_assert(uint32_t(Device::Timing::kNone) == NACRE_CUDA_TIME_NONE);
static_assert(uint32_t(Device::Timing::kGraphs) == NACRE_CUDA_TIME_GRAPHS);
static_assert(uint32_t(Device::Timing::kSteps) == NACRE_CUDA_TIME_STEPS);

extern "C" {

nacre_cuda* nacre_cuda_open(int ordinal, int products, char* why, size_t why_size) {
  auto made = std::make_unique<nacre_cuda>();
  const nacre::cuda::Driver* const driver = nacre::cuda::load_driver();
  const nacre::cuda::CublasLt* const library = products != 0 ? nacre::cuda::load_cublaslt(driver) : nullptr;
  const bool opened = made->device.open(driver, nacre::cuda::modules(), ordinal, library);
  if (why != nullptr && why_size != 0) {
    const char* const sentence = opened ? "" : made->device.sentence();
    const size_t count = std::min(std::strlen(sentence), why_size - 1);
    std::memcpy(why, sentence, count);
    why[count] = 0;
  }
  return opened ? made.release() : nullptr;
}

void nacre_cuda_close(nacre_cuda* device) { delete device; }

const nacre_port* nacre_cuda_port(const nacre_cuda* device) {
  return device == nullptr ? nullptr : nacre::to_c(device->device.port());
}
void* nacre_cuda_allocate(nacre_cuda* device, size_t bytes) {
  return device == nullptr ? nullptr : device->device.allocate(bytes).data();
}
void nacre_cuda_release(nacre_cuda* device, void* memory, size_t bytes) {
  if (device != nullptr && memory != nullptr) device->device.release({static_cast<std::byte*>(memory), bytes});
}

const char* nacre_cuda_sentence(const nacre_cuda* device) { return device == nullptr ? "" : device->device.sentence(); }
const char* nacre_cuda_name(const nacre_cuda* device) { return device == nullptr ? "" : device->device.name(); }
int nacre_cuda_architecture(const nacre_cuda* device) { return device == nullptr ? 0 : device->device.architecture(); }
int nacre_cuda_has_products(const nacre_cuda* device) {
  return device == nullptr ? 0 : int(device->device.has_products());
}
void nacre_cuda_multiply_as_tf32(nacre_cuda* device, int allowed) {
  if (device != nullptr) device->device.multiply_as_tf32(allowed != 0);
}

nacre_status nacre_cuda_count(const nacre_cuda* device, nacre_cuda_counts* counts) {
  if (const nacre::Status s = arguments(device != nullptr, nacre::usable(counts)); !s.ok()) return nacre::to_c(s);
  const Device::Counts& c = device->device.counts();
  nacre::give(nacre_cuda_counts{0, 0, c.launches, c.recordings, c.kernels, c.products, c.joined, c.turned}, counts);
  return {};
}

nacre_status nacre_cuda_measure(nacre_cuda* device, uint32_t timing) {
  const nacre::Status s = arguments(device != nullptr, timing <= NACRE_CUDA_TIME_STEPS);
  if (!s.ok()) return nacre::to_c(s);
  device->device.time(Device::Timing(timing));
  return {};
}
size_t nacre_cuda_times(const nacre_cuda* device, nacre_cuda_time* times, size_t count) {
  if (device == nullptr) return 0;
  const std::span<const Device::Time> all = device->device.times();
  for (size_t i = 0; times != nullptr && i < count && i < all.size(); ++i) times[i] = {all[i].kernel, all[i].us};
  return all.size();
}

}  // extern "C"
