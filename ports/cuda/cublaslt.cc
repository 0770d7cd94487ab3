#include "ports/cuda/cublaslt.h"

#include <dlfcn.h>

#include <initializer_list>

namespace nacre::cuda {
namespace {

struct Loaded {
  CublasLt functions = {};
  bool whole = false;

  Loaded() {
    // Tries the loader's own paths first, then the folders of the toolkit's packages.
    void* library = nullptr;
    for (const char* path : {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"})
      if (library == nullptr) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    whole = true;
    NACRE_CUBLASLT_FUNCTIONS(NACRE_LIBRARY_LOAD)
  }
};

}  // namespace

const CublasLt* load_cublaslt() {
  static const Loaded loaded;
  return loaded.whole ? &loaded.functions : nullptr;
}

}  // namespace nacre::cuda
