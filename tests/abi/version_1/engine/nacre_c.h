/* Nacre for C. The same library as nacre.h: open a model's bytes, ask how much memory it needs, bind, run.
 *
 *   nacre_model model; nacre_program program; nacre_sizes sizes = {sizeof sizes};
 *   if (nacre_model_open(&model, bytes, size).code) ...
 *   nacre_program_measure(&model, 0, &model_kernels, &sizes);        // sizes.total bytes, at a multiple of 16
 *   nacre_program_bind(&program, &model, 0, &model_kernels, memory, sizes.total);
 *   write nacre_program_input(&program, 0, &n); nacre_program_run(&program);
 *   read nacre_program_output(&program, 0, &n);
 *
 * Handles hold no pointers to themselves' memory but to the bytes and memory given: keep those, and `model`, in place.
 * Pointers must not be NULL but where it is said that they may. No call allocates. A status with code 0 is success;
 * nacre_sentence(code) says what another one means. */
#ifndef NACRE_C_H
#define NACRE_C_H

#include <stddef.h>
#include <stdint.h>

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

typedef struct {
  uint32_t size; /* set to sizeof(nacre_sizes) before the call: structs of later versions grow at the end */
  uint32_t reserved;
  uint64_t calls, prepared, scratch, state, stream, derived, step; /* bytes */
  uint64_t arena[8];                                               /* bytes per bank */
  uint64_t total;                                                  /* bytes of one block that holds all of them */
  uint64_t work;                                                   /* multiply-accumulates of one run */
} nacre_sizes;

const char* nacre_version(void);          /* of the library, "0.1.0" */
const char* nacre_sentence(uint8_t code); /* "" where sentences are compiled away */
const nacre_kernels* nacre_reference_kernels(void);

/* `bytes` at a multiple of 16; any content: a model or one refusal. */
nacre_status nacre_model_open(nacre_model* model, const void* bytes, size_t size);
/* Reads every weight: checksums, and that none is NaN or infinite. */
nacre_status nacre_model_check_weights(const nacre_model* model);
uint32_t nacre_model_program_count(const nacre_model* model);

nacre_status nacre_program_measure(const nacre_model* model, uint32_t program, const nacre_kernels* kernels,
                                   nacre_sizes* sizes);
/* `memory` at a multiple of 16, at least sizes.total bytes. */
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

/* Static programs: bound on a PC and written as C++ by `nacre firmware`, which declares one in NAME.h. Nothing is
 * opened, measured or bound: write the inputs, run, read the outputs. */
typedef struct nacre_static_program nacre_static_program;

void* nacre_static_input(const nacre_static_program* program, uint32_t index, size_t* size); /* NULL: no such input */
const void* nacre_static_output(const nacre_static_program* program, uint32_t index, size_t* size);
void nacre_static_start(const nacre_static_program* program);  /* what survives from run to run becomes zero */
uint8_t nacre_static_run(const nacre_static_program* program); /* 0, or a code: nacre_sentence says what it means */

/* ---- Training: engine/train/trainer.h, checkpoint.h ----
 *
 *   const nacre_kernels* sets[] = {nacre_reference_kernels(), nacre_training_kernels()};
 *   nacre_trainer_measure(&model, "host", sets, 2, &sizes);
 *   nacre_trainer_bind(&trainer, &model, "host", sets, 2, memory, sizes.total);
 *   nacre_trainer_start(&trainer);
 *   // any number of micro-batches
 *   write nacre_trainer_input(&trainer, 0, &n), ..; nacre_trainer_accumulate(&trainer, 0);
 *   nacre_report report = {sizeof report}; nacre_trainer_commit(&trainer, learning_rate, &report);
 *   nacre_checkpoint_save(&model, &trainer, &storage, 0, NULL, 0); */
typedef struct {
  uint32_t size;              /* set to sizeof(nacre_report) before the call */
  uint32_t applied;           /* 0: refused; the state is what it was but for the loss scale and its counters */
  uint32_t overflow_at_floor; /* refused at the lowest loss scale */
  uint32_t refused_in_row;    /* this one included */
  float loss, norm;           /* mean over the samples; 2-norm of the mean gradient before clipping, 0 of integers */
  float loss_scale, samples;
} nacre_report;

/* A flash, a file, or anything else that keeps bytes. Functions return 0 where they failed. */
typedef struct {
  uint32_t size;          /* set to sizeof(nacre_storage) */
  uint32_t program_bytes; /* programmed at once, and once only between two erases: a power of two, at most 256 */
  uint32_t erase_bytes;   /* erased at once: a power of two, at least program_bytes */
  uint32_t reserved;
  uint64_t bytes; /* of the storage; two slots share it */
  void* context;
  int (*read)(void* context, uint64_t offset, void* to, size_t size);
  int (*program)(void* context, uint64_t offset, const void* from, size_t size);
  int (*erase)(void* context, uint64_t offset); /* erase_bytes, all 0xFF afterwards */
  int (*flush)(void* context);                  /* NULL: what was programmed survives a loss of power at once */
} nacre_storage;

typedef struct {
  uint32_t size; /* set to sizeof(nacre_checkpoint_report) before the call */
  uint32_t slot, generation;
  uint32_t pending;     /* neither confirmed nor reverted */
  uint32_t same_layout; /* the whole block was copied */
  uint32_t taken, kept; /* tensors with the checkpoint's values; tensors that keep what they had */
  uint32_t note_bytes;  /* of the note that was saved */
  uint32_t same_model;  /* it was saved with this very model file, as its hash tells */
} nacre_checkpoint_report;

const nacre_kernels* nacre_training_kernels(void);

/* `target`: the name that the programs were compiled for; NULL: that of the first `update`. */
nacre_status nacre_trainer_measure(const nacre_model* model, const char* target, const nacre_kernels* const* kernels,
                                   size_t count, nacre_sizes* sizes);
/* `memory` at a multiple of 16, at least sizes.total bytes. */
nacre_status nacre_trainer_bind(nacre_trainer* trainer, const nacre_model* model, const char* target,
                                const nacre_kernels* const* kernels, size_t count, void* memory, size_t size);
nacre_status nacre_trainer_start(nacre_trainer* trainer);    /* the state becomes the model's initial values */
nacre_status nacre_trainer_restored(nacre_trainer* trainer); /* the state was written from outside */
uint32_t nacre_trainer_input_count(const nacre_trainer* trainer);
uint32_t nacre_trainer_output_count(const nacre_trainer* trainer);
void* nacre_trainer_input(const nacre_trainer* trainer, uint32_t index, size_t* size);        /* NULL: no such input */
const void* nacre_trainer_output(const nacre_trainer* trainer, uint32_t index, size_t* size); /* NULL: no such output */
nacre_status nacre_trainer_accumulate(nacre_trainer* trainer, uint32_t rows); /* 0: the compiled batch */
nacre_status nacre_trainer_commit(nacre_trainer* trainer, float learning_rate,
                                  nacre_report* report); /* `report` may be NULL */
void nacre_trainer_discard(nacre_trainer* trainer);      /* forgets what was accumulated */
/* The program `infer` over the same state: run it with nacre_program_*, as long as `trainer` stays in place. Where the
   model has none, running it is refused. It shares memory with the inputs: with --update immediate not between
   accumulate and commit. */
const nacre_program* nacre_trainer_infer(const nacre_trainer* trainer);
/* NULL and 0 before start, and where a device does not give it back. */
void* nacre_trainer_state(const nacre_trainer* trainer, size_t* size);

/* Bytes that a storage with these granules must have. */
nacre_status nacre_checkpoint_measure(const nacre_model* model, const nacre_storage* storage, uint32_t note_bytes,
                                      uint64_t* bytes);
/* `pending` not 0: a trial, until confirmed or reverted. `note`: the caller's own bytes, or NULL. */
nacre_status nacre_checkpoint_save(const nacre_model* model, const nacre_trainer* trainer, const nacre_storage* storage,
                                   int pending, const void* note, size_t note_bytes);
/* Loads the newest whole checkpoint and derives what depends on it. Call nacre_trainer_start first: of a checkpoint of
   another layout, tensors that it lacks keep what they have. Where it is refused, training goes on as it was; after
   kStorageFailed call nacre_trainer_start or load again. `report` and `note` may be NULL. */
nacre_status nacre_checkpoint_load(const nacre_model* model, nacre_trainer* trainer, const nacre_storage* storage,
                                   nacre_checkpoint_report* report, void* note, size_t note_bytes);
nacre_status nacre_checkpoint_look(const nacre_storage* storage,
                                   nacre_checkpoint_report* report); /* what load would take; `report` may be NULL */
nacre_status nacre_checkpoint_confirm(const nacre_storage* storage);
nacre_status nacre_checkpoint_revert(const nacre_storage* storage);

/* ---- Another model in the field: engine/model/model_slots.h ----
 * Two places for a model file in a storage, which may lose its power at any moment.
 *   nacre_model_slots slots; nacre_model_slots_make(&slots, &storage);
 *   nacre_slot found = {sizeof found}; nacre_model_slots_find(&slots, &found, NULL);     // open it where it lies
 *   nacre_model_slots_begin(&slots, found.slot, bytes); nacre_model_slots_write(&slots, part, size) ..;
 *   nacre_model_slots_finish(&slots);                                                    // from now on it is found */
#define NACRE_NO_SLOT 2u
typedef struct {
  uint32_t size; /* set to sizeof(nacre_slot) before the call */
  uint32_t slot; /* 0, 1 or NACRE_NO_SLOT */
  uint32_t sequence, reserved;
  uint64_t offset, bytes; /* of the file in the storage */
} nacre_slot;

void nacre_model_slots_make(nacre_model_slots* slots, const nacre_storage* storage); /* which outlives it */
/* The newest slot whose file is whole, but that of `other`, which may be NULL. */
nacre_status nacre_model_slots_find(const nacre_model_slots* slots, nacre_slot* found, const nacre_slot* other);
/* Erases the slot beside `keep`. */
nacre_status nacre_model_slots_begin(nacre_model_slots* slots, uint32_t keep, uint64_t bytes);
uint64_t nacre_model_slots_offset(const nacre_model_slots* slots); /* of the file that is written */
nacre_status nacre_model_slots_write(nacre_model_slots* slots, const void* part, size_t size);
nacre_status nacre_model_slots_finish(nacre_model_slots* slots);

/* ---- Training of static programs: engine/train/static_trainer.h ----
 * `nacre firmware --train` declares NAME_training in NAME.h, and NAME_program, which infers over the same state. Where
 * a function gives a code, 0 is success, and nacre_sentence says what another one means. Checkpoints are those of the
 * model file: nacre_checkpoint_look, _confirm and _revert are the same, and either form loads what the other saved. */
typedef struct nacre_static_training nacre_static_training;

/* Where `trainer` was made before, what it had accumulated is forgotten: nacre_static_trainer_start comes next. */
void nacre_static_trainer_make(nacre_static_trainer* trainer, const nacre_static_training* training);
uint8_t nacre_static_trainer_start(nacre_static_trainer* trainer);
uint8_t nacre_static_trainer_restored(nacre_static_trainer* trainer);
uint32_t nacre_static_trainer_input_count(const nacre_static_trainer* trainer);
uint32_t nacre_static_trainer_output_count(const nacre_static_trainer* trainer);
void* nacre_static_trainer_input(const nacre_static_trainer* trainer, uint32_t index, size_t* size);
const void* nacre_static_trainer_output(const nacre_static_trainer* trainer, uint32_t index, size_t* size);
uint8_t nacre_static_trainer_accumulate(nacre_static_trainer* trainer); /* a micro-batch of the compiled size */
uint8_t nacre_static_trainer_commit(nacre_static_trainer* trainer, float learning_rate, nacre_report* report);
void nacre_static_trainer_discard(nacre_static_trainer* trainer);
void* nacre_static_trainer_state(const nacre_static_trainer* trainer, size_t* size);

nacre_status nacre_static_checkpoint_measure(const nacre_static_trainer* trainer, const nacre_storage* storage,
                                             uint32_t note_bytes, uint64_t* bytes);
nacre_status nacre_static_checkpoint_save(const nacre_static_trainer* trainer, const nacre_storage* storage,
                                          int pending, const void* note, size_t note_bytes);
nacre_status nacre_static_checkpoint_load(nacre_static_trainer* trainer, const nacre_storage* storage,
                                          nacre_checkpoint_report* report, void* note, size_t note_bytes);

#ifdef __cplusplus
}
#endif
#endif
