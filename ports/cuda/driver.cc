#include "ports/cuda/driver.h"

#include <dlfcn.h>

namespace nacre::cuda {
namespace {

struct Loaded {
  Driver driver = {};
  bool here = false;  // what says its version

  Loaded() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
#define NACRE_CUDA_FUNCTION(name, symbol, arguments) \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, #symbol));
    NACRE_CUDA_FUNCTIONS(NACRE_CUDA_FUNCTION)
#undef NACRE_CUDA_FUNCTION
    here = driver.init != nullptr && driver.driver_version != nullptr;
  }
};

}  // namespace

const Driver* load_driver() {
  static const Loaded loaded;
  return loaded.here ? &loaded.driver : nullptr;
}

}  // namespace nacre::cuda
