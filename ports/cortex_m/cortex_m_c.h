/* The kernels of Cortex-M for C (cortex_m.h), since version 4. List the reference kernels after them.
 *
 *   const nacre_kernels* const kernels[] = {nacre_cortex_m_kernels(), nacre_reference_kernels()};
 *   nacre_program_bind_with(&program, &model, 0, kernels, 2, NULL, memory, size);
 */
#pragma once

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns all kernels. A firmware that needs few of them takes the set that `nacre kernels` writes for its model. */
const nacre_kernels* nacre_cortex_m_kernels(void);
/* Describes kernel `index`. NACRE_NO_NAME: there are fewer. */
nacre_status nacre_cortex_m_kernel_at(uint32_t index, nacre_kernel_info* info);

#ifdef __cplusplus
}
#endif
