#include "ports/cortex_m/cortex_m_c.h"

#include "engine/c_api_kernels.h"
#include "ports/cortex_m/cortex_m.h"

extern "C" {

const nacre_kernels* nacre_cortex_m_kernels(void) { return &nacre::cortex_m::kernels(); }

nacre_status nacre_cortex_m_kernel_at(uint32_t index, nacre_kernel_info* info) {
  return nacre::kernel_at(nacre::cortex_m::list(), index, info);
}

}  // extern "C"
