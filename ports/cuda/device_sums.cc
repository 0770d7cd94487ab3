// Work of the caller between runs: sums that GPUs send each other, and their addition.
#include <algorithm>
#include <string>

#include "ports/cuda/cuda_port.h"

namespace nacre::cuda {
namespace {

constexpr uint64_t kMostAtOnce = uint64_t{1} << 30;  // numbers in a launch, which counts in int

const char* kernel_of(SumKind kind) {
  switch (kind) {
    case SumKind::kFloat64: return "kJoinedF64";
    case SumKind::kInt32: return "kJoinedI32";
    case SumKind::kUint32: return "kJoinedU32";
    default: return "kJoinedF32";
  }
}

}  // namespace

bool Device::make_current() {
  return driver_ != nullptr && !in_segment_ && !holding_ &&
         succeeded(driver_->set_context(context_), "cuCtxSetCurrent");
}

bool Device::put_copy(void* to, const void* from, size_t bytes) {
  const auto there = DevicePointer(reinterpret_cast<uintptr_t>(to)),
             here = DevicePointer(reinterpret_cast<uintptr_t>(from));
  return bytes == 0 || succeeded(driver_->copy_on_device(there, here, bytes, stream_), "a copy on the device");
}

bool Device::put_join(SumKind kind, void* into, const void* from, uint64_t count) {
  const std::string name = kernel_of(kind);
  Function& function = product_kernels_[name];
  if (function == nullptr && !find_function(name.c_str(), &function)) return false;
  for (uint64_t at = 0; at < count; at += kMostAtOnce) {
    const uint64_t numbers = std::min(kMostAtOnce, count - at), offset = at * element_bytes(kind);
    StepImage<2> image = {};
    image.head.failure = reinterpret_cast<uint32_t*>(failure_on_device_);
    image.head.step.operand_count = 2;
    image.head.step.word_count = 1;
    image.head.words[0] = uint32_t(numbers);
    void* const data[] = {const_cast<std::byte*>(static_cast<const std::byte*>(from)) + offset,
                          static_cast<std::byte*>(into) + offset};
    for (int i = 0; i < 2; ++i) {
      image.operand[i].data = data[i];
      image.operand[i].record.element = ElementType::kUint8;  // marks the operand as present
    }
    if (!launch(function, blocks_of(numbers), &image)) return false;
  }
  return true;
}

bool Device::wait() { return succeeded(driver_->stream_synchronize(stream_), "what was put into the stream"); }

}  // namespace nacre::cuda
