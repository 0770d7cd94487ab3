#include "ports/cuda/driver.h"

#include <dlfcn.h>

namespace nacre::cuda {
namespace {

struct Loaded {
  Driver functions = {};
  bool whole = true;
  bool here = false;  // the functions that tell the driver's version

  Loaded() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    NACRE_CUDA_FUNCTIONS(NACRE_LIBRARY_LOAD)
    here = functions.init != nullptr && functions.driver_version != nullptr;
  }
};

}  // namespace

const Driver* load_driver() {
  static const Loaded loaded;
  return loaded.here ? &loaded.functions : nullptr;
}

}  // namespace nacre::cuda
