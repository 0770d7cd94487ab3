/* The fast kernels of ARM for C (arm.h): sets of kernels for nacre_program_bind_with and
 * nacre_trainer_bind_with, with the reference kernels behind them for what a set lacks.
 *
 *   const nacre_kernels* const kernels[] = {nacre_arm_kernels(nacre_arm_best()), nacre_reference_kernels()};
 *   nacre_program_bind_with(&program, &model, 0, kernels, 2, NULL, memory, size);
 */
#ifndef NACRE_ARM_C_H
#define NACRE_ARM_C_H

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The fastest tier of this processor and of the library: "neon", "dotprod", ... NULL: none runs here. */
const char* nacre_arm_best(void);
/* The kernels of a tier; NULL: no such tier, or this processor or the library does not have it. Nothing to free. */
const nacre_kernels* nacre_arm_kernels(const char* tier);

#ifdef __cplusplus
}
#endif
#endif
