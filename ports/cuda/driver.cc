#include "ports/cuda/driver.h"

#include <dlfcn.h>

namespace nacre::cuda {
namespace {

struct Loaded {
  Driver driver = {};
  bool whole = false;

  Loaded() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    whole = true;
#define NACRE_CUDA_FUNCTION(name, symbol, arguments)                              \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, #symbol)); \
  whole &= driver.name != nullptr;
    NACRE_CUDA_FUNCTIONS(NACRE_CUDA_FUNCTION)
#undef NACRE_CUDA_FUNCTION
  }
};

}  // namespace

const Driver* load_driver() {
  static const Loaded loaded;
  return loaded.whole ? &loaded.driver : nullptr;
}

}  // namespace nacre::cuda
