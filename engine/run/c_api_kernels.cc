// Lists kernels with their names for C (nacre_c.h). It is a file of its own, because the lists name all kernels.
#include "engine/c_api_kernels.h"

#include "engine/kernels/training.h"

extern "C" {

const char* nacre_kernels_name(const nacre_kernels* kernels) { return kernels == nullptr ? "" : kernels->name; }

nacre_status nacre_reference_kernel_at(uint32_t index, nacre_kernel_info* info) {
  return nacre::kernel_at(nacre::reference::list(), index, info);
}
nacre_status nacre_training_kernel_at(uint32_t index, nacre_kernel_info* info) {
  return nacre::kernel_at(nacre::reference::training_list(), index, info);
}

}  // extern "C"
