/* The fast kernels of ARM for C (arm.h). They are sets of kernels for nacre_program_bind_with and
 * nacre_trainer_bind_with. List the reference kernels after them, for steps that a set does not take.
 *
 * Example:
 *   const nacre_kernels* const fast = nacre_arm_kernels(nacre_arm_best());                 // NULL: none runs here
 *   const nacre_kernels* const both[] = {fast, nacre_reference_kernels()};
 *   if (fast == NULL) return nacre_program_bind(&program, &model, 0, both[1], memory, memory_size).code == 0;
 *   return nacre_program_bind_with(&program, &model, 0, both, 2, NULL, memory, memory_size).code == 0;
 */
#ifndef NACRE_ARM_C_H
#define NACRE_ARM_C_H

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the name of the fastest tier that this processor and this library have: "neon", "dotprod", ... Returns NULL
 * if none runs here. */
const char* nacre_arm_best(void);
/* Returns the kernels of a tier; the caller frees nothing. Returns NULL if there is no such tier, or if this
 * processor or this library does not have it. */
const nacre_kernels* nacre_arm_kernels(const char* tier);
/* Since version 4. Returns the name of tier `index`, whether it runs here or not; NULL: there are fewer. */
const char* nacre_arm_tier(uint32_t index);
int nacre_arm_lanes(const char* tier); /* numbers of float32 in a vector; 0: there is no such tier */
/* Returns the tier as a port for nacre_places_make; NULL if nacre_arm_kernels returns NULL. */
const nacre_port* nacre_arm_port(const char* tier);
/* Describes kernel `index` of a tier. NACRE_NO_NAME: there is no such tier, or it has fewer kernels. */
nacre_status nacre_arm_kernel_at(const char* tier, uint32_t index, nacre_kernel_info* info);

#ifdef __cplusplus
}
#endif
#endif
