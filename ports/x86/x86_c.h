/* The fast kernels of x86-64 for C (x86.h). They are sets of kernels for nacre_program_bind_with and
 * nacre_trainer_bind_with. List the reference kernels after them, for steps that a set does not take.
 *
 * Example:
 *   const nacre_kernels* const fast = nacre_x86_kernels(nacre_x86_best());                 // NULL: none runs here
 *   const nacre_kernels* const both[] = {fast, nacre_reference_kernels()};
 *   if (fast == NULL) return nacre_program_bind(&program, &model, 0, both[1], memory, memory_size).code == 0;
 *   return nacre_program_bind_with(&program, &model, 0, both, 2, NULL, memory, memory_size).code == 0;
 */
#ifndef NACRE_X86_C_H
#define NACRE_X86_C_H

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the name of the best tier (best() of x86.h) that this processor and this library have: "portable", "avx2",
 * ... On machines other than x86-64 it is "portable" or NULL. Returns NULL if the library has no tier for this
 * processor. */
const char* nacre_x86_best(void);
/* Returns the kernels of a tier; the caller frees nothing. Returns NULL if there is no such tier, or if this
 * processor or this library does not have it. */
const nacre_kernels* nacre_x86_kernels(const char* tier);

#ifdef __cplusplus
}
#endif
#endif
