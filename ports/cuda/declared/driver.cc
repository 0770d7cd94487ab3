// Compiles only if <cuda.h> declares each function of driver.h with the same arguments.
#include <cuda.h>

#include "ports/cuda/driver.h"
#include "ports/cuda/signature.h"

namespace nacre::cuda {
namespace {

using Library = Driver;
NACRE_CUDA_FUNCTIONS(NACRE_LIBRARY_DECLARED)

constexpr bool same(int ours, int theirs) { return ours == theirs; }
static_assert(same(kSuccess, CUDA_SUCCESS) && same(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY) &&
              same(kNoDevice, CUDA_ERROR_NO_DEVICE) && same(kNoBinaryForDevice, CUDA_ERROR_NO_BINARY_FOR_GPU) &&
              same(kUnsupportedPtx, CUDA_ERROR_UNSUPPORTED_PTX_VERSION) && same(kNotFound, CUDA_ERROR_NOT_FOUND));
static_assert(same(kStreamNonBlocking, CU_STREAM_NON_BLOCKING) && same(kHostMapped, CU_MEMHOSTALLOC_DEVICEMAP) &&
              same(kCaptureThread, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
static_assert(same(kCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) &&
              same(kCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));

}  // namespace
}  // namespace nacre::cuda
