/* Nacre for C. The same library as nacre.h: open a model's bytes, ask how much memory it needs, bind, run.
 *
 *   nacre_model model; nacre_program program; nacre_sizes sizes = {sizeof sizes};
 *   if (nacre_model_open(&model, bytes, size).code) ...
 *   nacre_program_measure(&model, 0, &model_kernels, &sizes);        // sizes.total bytes, at a multiple of 16
 *   nacre_program_bind(&program, &model, 0, &model_kernels, memory, sizes.total);
 *   write nacre_program_input(&program, 0, &n); nacre_program_run(&program); read nacre_program_output(&program, 0, &n);
 *
 * Handles hold no pointers to themselves' memory but to the bytes and memory given: keep those, and `model`, in place.
 * No call allocates. A status with code 0 is success; nacre_sentence(code) says what another one means. */
#ifndef NACRE_C_H
#define NACRE_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Handles: their size is part of the ABI. In C++ the same bytes are `unsigned char`, which may hold another object. */
#ifdef __cplusplus
typedef struct { alignas(uint64_t) unsigned char opaque[16 * sizeof(uint64_t)]; } nacre_model;
typedef struct { alignas(uint64_t) unsigned char opaque[40 * sizeof(uint64_t)]; } nacre_program;
#else
typedef struct { uint64_t opaque[16]; } nacre_model;
typedef struct { uint64_t opaque[40]; } nacre_program;
#endif
typedef struct nacre_kernels nacre_kernels; /* a kernel set: `nacre kernels` writes one for a model */

typedef struct {
  uint8_t code;     /* 0: success; values of nacre::Code (engine/base/status.h), never renumbered */
  uint8_t table;    /* which table of the file the refusal is about: nacre::Table */
  uint32_t index;   /* of the record in that table */
  uint64_t needed;  /* where two numbers tell the story, else 0 */
  uint64_t given;
} nacre_status;

typedef struct {
  uint32_t size;  /* set to sizeof(nacre_sizes) before the call: structs of later versions grow at the end */
  uint32_t reserved;
  uint64_t calls, prepared, scratch, state, stream, derived, step; /* bytes */
  uint64_t arena[8];                                               /* bytes per bank */
  uint64_t total;                                                  /* bytes of one block that holds all of them */
  uint64_t work;                                                   /* multiply-accumulates of one run */
} nacre_sizes;

const char* nacre_version(void);            /* of the library, "0.1.0" */
const char* nacre_sentence(uint8_t code);   /* "" where sentences are compiled away */
const nacre_kernels* nacre_reference_kernels(void);

/* `bytes` at a multiple of 16; any content: a model or one refusal. */
nacre_status nacre_model_open(nacre_model* model, const void* bytes, size_t size);
/* Reads every weight: checksums, and that none is NaN or infinite. */
nacre_status nacre_model_check_weights(const nacre_model* model);
uint32_t nacre_model_program_count(const nacre_model* model);

nacre_status nacre_program_measure(const nacre_model* model, uint32_t program, const nacre_kernels* kernels, nacre_sizes* sizes);
/* `memory` at a multiple of 16, at least sizes.total bytes. */
nacre_status nacre_program_bind(nacre_program* program, const nacre_model* model, uint32_t index, const nacre_kernels* kernels,
                                void* memory, size_t size);
uint32_t nacre_program_input_count(const nacre_program* program);
uint32_t nacre_program_output_count(const nacre_program* program);
void* nacre_program_input(const nacre_program* program, uint32_t index, size_t* size);        /* NULL: no such input */
const void* nacre_program_output(const nacre_program* program, uint32_t index, size_t* size); /* NULL: no such output */
nacre_status nacre_program_run(const nacre_program* program);
nacre_status nacre_program_run_rows(const nacre_program* program, uint32_t rows); /* the first rows of the compiled batch */

#ifdef __cplusplus
}
#endif
#endif
