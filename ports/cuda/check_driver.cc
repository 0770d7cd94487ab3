// Compiles only where each function of driver.h is declared in <cuda.h> with the same arguments. The toolkit has enums
// where driver.h has integers of their size.
#include <cuda.h>

#include <tuple>
#include <type_traits>

#include "ports/cuda/driver.h"

namespace nacre::cuda {
namespace {

template <class T>
struct Plain {
  using Type = T;
};
template <class T>
requires std::is_enum_v<T>
struct Plain<T> {
  using Type = std::underlying_type_t<T>;
};
template <class T>
struct Plain<T*> {  // a handle, or an address
  using Type = void*;
};

template <class F>
struct Signature;
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using Type = std::tuple<typename Plain<A>::Type...>;
  static_assert(sizeof(R) == sizeof(Result));
};

#define NACRE_CUDA_FUNCTION(name, symbol, arguments) \
  static_assert(std::is_same_v<Signature<decltype(Driver::name)>::Type, Signature<decltype(&::symbol)>::Type>, #symbol);
NACRE_CUDA_FUNCTIONS(NACRE_CUDA_FUNCTION)
#undef NACRE_CUDA_FUNCTION

constexpr bool same(int ours, int theirs) { return ours == theirs; }
static_assert(same(kSuccess, CUDA_SUCCESS) && same(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY) &&
              same(kNoDevice, CUDA_ERROR_NO_DEVICE) && same(kNoBinaryForDevice, CUDA_ERROR_NO_BINARY_FOR_GPU) &&
              same(kUnsupportedPtx, CUDA_ERROR_UNSUPPORTED_PTX_VERSION) && same(kNotFound, CUDA_ERROR_NOT_FOUND));
static_assert(same(kStreamNonBlocking, CU_STREAM_NON_BLOCKING) && same(kHostMapped, CU_MEMHOSTALLOC_DEVICEMAP) &&
              same(kCaptureThread, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));

}  // namespace
}  // namespace nacre::cuda
