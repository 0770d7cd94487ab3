/* Nacre for C: <nacre/nacre_c.h>. The library of nacre.h with C functions: open a model's bytes, ask how much memory
 * it needs, bind, run.
 *
 * Example:
 *   nacre_model model;
 *   nacre_program program;
 *   nacre_sizes sizes = {.size = sizeof sizes};
 *   size_t n = 0;
 *   nacre_status status = nacre_model_open(&model, bytes, size);
 *   if (status.code == 0) status = nacre_program_measure(&model, 0, nacre_reference_kernels(), &sizes);
 *   if (status.code == 0)                            // memory: sizes.total bytes or more, at a multiple of 16
 *     status = nacre_program_bind(&program, &model, 0, nacre_reference_kernels(), memory, memory_size);
 *   if (status.code != 0) return puts(nacre_sentence(status.code));
 *   void* const x = nacre_program_input(&program, 0, &n);
 *   memcpy(x, pixels, n);                            // n: the bytes of the input
 *   status = nacre_program_run(&program);
 *   const void* const y = nacre_program_output(&program, 0, &n);
 *   memcpy(scores, y, n);
 *
 * A handle points at the bytes, the memory and the `model` that it was given, never at its own memory: keep the
 * bytes, the memory and `model` in place. No handle needs to be closed. Several threads may read one model. A program
 * or trainer belongs to one thread at a time.
 *
 * Fast kernels (ports/x86/x86_c.h) read weights in layouts of their own. bind packs copies of these weights into the
 * memory, and nacre_sizes counts the copies. In less memory, but at least nacre_sizes.unpacked bytes, bind packs
 * nothing and takes slower kernels for such steps. So a block whose size was counted without copies still runs.
 *
 * No call allocates. Code 0 in a status is success; nacre_sentence(code) says what another code means. Comments name
 * codes as nacre::Code does (engine/base/status.h). A call is refused (NACRE_ARGUMENT) if a pointer that it needs is
 * NULL, or if the `size` of a struct was not set. Functions that return a pointer or a number then return NULL or 0.
 * `size_t* size` receives the number of bytes at the returned pointer, and may be NULL. Open, bind or make fills a
 * handle, before any other function reads it.
 *
 * Write every input before every run, except inputs whose nacre_tensor_info.survives is 1: their bytes stay until
 * they are written again. Read the outputs before you write an input or run again: they may share bytes. */
#ifndef NACRE_C_H
#define NACRE_C_H

#include <stddef.h>
#include <stdint.h>

/* Grows by one when a function or field is added below; none is removed or changed. nacre_c_version() returns the
   number of the library. */
#define NACRE_C_VERSION 4

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
typedef struct {
  alignas(uint64_t) unsigned char opaque[512 * sizeof(uint64_t)];
} nacre_places;
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
typedef struct {
  uint64_t opaque[512];
} nacre_places;
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

/* The memory and the work of a program or trainer. */
typedef struct {
  uint32_t size; /* set to sizeof(nacre_sizes) before the call: structs of later versions grow at the end */
  uint32_t reserved;
  uint64_t calls, prepared, scratch, state, stream, derived, step; /* bytes of each Block (engine/run/program.h) */
  uint64_t arena[8];                                               /* bytes per bank */
  uint64_t total;                                                  /* bytes of one block that holds all blocks */
  uint64_t work;     /* multiply-accumulates of one run; of a trainer: of one accumulate and one commit */
  uint64_t unpacked; /* since version 3: `total` without packed weights, the least that bind takes */
} nacre_sizes;

const char* nacre_version(void);          /* version of the library, such as "0.2.0" */
uint32_t nacre_c_version(void);           /* NACRE_C_VERSION of the header that the library was compiled with */
const char* nacre_sentence(uint8_t code); /* "" if sentences are compiled away, or if there is no such code */
/* Returns the kernels that run everywhere. An image that names them links all of them; `nacre kernels` writes a
   smaller set for a model. Kernel sets are static and constant. */
const nacre_kernels* nacre_reference_kernels(void);

/* Opens the model file in `bytes`, which start at a multiple of 16. Any content is safe: it is a model, or the
   call refuses it. The bytes stay in place and unchanged as long as the model is in use. After a refusal `model` is
   filled too, as one that is not opened. Codes and limits are those of Model::open (engine/model/model.h). */
nacre_status nacre_model_open(nacre_model* model, const void* bytes, size_t size);
/* Since version 4. Bounds for a file, which is refused if it exceeds one. A field that is 0 means the usual bound. */
typedef struct {
  uint32_t size; /* set to sizeof(nacre_limits) */
  uint32_t tensors, steps, string_bytes;
  uint64_t file_bytes;
  uint64_t work; /* multiply-accumulates of one run */
} nacre_limits;
nacre_status nacre_model_open_with(nacre_model* model, const void* bytes, size_t size, const nacre_limits* limits);
/* Reads every weight. Checks the segments' checksums, scales, zero points and fixed-point multipliers. Refuses a
   float weight that is NaN; infinity is valid, because a mask may hold it. Returns kSegmentCrc, kNotFinite, kScale,
   kZeroPoint or kMultiplier. kNotBound: the model is not opened. */
nacre_status nacre_model_check_weights(const nacre_model* model);
uint32_t nacre_model_program_count(const nacre_model* model); /* 0: the model is not opened */
/* Takes the weights of a segment from `data` instead of the file: `size` bytes, at a multiple of 64, which stay in
   place. Bind programs again after this call. kIndex: there is no such segment. kMemorySize, kMemoryAlignment: `data`
   does not fit. kNotBound: the model is not opened. A refusal changes nothing. */
nacre_status nacre_model_attach(nacre_model* model, uint32_t segment, const void* data, size_t size);

/* ---- Contents of a model ----
 * Example:
 *   nacre_tensor_info audio = {.size = sizeof audio};
 *   nacre_status status = nacre_model_input(&model, "audio", &audio);
 *   if (status.code == 0 && audio.element == NACRE_INT8)
 *     printf("%d axes, real = %g (code - %d)\n", audio.rank, audio.scale, (int)audio.zero);
 *
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
  uint32_t size;           /* set to sizeof(nacre_tensor_info) before the call */
  uint32_t tensor;         /* id of the tensor */
  uint32_t program, index; /* set for an input or output; 0xFFFFFFFF for other tensors */
  uint8_t element;         /* NACRE_FLOAT32 ... */
  uint8_t rank;            /* number of axes, at most 8 */
  uint8_t batched;         /* dims[0] is the batch: nacre_program_run_rows lowers it */
  uint8_t survives;        /* 1: an input that no run overwrites */
  int32_t dims[8];         /* elements of each axis; 0 beyond the rank */
  uint32_t axis;           /* axis of scales and zeros */
  uint64_t bytes;          /* of the compiled batch */
  const char* name;        /* "" if names were stripped */
  const char* axes;        /* "NHWC", or "" */
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
  uint32_t size;                          /* set to sizeof(nacre_program_info) before the call */
  uint32_t entry;                         /* NACRE_INFER ... */
  uint32_t inputs, outputs, steps, batch; /* how many; batch: rows of the compiled batch */
  uint32_t first_tensor, tensors;         /* ids of the program's own tensors: the first, and how many */
  const char* target;                     /* "host", "x86/avx2" */
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
  uint32_t place; /* since version 4: the index of the port that the step was compiled for (nacre_c_places.h) */
  uint32_t reserved_4;
} nacre_step_info;

/* Since version 4. Roles of an operand. */
#define NACRE_READ 0u
#define NACRE_WRITTEN 1u
#define NACRE_READ_AND_WRITTEN 2u
typedef struct {
  uint32_t size;   /* set to sizeof(nacre_operand_info) before the call */
  uint32_t tensor; /* for nacre_model_tensor and nacre_program_tensor; 0xFFFFFFFF: an optional operand that is absent */
  uint32_t role;   /* NACRE_READ ... */
  uint32_t reserved;
} nacre_operand_info;

/* Finds an input or output by name in the first program that infers. NACRE_NO_NAME: none has this name. kNoEntry: no
   program infers. kNotBound: the model is not opened. */
nacre_status nacre_model_input(const nacre_model* model, const char* name, nacre_tensor_info* info);
nacre_status nacre_model_output(const nacre_model* model, const char* name, nacre_tensor_info* info);
/* Describe an input or output of a program, both counted from 0. NACRE_NO_NAME: there is none. */
nacre_status nacre_model_input_at(const nacre_model* model, uint32_t program, uint32_t index, nacre_tensor_info* info);
nacre_status nacre_model_output_at(const nacre_model* model, uint32_t program, uint32_t index, nacre_tensor_info* info);
uint32_t nacre_model_tensor_count(const nacre_model* model); /* tensors of all programs; ids count from 0 */
/* Describes any tensor by its id. NACRE_NO_NAME: there is none. */
nacre_status nacre_model_tensor(const nacre_model* model, uint32_t tensor, nacre_tensor_info* info);
/* Finds the first program of this entry for `target`; NULL: for any target. kNoEntry: there is none, and *program keeps
   its value. */
nacre_status nacre_model_find(const nacre_model* model, uint32_t entry, const char* target, uint32_t* program);
/* Describe a program, and a step of it, counted from the program's first one. NACRE_NO_NAME: there is none; *info
   keeps its values. */
nacre_status nacre_model_program(const nacre_model* model, uint32_t program, nacre_program_info* info);
nacre_status nacre_model_step(const nacre_model* model, uint32_t program, uint32_t step, nacre_step_info* info);
/* Since version 4. Tells which tensor a step reads or writes. A profiler's function that reads the written tensors
   after each step (nacre_program_tensor) sees all intermediate values. */
nacre_status nacre_model_operand(const nacre_model* model, uint32_t program, uint32_t step, uint32_t operand,
                                 nacre_operand_info* info);
/* Metadata are pairs of key and value; keys are "converter", "labels" and others. NACRE_NO_NAME: there is no such
   index; *key and *value are NULL then. */
uint32_t nacre_model_metadata_count(const nacre_model* model);
nacre_status nacre_model_metadata_at(const nacre_model* model, uint32_t index, const char** key, const char** value);
const char* nacre_model_metadata(const nacre_model* model, const char* key); /* NULL: no such key */
/* Returns the name of class `index`: `length` bytes, without a 0 at the end. NULL: the model does not name this
   class. */
const char* nacre_model_label(const nacre_model* model, uint32_t index, size_t* length);

/* ---- Programs ---- */

/* Checks each step of program number `program` and counts the memory that it needs. kNotBound: the model is not opened.
   kNoEntry: there is no such program. kNoKernel to kOperandMissing, kRole, kOverflow, kBounds, kWork: the step in
   `index` is refused. All sizes are 0 after a refusal. */
nacre_status nacre_program_measure(const nacre_model* model, uint32_t program, const nacre_kernels* kernels,
                                   nacre_sizes* sizes);
/* Binds a program. `memory` starts at a multiple of 16 (kMemoryAlignment) and has sizes.total bytes. With fewer bytes,
   at least sizes.unpacked, no weights are packed; with still fewer it refuses (kMemorySize). The memory must not
   overlap the model's bytes (kMemoryOverlap). Other codes are those of nacre_program_measure. After a refusal, but for
   NACRE_ARGUMENT, `program` is filled too, as one that is not bound. */
nacre_status nacre_program_bind(nacre_program* program, const nacre_model* model, uint32_t index,
                                const nacre_kernels* kernels, void* memory, size_t size);
uint32_t nacre_program_input_count(const nacre_program* program);  /* 0: not bound */
uint32_t nacre_program_output_count(const nacre_program* program); /* 0: not bound */
/* Return the bytes of an input or output in the program's memory, in the type and dims that nacre_tensor_info says. */
void* nacre_program_input(const nacre_program* program, uint32_t index, size_t* size);        /* NULL: no such input */
const void* nacre_program_output(const nacre_program* program, uint32_t index, size_t* size); /* NULL: no such output */
/* Begins a stream: sets the bytes that survive from run to run to zero. Call it before the first run of a network with
   streams, because bind does not. kNotBound is the only refusal.
 *
 * Example:
 *   if (nacre_program_start(&program).code != 0) return 0;
 *   while (next_chunk(nacre_program_input(&program, 0, NULL)) && nacre_program_run(&program).code == 0)
 *     use(nacre_program_output(&program, 0, NULL));
 */
nacre_status nacre_program_start(const nacre_program* program);
/* Runs all steps for the compiled batch. kNotBound: nothing happened. kIndex: an index in the data is out of range in
   the step that `index` names; outputs then hold no results, and streams may have moved on. */
nacre_status nacre_program_run(const nacre_program* program);
/* Runs the first `rows` rows of the compiled batch. kRows: 0, or more than the batch. kRowsUnsupported: a step holds
   for the whole batch alone. Nothing happened then. Else as nacre_program_run. */
nacre_status nacre_program_run_rows(const nacre_program* program, uint32_t rows);

/* The caller's threads, for the functions whose names end in _with. ports/threads/threads_c.h has some. */
typedef struct {
  void* context; /* first argument of run */
  int count;     /* workers, the caller included; at least 1 */
  /* Returns when task(task_context, i, worker) has been called once for each i in [0, tiles), and all calls have
     returned. Calls that run at one time have different numbers `worker`, each in [0, count). */
  void (*run)(void* context, void (*task)(void* task_context, int tile, int worker), void* task_context, int tiles);
  /* Multiply-accumulates below which one worker does all of a step: 200,000 fits threads that spin. A program shares
     nothing unless one step has eight times this, or all steps together have 32 times this. */
  uint64_t least_work;
} nacre_workers;

/* Measure and bind with `count` kernel sets: the first set that has a kernel for a step runs the step. `workers`
   may be NULL: one thread. The sets and `workers` must outlive the program; the array `kernels` need not. Give both
   calls the same sets and workers. Codes are those of nacre_program_measure and nacre_program_bind. */
nacre_status nacre_program_measure_with(const nacre_model* model, uint32_t program, const nacre_kernels* const* kernels,
                                        size_t count, const nacre_workers* workers, nacre_sizes* sizes);
nacre_status nacre_program_bind_with(nacre_program* program, const nacre_model* model, uint32_t index,
                                     const nacre_kernels* const* kernels, size_t count, const nacre_workers* workers,
                                     void* memory, size_t size);
/* Returns the bytes of any tensor of the program, by its id. An intermediate tensor is valid between the first and the
   last step that use it. NULL: there is no such tensor, or it belongs to another program. */
const void* nacre_program_tensor(const nacre_program* program, uint32_t tensor, size_t* size);
uint32_t nacre_program_step_count(const nacre_program* program); /* 0: not bound */
/* Since version 3. Gives what nacre_model_step gives, and the fields `kernel` and `packed`. NACRE_NO_NAME: there
   is no such step, or the program is not bound. */
nacre_status nacre_program_step(const nacre_program* program, uint32_t step, nacre_step_info* info);
/* Runs steps [first, last) alone, with `rows` rows (0: the compiled batch). kRange: the program has no such steps.
   Else as nacre_program_run_rows. */
nacre_status nacre_program_run_steps(const nacre_program* program, uint32_t first, uint32_t last, uint32_t rows);
/* A profiler's function: called before each step (ended 0) and after it (ended 1). */
typedef void (*nacre_step_hook)(void* context, uint32_t step, int ended);
/* Runs all steps with `rows` rows (0: the compiled batch), and calls `hook` on this thread around each, also around a
   step that fails, which is the last. Codes are those of nacre_program_run_rows. */
nacre_status nacre_program_run_hooked(const nacre_program* program, uint32_t rows, nacre_step_hook hook, void* context);

/* Since version 4. Unbinds a program: it has no input and no output, and running it is refused. A program bound to
   places (nacre_c_places.h) must be unbound, or bound again, while its memory is there. */
void nacre_program_unbind(nacre_program* program);

/* Since version 4. The machine that a program is measured for, such as a microcontroller. */
typedef struct {
  uint32_t size;          /* set to sizeof(nacre_machine) */
  uint32_t pointer_bytes; /* 4 or 8 */
  uint32_t workers;       /* threads, at least 1 */
  uint32_t packs;         /* 0: count no packed weights */
} nacre_machine;
/* Counts the bytes of each block on another machine; sizes.total is their sum at multiples of 16. */
nacre_status nacre_program_measure_for(const nacre_model* model, uint32_t program, const nacre_kernels* const* kernels,
                                       size_t count, const nacre_machine* machine, nacre_sizes* sizes);

/* Since version 4. The kernels of a set, with their names. nacre_step_info.kernel is the `kernel` of one of them. */
typedef struct {
  uint32_t size; /* set to sizeof(nacre_kernel_info) before the call */
  uint32_t reserved;
  const char* name;   /* "kDenseF32" */
  const char* op;     /* "dense" */
  const void* kernel; /* NULL: not compiled for this processor */
} nacre_kernel_info;
const char* nacre_kernels_name(const nacre_kernels* kernels); /* "reference", "x86/avx2"; "" for NULL */
/* Describes kernel `index` of the reference kernels, or of the training kernels. NACRE_NO_NAME: there are fewer. */
nacre_status nacre_reference_kernel_at(uint32_t index, nacre_kernel_info* info);
nacre_status nacre_training_kernel_at(uint32_t index, nacre_kernel_info* info);

/* Static programs: bound on a PC and written as C++ by `nacre firmware`, which declares the program in NAME.h. Such a
 * program is not opened, measured or bound: write the inputs, run, read the outputs.
 *
 * Example:
 *   memcpy(nacre_static_input(&kws_program, 0, NULL), samples, sizeof samples);      // #include "kws.h"
 *   if (nacre_static_run(&kws_program) != 0) return 0;
 *   const int8_t* const found = (const int8_t*)nacre_static_output(&kws_program, 0, NULL);
 *   use(found);
 */
typedef struct nacre_static_program nacre_static_program;

/* Return the bytes of an input or output; NAME.h has its type and size. NULL, and *size 0: there is none, or `program`
   is NULL. */
void* nacre_static_input(const nacre_static_program* program, uint32_t index, size_t* size);
const void* nacre_static_output(const nacre_static_program* program, uint32_t index, size_t* size);
void nacre_static_start(const nacre_static_program* program); /* sets bytes that survive from run to run to zero */
/* Runs once. Returns 0, kIndex (an index in the data is out of range) or NACRE_ARGUMENT; nacre_sentence(code) explains
   it. */
uint8_t nacre_static_run(const nacre_static_program* program);
/* Since version 4. */
uint32_t nacre_static_input_count(const nacre_static_program* program);
uint32_t nacre_static_output_count(const nacre_static_program* program);
uint32_t nacre_static_step_count(const nacre_static_program* program);
uint8_t nacre_static_run_steps(const nacre_static_program* program, uint32_t first, uint32_t last); /* [first, last) */
/* Runs with a profiler's function, as nacre_program_run_hooked does. */
uint8_t nacre_static_run_hooked(const nacre_static_program* program, nacre_step_hook hook, void* context);
int nacre_static_intact(const nacre_static_program* program); /* 1: the constants are those that the PC wrote */
/* Pairs of inputs and outputs. `inputs` has the bytes of all inputs of the first pair in order, then of the next pair;
   `outputs` likewise. */
typedef struct {
  uint32_t size; /* set to sizeof(nacre_golden_pairs) */
  uint32_t count;
  const void* inputs;
  const void* outputs;
  uint32_t close; /* 0: outputs have the same bytes; 1: float32 outputs may differ by 1e-5 of the largest */
  uint32_t reserved;
} nacre_golden_pairs;
/* Prints the hash of the model file, and a line for each difference. Returns how many differ; -1: an argument is
   refused. `nacre firmware` writes NAME_self_test, which calls the same test with pairs that the PC computed. */
int nacre_static_self_test(const nacre_static_program* program, const nacre_golden_pairs* pairs,
                           void (*print)(const char* text));

#ifdef __cplusplus
}
#endif

#include "engine/nacre_c_training.h"
/* Version 4 adds these headers. */
#include "engine/nacre_c_numbers.h"
#include "engine/nacre_c_places.h"
#endif
