/* Nacre for C: <nacre/nacre_c.h>. The same library as nacre.h: open a model's bytes, ask how much memory it needs,
 * bind, run.
 *
 *   nacre_model model; nacre_program program; nacre_sizes sizes = {sizeof sizes};
 *   if (nacre_model_open(&model, bytes, size).code) ...
 *   nacre_program_measure(&model, 0, &model_kernels, &sizes);        // sizes.total bytes, at a multiple of 16
 *   nacre_program_bind(&program, &model, 0, &model_kernels, memory, sizes.total);
 *   write nacre_program_input(&program, 0, &n); nacre_program_run(&program);
 *   read nacre_program_output(&program, 0, &n);
 *
 * Handles hold no pointers to themselves' memory but to the bytes and memory given: keep those, and `model`, in place.
 * Fast kernels (ports/x86/x86_c.h) read weights in layouts of their own: bind packs copies of them into the memory, and
 * nacre_sizes counts these. In less memory, of nacre_sizes.unpacked bytes or more, bind packs nothing and takes slower
 * kernels for such steps: a block that was counted without copies still runs.
 *
 * No call allocates. A status with code 0 is success; nacre_sentence(code) says what another one means. A pointer that
 * is NULL where that is not said to be allowed, and a struct whose `size` was not set, are refused (NACRE_ARGUMENT);
 * functions that give a pointer or a number then give NULL or 0.
 *
 * Inputs must be written before every run, but for those whose nacre_tensor_info.survives is 1: these stay as they
 * were written until they are written again. Outputs can be read until the next run. */
#ifndef NACRE_C_H
#define NACRE_C_H

#include <stddef.h>
#include <stdint.h>

/* Grows by one where something is added below; nothing is removed or changed. nacre_c_version() is the library's. */
#define NACRE_C_VERSION 3

#ifdef __cplusplus
extern "C" {
#endif

/* Handles: their size is part of the ABI. In C++ the same bytes are `unsigned char`, which may hold another object. */
#ifdef __cplusplus
typedef struct {
  alignas(uint64_t) unsigned char opaque[16 * sizeof(uint64_t)];
} nacre_model;
typedef struct {
  alignas(uint64_t) unsigned char opaque[40 * sizeof(uint64_t)];
} nacre_program;
typedef struct {
  alignas(uint64_t) unsigned char opaque[160 * sizeof(uint64_t)];
} nacre_trainer;
typedef struct {
  alignas(uint64_t) unsigned char opaque[4 * sizeof(uint64_t)];
} nacre_static_trainer;
typedef struct {
  alignas(uint64_t) unsigned char opaque[56 * sizeof(uint64_t)];
} nacre_model_slots;
#else
typedef struct {
  uint64_t opaque[16];
} nacre_model;
typedef struct {
  uint64_t opaque[40];
} nacre_program;
typedef struct {
  uint64_t opaque[160];
} nacre_trainer;
typedef struct {
  uint64_t opaque[4];
} nacre_static_trainer;
typedef struct {
  uint64_t opaque[56];
} nacre_model_slots;
#endif
typedef struct nacre_kernels nacre_kernels; /* a kernel set: `nacre kernels` writes one for a model */

typedef struct {
  uint8_t code;    /* 0: success; values of nacre::Code (engine/base/status.h), never renumbered */
  uint8_t table;   /* which table of the file the refusal is about: nacre::Table */
  uint32_t index;  /* of the record in that table */
  uint64_t needed; /* where two numbers tell the story, else 0 */
  uint64_t given;
} nacre_status;

#define NACRE_ARGUMENT ((uint8_t)113) /* nacre::Code::kArgument; `index`: which argument, from 0 */
#define NACRE_NO_NAME ((uint8_t)114)  /* nacre::Code::kNoName: nothing has this name or index */

typedef struct {
  uint32_t size; /* set to sizeof(nacre_sizes) before the call: structs of later versions grow at the end */
  uint32_t reserved;
  uint64_t calls, prepared, scratch, state, stream, derived, step; /* bytes */
  uint64_t arena[8];                                               /* bytes per bank */
  uint64_t total;                                                  /* bytes of one block that holds all of them */
  uint64_t work;                                                   /* multiply-accumulates of one run */
  uint64_t unpacked; /* since version 3: `total` without packed weights, the least that bind takes */
} nacre_sizes;

const char* nacre_version(void);          /* of the library, "0.1.0" */
uint32_t nacre_c_version(void);           /* NACRE_C_VERSION of the header that it was compiled with */
const char* nacre_sentence(uint8_t code); /* "" where sentences are compiled away */
const nacre_kernels* nacre_reference_kernels(void);

/* `bytes` at a multiple of 16; any content: a model or one refusal. */
nacre_status nacre_model_open(nacre_model* model, const void* bytes, size_t size);
/* Reads every weight: checksums, and that none is NaN or infinite. */
nacre_status nacre_model_check_weights(const nacre_model* model);
uint32_t nacre_model_program_count(const nacre_model* model);
/* Weights that lie apart from the file: data of a segment, at a multiple of 64; then programs are bound again. */
nacre_status nacre_model_attach(nacre_model* model, uint32_t segment, const void* data, size_t size);

/* ---- What is in a model: engine/model/tensor_info.h ----
 *   nacre_tensor_info audio = {sizeof audio};
 *   nacre_model_input(&model, "audio", &audio);    // audio.element, audio.dims, audio.scale, audio.zero
 * Texts and arrays are the model file's own: they stay while its bytes do. Texts end with a 0. */
#define NACRE_INFER 0u /* entries: kinds of programs */
#define NACRE_GRADIENTS 1u
#define NACRE_UPDATE 2u
#define NACRE_DERIVE 3u

enum {
  NACRE_FLOAT32 = 1,
  NACRE_FLOAT16 = 2,
  NACRE_BFLOAT16 = 3,
  NACRE_FLOAT64 = 4,
  NACRE_INT8 = 5,
  NACRE_UINT8 = 6,
  NACRE_INT16 = 7,
  NACRE_INT32 = 8,
  NACRE_INT64 = 9,
  NACRE_UINT32 = 10,
  NACRE_BOOL = 11,
  NACRE_INT4 = 12 /* two in a byte; others: nacre::ElementType (engine/base/tensor.h) */
};

typedef struct {
  uint32_t size; /* set to sizeof(nacre_tensor_info) before the call */
  uint32_t tensor;
  uint32_t program, index; /* of an input or output; else 0xFFFFFFFF */
  uint8_t element;         /* NACRE_FLOAT32 ... */
  uint8_t rank;
  uint8_t batched;  /* dims[0] is the batch: nacre_program_run_rows lowers it */
  uint8_t survives; /* an input that no run overwrites */
  int32_t dims[8];  /* elements of each axis; 0 beyond the rank */
  uint32_t axis;    /* of scales and zeros */
  uint64_t bytes;
  const char* name; /* "" where names were stripped */
  const char* axes; /* "NHWC", or "" */
  /* real = scale * (code - zero). scale 0: no quantizer, or one scale for each index of `axis`, or one that training
     changes. */
  float scale;
  int32_t zero;
  const float* scales;  /* scale_count of them, or NULL */
  const int32_t* zeros; /* as many, or NULL: all `zero` */
  uint32_t scale_count;
  uint32_t reserved;
} nacre_tensor_info;

typedef struct {
  uint32_t size;  /* set to sizeof(nacre_program_info) before the call */
  uint32_t entry; /* NACRE_INFER ... */
  uint32_t inputs, outputs, steps, batch;
  uint32_t first_tensor, tensors; /* ids of its own tensors */
  const char* target;             /* "host", "x86/avx2" */
} nacre_program_info;

typedef struct {
  uint32_t size;     /* set to sizeof(nacre_step_info) before the call */
  uint32_t operands; /* how many */
  const char* op;    /* "conv2d" */
  const char* layer; /* "" where it belongs to none */
  /* Since version 3, of a step of a bound program (nacre_program_step), else NULL and 0. */
  const void* kernel; /* what runs it: two steps with the same value run the same kernel */
  uint32_t packed;    /* its operands that are copies which bind packed: bit i of operand i */
  uint32_t reserved;
} nacre_step_info;

/* Finds a tensor by name in the first program that infers. NACRE_NO_NAME: there is none. */
nacre_status nacre_model_input(const nacre_model* model, const char* name, nacre_tensor_info* info);
nacre_status nacre_model_output(const nacre_model* model, const char* name, nacre_tensor_info* info);
nacre_status nacre_model_input_at(const nacre_model* model, uint32_t program, uint32_t index, nacre_tensor_info* info);
nacre_status nacre_model_output_at(const nacre_model* model, uint32_t program, uint32_t index, nacre_tensor_info* info);
uint32_t nacre_model_tensor_count(const nacre_model* model);
nacre_status nacre_model_tensor(const nacre_model* model, uint32_t tensor, nacre_tensor_info* info);
/* `target` may be NULL: the first program of this entry. */
nacre_status nacre_model_find(const nacre_model* model, uint32_t entry, const char* target, uint32_t* program);
nacre_status nacre_model_program(const nacre_model* model, uint32_t program, nacre_program_info* info);
nacre_status nacre_model_step(const nacre_model* model, uint32_t program, uint32_t step, nacre_step_info* info);
uint32_t nacre_model_metadata_count(const nacre_model* model);
nacre_status nacre_model_metadata_at(const nacre_model* model, uint32_t index, const char** key, const char** value);
const char* nacre_model_metadata(const nacre_model* model, const char* key); /* NULL: no such key */
/* The name of a class, `length` bytes without a 0 behind them; NULL: the model names no such class. */
const char* nacre_model_label(const nacre_model* model, uint32_t index, size_t* length);

/* ---- Programs ---- */

nacre_status nacre_program_measure(const nacre_model* model, uint32_t program, const nacre_kernels* kernels,
                                   nacre_sizes* sizes);
/* `memory` at a multiple of 16, of sizes.total bytes; with fewer, at least sizes.unpacked, no weights are packed. */
nacre_status nacre_program_bind(nacre_program* program, const nacre_model* model, uint32_t index,
                                const nacre_kernels* kernels, void* memory, size_t size);
uint32_t nacre_program_input_count(const nacre_program* program);
uint32_t nacre_program_output_count(const nacre_program* program);
void* nacre_program_input(const nacre_program* program, uint32_t index, size_t* size);        /* NULL: no such input */
const void* nacre_program_output(const nacre_program* program, uint32_t index, size_t* size); /* NULL: no such output */
/* A stream begins: what survives from run to run becomes zero. */
nacre_status nacre_program_start(const nacre_program* program);
nacre_status nacre_program_run(const nacre_program* program);
nacre_status nacre_program_run_rows(const nacre_program* program,
                                    uint32_t rows); /* the first rows of the compiled batch */

/* The caller's threads. With several sets of kernels, the first set that takes a step runs it, on these threads. */
typedef struct {
  void* context;
  int count;
  /* Returns when task(task_context, i, worker) has been called once for each i in [0, tiles). */
  void (*run)(void* context, void (*task)(void* task_context, int tile, int worker), void* task_context, int tiles);
  /* Multiply-accumulates below which one worker does all of a step: 200,000 fits threads that spin. A program without
     a step of eight times this, nor 32 times this in all, shares nothing. */
  uint64_t least_work;
} nacre_workers;

/* `workers` may be NULL: one thread. They, and the sets, outlive the program. */
nacre_status nacre_program_measure_with(const nacre_model* model, uint32_t program, const nacre_kernels* const* kernels,
                                        size_t count, const nacre_workers* workers, nacre_sizes* sizes);
nacre_status nacre_program_bind_with(nacre_program* program, const nacre_model* model, uint32_t index,
                                     const nacre_kernels* const* kernels, size_t count, const nacre_workers* workers,
                                     void* memory, size_t size);
/* The bytes of any of its tensors, an intermediate one between its first and last step; NULL: no such. */
const void* nacre_program_tensor(const nacre_program* program, uint32_t tensor, size_t* size);
uint32_t nacre_program_step_count(const nacre_program* program);
/* Since version 3. As nacre_model_step, and what runs the step. NACRE_NO_NAME: no such step, or not bound. */
nacre_status nacre_program_step(const nacre_program* program, uint32_t step, nacre_step_info* info);
/* Steps [first, last) alone, of `rows` rows (0: the compiled batch). */
nacre_status nacre_program_run_steps(const nacre_program* program, uint32_t first, uint32_t last, uint32_t rows);
/* A profiler: called before each step (ended 0) and behind it (ended 1). */
typedef void (*nacre_step_hook)(void* context, uint32_t step, int ended);
nacre_status nacre_program_run_hooked(const nacre_program* program, uint32_t rows, nacre_step_hook hook, void* context);

/* Static programs: bound on a PC and written as C++ by `nacre firmware`, which declares one in NAME.h. Nothing is
 * opened, measured or bound: write the inputs, run, read the outputs. */
typedef struct nacre_static_program nacre_static_program;

void* nacre_static_input(const nacre_static_program* program, uint32_t index, size_t* size); /* NULL: no such input */
const void* nacre_static_output(const nacre_static_program* program, uint32_t index, size_t* size);
void nacre_static_start(const nacre_static_program* program);  /* what survives from run to run becomes zero */
uint8_t nacre_static_run(const nacre_static_program* program); /* 0, or a code: nacre_sentence says what it means */

#ifdef __cplusplus
}
#endif

#include "engine/nacre_c_training.h"
#endif
