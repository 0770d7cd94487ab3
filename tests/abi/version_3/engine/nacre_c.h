/* Nacre for C: <nacre/nacre_c.h>. The library of nacre.h with C functions: open a model's bytes, ask how much memory
 * it needs, bind, run.
 *
 *   nacre_model model; nacre_program program; nacre_sizes sizes = {sizeof sizes};
 *   if (nacre_model_open(&model, bytes, size).code) ...
 *   nacre_program_measure(&model, 0, &model_kernels, &sizes);        // sizes.total bytes, at a multiple of 16
 *   nacre_program_bind(&program, &model, 0, &model_kernels, memory, sizes.total);
 *   write nacre_program_input(&program, 0, &n); nacre_program_run(&program);
 *   read nacre_program_output(&program, 0, &n);
 *
 * A handle points at the bytes, the memory and the `model` that it was given, never at its own memory: keep the
 * bytes, the memory and `model` in place. Fast kernels (ports/x86/x86_c.h) read weights in layouts of their own. bind
 * packs copies of these weights into the memory, and nacre_sizes counts the copies. In less memory, but at least
 * nacre_sizes.unpacked bytes, bind packs nothing and takes slower kernels for such steps. So a block whose size was
 * counted without copies still runs.
 *
 * No call allocates. Code 0 in a status is success; nacre_sentence(code) says what another code means. A call is
 * refused (NACRE_ARGUMENT) if a pointer that it needs is NULL, or if the `size` of a struct was not set. Functions that
 * return a pointer or a number then return NULL or 0.
 *
 * Write every input before every run, except inputs whose nacre_tensor_info.survives is 1: their bytes stay until
 * they are written again. Read the outputs before you write an input or run again: they may share bytes. */
#ifndef NACRE_C_H
#define NACRE_C_H

#include <stddef.h>
#include <stdint.h>

/* Grows by one when a function or field is added below; none is removed or changed. nacre_c_version() returns the
   number of the library. */
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
typedef struct nacre_kernels nacre_kernels; /* a kernel set; `nacre kernels` writes a set for a model */

typedef struct {
  uint8_t code;    /* 0: success; values of nacre::Code (engine/base/status.h), never renumbered */
  uint8_t table;   /* the table of the file that the refusal is about: nacre::Table */
  uint32_t index;  /* index of the record in that table */
  uint64_t needed; /* needed, given: two numbers that explain the code; else 0 */
  uint64_t given;
} nacre_status;

#define NACRE_ARGUMENT ((uint8_t)113) /* nacre::Code::kArgument; `index`: which argument, from 0 */
#define NACRE_NO_NAME ((uint8_t)114)  /* nacre::Code::kNoName: nothing has this name or index */

typedef struct {
  uint32_t size; /* set to sizeof(nacre_sizes) before the call: structs of later versions grow at the end */
  uint32_t reserved;
  uint64_t calls, prepared, scratch, state, stream, derived, step; /* bytes */
  uint64_t arena[8];                                               /* bytes per bank */
  uint64_t total;                                                  /* bytes of one block that holds all blocks */
  uint64_t work;                                                   /* multiply-accumulates of one run */
  uint64_t unpacked; /* since version 3: `total` without packed weights, the least that bind takes */
} nacre_sizes;

const char* nacre_version(void);          /* version of the library, such as "0.1.0" */
uint32_t nacre_c_version(void);           /* NACRE_C_VERSION of the header that the library was compiled with */
const char* nacre_sentence(uint8_t code); /* "" if sentences are compiled away */
const nacre_kernels* nacre_reference_kernels(void);

/* Opens the model file in `bytes`, which start at a multiple of 16. Any content is safe: it is a model, or the
   call refuses it. */
nacre_status nacre_model_open(nacre_model* model, const void* bytes, size_t size);
/* Reads every weight. Checks the segments' checksums, scales, zero points and fixed-point multipliers. Refuses a
   float weight that is NaN; infinity is valid, because a mask may hold it. */
nacre_status nacre_model_check_weights(const nacre_model* model);
uint32_t nacre_model_program_count(const nacre_model* model);
/* Takes the weights of a segment from `data` instead of the file. `data` starts at a multiple of 64. Bind programs
   again after this call. */
nacre_status nacre_model_attach(nacre_model* model, uint32_t segment, const void* data, size_t size);

/* ---- Contents of a model: engine/model/tensor_info.h ----
 *   nacre_tensor_info audio = {sizeof audio};
 *   nacre_model_input(&model, "audio", &audio);    // audio.element, audio.dims, audio.scale, audio.zero
 * Texts and arrays lie in the model file's bytes and are valid as long as these are. Texts end with a 0. */
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
  uint32_t program, index; /* set for an input or output; 0xFFFFFFFF for other tensors */
  uint8_t element;         /* NACRE_FLOAT32 ... */
  uint8_t rank;
  uint8_t batched;  /* dims[0] is the batch: nacre_program_run_rows lowers it */
  uint8_t survives; /* 1: an input that no run overwrites */
  int32_t dims[8];  /* elements of each axis; 0 beyond the rank */
  uint32_t axis;    /* axis of scales and zeros */
  uint64_t bytes;
  const char* name; /* "" if names were stripped */
  const char* axes; /* "NHWC", or "" */
  /* real = scale * (code - zero). scale is 0 if there is no quantizer, if there is one scale for each index of
     `axis`, or if training changes the scale. */
  float scale;
  int32_t zero;
  const float* scales;  /* scale_count scales, or NULL */
  const int32_t* zeros; /* scale_count zero points, or NULL: `zero` for all */
  uint32_t scale_count;
  uint32_t reserved;
} nacre_tensor_info;

typedef struct {
  uint32_t size;  /* set to sizeof(nacre_program_info) before the call */
  uint32_t entry; /* NACRE_INFER ... */
  uint32_t inputs, outputs, steps, batch;
  uint32_t first_tensor, tensors; /* ids of the program's own tensors: the first, and how many */
  const char* target;             /* "host", "x86/avx2" */
} nacre_program_info;

typedef struct {
  uint32_t size;     /* set to sizeof(nacre_step_info) before the call */
  uint32_t operands; /* how many */
  const char* op;    /* "conv2d" */
  const char* layer; /* "" if the step belongs to no layer */
  /* Since version 3. nacre_program_step sets these fields for a step of a bound program; else NULL and 0. */
  const void* kernel; /* the kernel that runs the step: equal values are the same kernel */
  uint32_t packed;    /* bit i: operand i is a copy of weights that bind packed */
  uint32_t reserved;
} nacre_step_info;

/* Finds an input or output by name in the first program that infers. NACRE_NO_NAME: none has this name. */
nacre_status nacre_model_input(const nacre_model* model, const char* name, nacre_tensor_info* info);
nacre_status nacre_model_output(const nacre_model* model, const char* name, nacre_tensor_info* info);
nacre_status nacre_model_input_at(const nacre_model* model, uint32_t program, uint32_t index, nacre_tensor_info* info);
nacre_status nacre_model_output_at(const nacre_model* model, uint32_t program, uint32_t index, nacre_tensor_info* info);
uint32_t nacre_model_tensor_count(const nacre_model* model);
nacre_status nacre_model_tensor(const nacre_model* model, uint32_t tensor, nacre_tensor_info* info);
/* Finds the first program of this entry for `target`; NULL: for any target. */
nacre_status nacre_model_find(const nacre_model* model, uint32_t entry, const char* target, uint32_t* program);
nacre_status nacre_model_program(const nacre_model* model, uint32_t program, nacre_program_info* info);
nacre_status nacre_model_step(const nacre_model* model, uint32_t program, uint32_t step, nacre_step_info* info);
uint32_t nacre_model_metadata_count(const nacre_model* model);
nacre_status nacre_model_metadata_at(const nacre_model* model, uint32_t index, const char** key, const char** value);
const char* nacre_model_metadata(const nacre_model* model, const char* key); /* NULL: no such key */
/* Returns the name of class `index`: `length` bytes, without a 0 at the end. NULL: the model does not name this
   class. */
const char* nacre_model_label(const nacre_model* model, uint32_t index, size_t* length);

/* ---- Programs ---- */

nacre_status nacre_program_measure(const nacre_model* model, uint32_t program, const nacre_kernels* kernels,
                                   nacre_sizes* sizes);
/* Binds a program. `memory` starts at a multiple of 16 and has sizes.total bytes. With fewer bytes, at least
   sizes.unpacked, no weights are packed. */
nacre_status nacre_program_bind(nacre_program* program, const nacre_model* model, uint32_t index,
                                const nacre_kernels* kernels, void* memory, size_t size);
uint32_t nacre_program_input_count(const nacre_program* program);
uint32_t nacre_program_output_count(const nacre_program* program);
void* nacre_program_input(const nacre_program* program, uint32_t index, size_t* size);        /* NULL: no such input */
const void* nacre_program_output(const nacre_program* program, uint32_t index, size_t* size); /* NULL: no such output */
/* Begins a stream: sets the bytes that survive from run to run to zero. */
nacre_status nacre_program_start(const nacre_program* program);
nacre_status nacre_program_run(const nacre_program* program);
nacre_status nacre_program_run_rows(const nacre_program* program,
                                    uint32_t rows); /* the first rows of the compiled batch */

/* The caller's threads, for the functions whose names end in _with. */
typedef struct {
  void* context;
  int count;
  /* Returns when task(task_context, i, worker) has been called once for each i in [0, tiles). */
  void (*run)(void* context, void (*task)(void* task_context, int tile, int worker), void* task_context, int tiles);
  /* Multiply-accumulates below which one worker does all of a step: 200,000 fits threads that spin. A program shares
     nothing unless one step has eight times this, or all steps together have 32 times this. */
  uint64_t least_work;
} nacre_workers;

/* Measure and bind with several kernel sets: the first set that has a kernel for a step runs the step. `workers`
   may be NULL: one thread. The sets and `workers` must outlive the program. */
nacre_status nacre_program_measure_with(const nacre_model* model, uint32_t program, const nacre_kernels* const* kernels,
                                        size_t count, const nacre_workers* workers, nacre_sizes* sizes);
nacre_status nacre_program_bind_with(nacre_program* program, const nacre_model* model, uint32_t index,
                                     const nacre_kernels* const* kernels, size_t count, const nacre_workers* workers,
                                     void* memory, size_t size);
/* Returns the bytes of any tensor of the program. An intermediate tensor is valid between the first and the last
   step that use it. NULL: there is no such tensor. */
const void* nacre_program_tensor(const nacre_program* program, uint32_t tensor, size_t* size);
uint32_t nacre_program_step_count(const nacre_program* program);
/* Since version 3. Gives what nacre_model_step gives, and the fields `kernel` and `packed`. NACRE_NO_NAME: there
   is no such step, or the program is not bound. */
nacre_status nacre_program_step(const nacre_program* program, uint32_t step, nacre_step_info* info);
/* Runs steps [first, last) alone, with `rows` rows (0: the compiled batch). */
nacre_status nacre_program_run_steps(const nacre_program* program, uint32_t first, uint32_t last, uint32_t rows);
/* A profiler's function: called before each step (ended 0) and after it (ended 1). */
typedef void (*nacre_step_hook)(void* context, uint32_t step, int ended);
nacre_status nacre_program_run_hooked(const nacre_program* program, uint32_t rows, nacre_step_hook hook, void* context);

/* Static programs: bound on a PC and written as C++ by `nacre firmware`, which declares the program in NAME.h. Such a
 * program is not opened, measured or bound: write the inputs, run, read the outputs. */
typedef struct nacre_static_program nacre_static_program;

void* nacre_static_input(const nacre_static_program* program, uint32_t index, size_t* size); /* NULL: no such input */
const void* nacre_static_output(const nacre_static_program* program, uint32_t index, size_t* size);
void nacre_static_start(const nacre_static_program* program);  /* sets bytes that survive from run to run to zero */
uint8_t nacre_static_run(const nacre_static_program* program); /* 0, or a code: nacre_sentence(code) explains it */

#ifdef __cplusplus
}
#endif

#include "engine/nacre_c_training.h"
#endif
