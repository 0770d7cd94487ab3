/* The fast kernels of x86-64 for C (x86.h): sets of kernels for nacre_program_bind_with and
 * nacre_trainer_bind_with, with the reference kernels behind them for what a set lacks.
 *
 *   const nacre_kernels* const kernels[] = {nacre_x86_kernels(nacre_x86_best()), nacre_reference_kernels()};
 *   nacre_program_bind_with(&program, &model, 0, kernels, 2, NULL, memory, size);
 */
#ifndef NACRE_X86_C_H
#define NACRE_X86_C_H

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The fastest tier of this processor and of the library: "portable", "avx2", .... On other machines "portable",
 * which may be slower than theirs. NULL: the library was built for other processors alone. */
const char* nacre_x86_best(void);
/* The kernels of a tier; NULL: no such tier, or this processor or the library does not have it. Nothing to free. */
const nacre_kernels* nacre_x86_kernels(const char* tier);

#ifdef __cplusplus
}
#endif
#endif
