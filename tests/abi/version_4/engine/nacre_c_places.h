/* Nacre for C: programs whose steps run on devices (engine/run/places.h). nacre_c.h includes this header.
 *
 * A place is a port: a list of kernels and the memory that they see. x86_c.h, arm_c.h and cuda_c.h return ports. A port
 * of your own is written in C++ (engine/kernels/kernel.h), because its kernels are.
 *
 *   const nacre_port* const ports[] = {NULL, nacre_cuda_port(device)};     // place 0: the host; place 1: a device
 *   const nacre_kernels* const kernels[] = {nacre_reference_kernels()};
 *   nacre_places places; nacre_places_make(&places, ports, 2);
 *   nacre_places_measure(&places, &model, 0, kernels, 1, NULL, &sizes);
 *   size_t needed = nacre_places_bytes(&places, 1);
 *   nacre_places_give(&places, 1, nacre_cuda_allocate(device, needed), needed);
 *   nacre_places_bind(&places, &program, &model, 0, kernels, 1, NULL, memory, sizes.total);
 *   write the inputs; nacre_program_run(&program); read the outputs; nacre_program_unbind(&program);
 *
 * Keep `places`, the list of ports and the ports in place as long as programs use them. */
#ifndef NACRE_C_PLACES_H
#define NACRE_C_PLACES_H

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nacre_port nacre_port;

const char* nacre_port_name(const nacre_port* port); /* "x86/avx2", "cuda"; "" for NULL */

/* Makes places of `count` ports, at most 8. A port that is NULL is the host. */
nacre_status nacre_places_make(nacre_places* places, const nacre_port* const* ports, size_t count);
/* Make a place keep the content of its memory between runs. Call it before measure, for a device that copies within its
   memory. */
nacre_status nacre_places_keep(nacre_places* places, uint32_t place);
/* Do as nacre_program_measure_with and nacre_program_bind_with, with the kernels of the ports. `memory` starts at a
   multiple of 16 and has sizes.total bytes. */
nacre_status nacre_places_measure(nacre_places* places, const nacre_model* model, uint32_t program,
                                  const nacre_kernels* const* kernels, size_t count, const nacre_workers* workers,
                                  nacre_sizes* sizes);
nacre_status nacre_places_bind(nacre_places* places, nacre_program* program, const nacre_model* model, uint32_t index,
                               const nacre_kernels* const* kernels, size_t count, const nacre_workers* workers,
                               void* memory, size_t size);
/* Returns the bytes that a place needs for the program or trainer measured last; 0 for the host. */
uint64_t nacre_places_bytes(const nacre_places* places, uint32_t place);
/* Gives a place its memory, in the address space of its port. */
nacre_status nacre_places_give(nacre_places* places, uint32_t place, void* memory, size_t size);

/* Do as nacre_trainer_measure_with and nacre_trainer_bind_with. */
nacre_status nacre_places_measure_trainer(nacre_places* places, const nacre_model* model, const char* target,
                                          const nacre_kernels* const* kernels, size_t count,
                                          const nacre_workers* workers, nacre_sizes* sizes);
nacre_status nacre_places_bind_trainer(nacre_places* places, nacre_trainer* trainer, const nacre_model* model,
                                       const char* target, const nacre_kernels* const* kernels, size_t count,
                                       const nacre_workers* workers, void* memory, size_t size);
/* Return the step block in the memory of a port that keeps it, and tell the trainer that the block was written there:
   nacre_trainer_gradients and nacre_trainer_merged for devices that exchange it among themselves. */
void* nacre_trainer_gradients_at(const nacre_trainer* trainer, const nacre_port* port, size_t* size);
nacre_status nacre_trainer_merged_at(nacre_trainer* trainer, const nacre_port* port, uint32_t micro_batches);

#ifdef __cplusplus
}
#endif
#endif
