/* NVIDIA GPUs for C (cuda_port.h), since version 4. The device is a port: nacre_c_places.h runs programs and trainers
 * on it. The kernels are in the library if it was built with -Dcuda=enabled; the driver is found when a program runs.
 *
 *   char why[256];
 *   nacre_cuda* device = nacre_cuda_open(0, 1, why, sizeof why);
 *   if (device == NULL) puts(why);
 *   const nacre_port* const ports[] = {NULL, nacre_cuda_port(device)}; ..      // place 1, in nacre_places_make
 *   nacre_program_unbind(&program); nacre_cuda_close(device);
 *
 * Call all functions of a device, and run its programs, on the thread that opened it. */
#pragma once

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nacre_cuda nacre_cuda;

/* Opens GPU `ordinal`, from 0. If `products` is not 0 and cuBLASLt is installed, cuBLASLt multiplies matrices. Returns
 * NULL if it refuses; then `why`, of why_size bytes, holds a sentence that says so. `why` may be NULL. Allocates. */
nacre_cuda* nacre_cuda_open(int ordinal, int products, char* why, size_t why_size);
/* Frees all memory of the device. First unbind every program that is bound to its port. Does nothing for NULL. */
void nacre_cuda_close(nacre_cuda* device);

const nacre_port* nacre_cuda_port(const nacre_cuda* device); /* NULL for NULL */
/* Returns memory of the device, for nacre_places_give; NULL if the device has not as many bytes. */
void* nacre_cuda_allocate(nacre_cuda* device, size_t bytes);
void nacre_cuda_release(nacre_cuda* device, void* memory, size_t bytes); /* memory of nacre_cuda_allocate */

const char* nacre_cuda_sentence(const nacre_cuda* device); /* the last failure; "" if nothing failed */
const char* nacre_cuda_name(const nacre_cuda* device);     /* "NVIDIA H200"; "" for NULL */
int nacre_cuda_architecture(const nacre_cuda* device);     /* 90 for an H200; 0 for NULL */
int nacre_cuda_has_products(const nacre_cuda* device);     /* 1: cuBLASLt is in use */
/* Allows cuBLASLt to multiply float32 as TF32 in later runs, or forbids it, which is the default. */
void nacre_cuda_multiply_as_tf32(nacre_cuda* device, int allowed);

typedef struct {
  uint32_t size; /* set to sizeof(nacre_cuda_counts) before the call */
  uint32_t reserved;
  uint64_t launches, recordings; /* launches of graphs; recordings, each before a first launch */
  uint64_t kernels;              /* steps in graphs that were launched */
  uint64_t products;             /* of these, made by cuBLASLt */
  uint64_t joined;               /* of these, joined with others in one launch */
  uint64_t turned;               /* of these, wrote float8 codes and their transpose */
} nacre_cuda_counts;
nacre_status nacre_cuda_count(const nacre_cuda* device, nacre_cuda_counts* counts);

/* Measured times of the device, for a profile. */
enum { NACRE_CUDA_TIME_NONE = 0, NACRE_CUDA_TIME_GRAPHS = 1, NACRE_CUDA_TIME_STEPS = 2 };
typedef struct {
  const char* kernel; /* "kDenseF32"; NULL for a graph */
  float us;
} nacre_cuda_time;
/* Measures from the next run on, and drops earlier times. Steps that are timed are launched one by one. */
nacre_status nacre_cuda_measure(nacre_cuda* device, uint32_t timing);
/* Returns how many times there are, and writes the first `count` of them, in the order in which the steps ran. */
size_t nacre_cuda_times(const nacre_cuda* device, nacre_cuda_time* times, size_t count);

#ifdef __cplusplus
}
#endif
