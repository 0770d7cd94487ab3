#include "ports/cuda/nccl.h"

#include <dlfcn.h>

namespace nacre::cuda {
namespace {

struct LoadedNccl {
  Nccl functions = {};
  bool whole = false;

  LoadedNccl() {
    void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    whole = true;
#define NACRE_NCCL_FUNCTION(name, symbol, result, arguments)                            \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #symbol)); \
  whole &= functions.name != nullptr;
    NACRE_NCCL_FUNCTIONS(NACRE_NCCL_FUNCTION)
#undef NACRE_NCCL_FUNCTION
  }
};

}  // namespace

const Nccl* load_nccl() {
  static const LoadedNccl loaded;
  return loaded.whole ? &loaded.functions : nullptr;
}

}  // namespace nacre::cuda
