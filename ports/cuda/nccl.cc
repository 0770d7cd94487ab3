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
    NACRE_NCCL_FUNCTIONS(NACRE_LIBRARY_LOAD)
  }
};

}  // namespace

const Nccl* load_nccl() {
  static const LoadedNccl loaded;
  return loaded.whole ? &loaded.functions : nullptr;
}

}  // namespace nacre::cuda
