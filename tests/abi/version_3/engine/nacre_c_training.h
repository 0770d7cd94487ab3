/* Nacre for C: training, checkpoints, and replacing a model in the field. nacre_c.h includes this header. */
#ifndef NACRE_C_TRAINING_H
#define NACRE_C_TRAINING_H

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

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
  uint32_t applied;           /* 0: refused; only the loss scale and its counters changed in the state */
  uint32_t overflow_at_floor; /* 1: refused at the lowest loss scale */
  uint32_t refused_in_row;    /* refused steps in a row, with this step */
  float loss, norm;           /* mean over the samples; 2-norm of the mean gradient before clipping, 0 in int8/full */
  float loss_scale, samples;
} nacre_report;

/* A flash, a file, or anything else that keeps bytes. read, program, erase and flush return 0 if they failed. */
typedef struct {
  uint32_t size;          /* set to sizeof(nacre_storage) */
  uint32_t program_bytes; /* programmed at once, and once only between two erases: a power of two, at most 256 */
  uint32_t erase_bytes;   /* erased at once: a power of two, at least program_bytes */
  uint32_t reserved;
  uint64_t bytes; /* size of the storage; each of two slots has half */
  void* context;
  int (*read)(void* context, uint64_t offset, void* to, size_t size);
  int (*program)(void* context, uint64_t offset, const void* from, size_t size);
  int (*erase)(void* context, uint64_t offset); /* erase_bytes, all 0xFF afterwards */
  int (*flush)(void* context);                  /* NULL: programmed bytes survive a loss of power at once */
  /* Since version 2. Returns where the last byte that was programmed since the erase of the slot at `offset` ends,
     counted from the start of the slot. For a storage that offers more bytes than it holds, such as files. NULL: a
     whole slot. */
  uint64_t (*filled)(void* context, uint64_t offset);
} nacre_storage;

typedef struct {
  uint32_t size; /* set to sizeof(nacre_checkpoint_report) before the call */
  uint32_t slot, generation;
  uint32_t pending;     /* neither confirmed nor reverted */
  uint32_t same_layout; /* 1: equal layouts, the whole block was copied */
  uint32_t taken, kept; /* tensors that took the checkpoint's values; tensors that kept their own */
  uint32_t note_bytes;  /* size of the note that was saved */
  uint32_t same_model;  /* 1: saved with a model file of the same hash */
} nacre_checkpoint_report;

const nacre_kernels* nacre_training_kernels(void);

/* `target`: the target that the programs were compiled for; NULL: the target of the first program `update`. */
nacre_status nacre_trainer_measure(const nacre_model* model, const char* target, const nacre_kernels* const* kernels,
                                   size_t count, nacre_sizes* sizes);
/* `memory` starts at a multiple of 16 and has sizes.total bytes. With fewer bytes, at least sizes.unpacked, no
   weights are packed. */
nacre_status nacre_trainer_bind(nacre_trainer* trainer, const nacre_model* model, const char* target,
                                const nacre_kernels* const* kernels, size_t count, void* memory, size_t size);
/* Do as nacre_trainer_measure and nacre_trainer_bind, with the caller's threads. `workers` may be NULL: one
   thread. */
nacre_status nacre_trainer_measure_with(const nacre_model* model, const char* target,
                                        const nacre_kernels* const* kernels, size_t count, const nacre_workers* workers,
                                        nacre_sizes* sizes);
nacre_status nacre_trainer_bind_with(nacre_trainer* trainer, const nacre_model* model, const char* target,
                                     const nacre_kernels* const* kernels, size_t count, const nacre_workers* workers,
                                     void* memory, size_t size);
nacre_status nacre_trainer_start(nacre_trainer* trainer);    /* sets the state to the model's initial values */
nacre_status nacre_trainer_restored(nacre_trainer* trainer); /* call it after writing the state */
uint32_t nacre_trainer_input_count(const nacre_trainer* trainer);
uint32_t nacre_trainer_output_count(const nacre_trainer* trainer);
void* nacre_trainer_input(const nacre_trainer* trainer, uint32_t index, size_t* size);        /* NULL: no such input */
const void* nacre_trainer_output(const nacre_trainer* trainer, uint32_t index, size_t* size); /* NULL: no such output */
nacre_status nacre_trainer_accumulate(nacre_trainer* trainer, uint32_t rows); /* 0: the compiled batch */
nacre_status nacre_trainer_commit(nacre_trainer* trainer, float learning_rate,
                                  nacre_report* report); /* `report` may be NULL */
void nacre_trainer_discard(nacre_trainer* trainer);      /* discards what was accumulated */
/* Returns the program `infer` over the same state. Run it with nacre_program_*, as long as `trainer` stays in
   place. If the model has no such program, running it is refused. It overwrites the inputs of a micro-batch: with
   --update immediate do not run it between accumulate and commit. */
const nacre_program* nacre_trainer_infer(const nacre_trainer* trainer);
/* For steps whose micro-batches run on several machines (engine/train/step_sums.h), between accumulate and commit.
   Returns the step block: gradients, loss and everything else that a step adds up. NULL and 0: there is no block
   now. Machine m calls nacre_trainer_begin_at(trainer, m), accumulates, and sends its block to the other machines.
   It joins the blocks of all machines in the order of the micro-batches (nacre_gradients_join) and copies the
   result to its own block. It then calls nacre_trainer_merged with the number of micro-batches, and commits. Every
   machine then has the same state. */
void* nacre_trainer_gradients(nacre_trainer* trainer, size_t* size);
typedef struct {
  uint64_t first, bytes; /* a stretch of the block whose numbers join in one way; 0 bytes: no run has this index */
  uint32_t kind;         /* 0 float32 and 1 float64, added; 2 int32, added and saturated; 3 uint32, the larger */
  uint32_t reserved;
  uint64_t float32_first, float32_bytes; /* the gradients of parameters, if these are float32 */
} nacre_gradient_run;
/* Writes run `index` and returns how many runs there are. */
uint32_t nacre_gradient_run_at(const nacre_model* model, uint32_t index, nacre_gradient_run* run);
float nacre_trainer_loss_scale(const nacre_model* model,
                               const nacre_trainer* trainer);                      /* scale of the next gradients */
void nacre_model_hash(const nacre_model* model, uint8_t hash[16]);                 /* of the file after its header */
nacre_status nacre_trainer_begin_at(nacre_trainer* trainer, uint32_t micro_batch); /* discards what was accumulated */
nacre_status nacre_gradients_join(const nacre_model* model, void* into, const void* from, size_t size);
nacre_status nacre_trainer_merged(nacre_trainer* trainer, uint32_t micro_batches);
/* Accumulates on one machine to the same bytes: sums the micro-batch from zero, then adds the sums to the block.
   `keep`: memory of as many bytes as the block. */
nacre_status nacre_trainer_accumulate_apart(nacre_trainer* trainer, void* keep, size_t size, uint32_t rows);
/* Returns the state block. NULL and 0: the trainer is not started, or a device cannot copy the state back. */
void* nacre_trainer_state(const nacre_trainer* trainer, size_t* size);

/* Trained parameters, in the state block: federated training sends these (docs/many_machines.md). `info` receives
   name, element, dims and bytes. *values points at info->bytes bytes of the state: read them, or write them and
   call nacre_trainer_restored after the last parameter. *values becomes NULL before start, and if a device cannot
   copy the state back. `info` or `values` may be NULL. NACRE_NO_NAME: there is no such parameter; nothing is
   written. */
uint32_t nacre_parameter_count(const nacre_model* model);
nacre_status nacre_trainer_parameter_at(const nacre_model* model, const nacre_trainer* trainer, uint32_t index,
                                        nacre_tensor_info* info, void** values);
nacre_status nacre_trainer_parameter(const nacre_model* model, const nacre_trainer* trainer, const char* name,
                                     nacre_tensor_info* info, void** values);

/* Learning rates by step, for nacre_trainer_commit. engine/numeric/schedule.h has the formulas. */
#define NACRE_CONSTANT 0u
#define NACRE_STEP 1u
#define NACRE_COSINE 2u
#define NACRE_LINEAR 3u
#define NACRE_ONE_CYCLE 4u
typedef struct {
  uint32_t size;         /* set to sizeof(nacre_schedule) */
  uint32_t kind;         /* NACRE_CONSTANT ... */
  float rate;            /* the highest */
  uint32_t steps;        /* steps of the schedule; NACRE_STEP: steps from one factor to the next */
  float gamma;           /* NACRE_STEP: the factor */
  float end;             /* share of `rate` at the end */
  uint32_t warmup_steps; /* steps in which the rate goes from rate * warmup_start to rate */
  float warmup_start;
  float pct; /* NACRE_ONE_CYCLE: the share of the steps that rise */
} nacre_schedule;
/* Computes the learning rate of a step. NACRE_ARGUMENT: a field is out of its range. */
nacre_status nacre_schedule_rate(const nacre_schedule* schedule, uint32_t step, float* rate);

/* Computes the bytes that a storage with these granules must have. */
nacre_status nacre_checkpoint_measure(const nacre_model* model, const nacre_storage* storage, uint32_t note_bytes,
                                      uint64_t* bytes);
/* `pending` not 0: the checkpoint is on trial until it is confirmed or reverted. `note`: the caller's own bytes,
   or NULL. */
nacre_status nacre_checkpoint_save(const nacre_model* model, const nacre_trainer* trainer, const nacre_storage* storage,
                                   int pending, const void* note, size_t note_bytes);
/* Loads the newest whole checkpoint and derives the values that depend on the state. Call nacre_trainer_start
   first: if the checkpoint has another layout, tensors that it lacks keep their values. If the load is refused,
   training goes on as before. After kStorageFailed call nacre_trainer_start or load again. `report` and `note` may
   be NULL. */
nacre_status nacre_checkpoint_load(const nacre_model* model, nacre_trainer* trainer, const nacre_storage* storage,
                                   nacre_checkpoint_report* report, void* note, size_t note_bytes);
nacre_status nacre_checkpoint_look(const nacre_storage* storage,
                                   nacre_checkpoint_report* report); /* the checkpoint for load; `report` may be NULL */
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
  uint64_t offset, bytes; /* offset and size of the file in the storage */
} nacre_slot;

void nacre_model_slots_make(nacre_model_slots* slots, const nacre_storage* storage); /* `storage` outlives `slots` */
/* Finds the newest slot whose file is whole, other than the slot `other`, which may be NULL. */
nacre_status nacre_model_slots_find(const nacre_model_slots* slots, nacre_slot* found, const nacre_slot* other);
/* Erases the slot that is not `keep`, for a file of `bytes` bytes. */
nacre_status nacre_model_slots_begin(nacre_model_slots* slots, uint32_t keep, uint64_t bytes);
uint64_t nacre_model_slots_offset(const nacre_model_slots* slots); /* offset of the file that is being written */
nacre_status nacre_model_slots_write(nacre_model_slots* slots, const void* part, size_t size);
nacre_status nacre_model_slots_finish(nacre_model_slots* slots);

/* ---- Training of static programs: engine/train/static_trainer.h ----
 * `nacre firmware --train` declares NAME_training in NAME.h, and NAME_program, which infers over the same state. If a
 * function returns a code, 0 is success; nacre_sentence(code) says what another code means. Checkpoints are the same
 * as those of the model file: nacre_trainer and nacre_static_trainer load what the other saved.
 * nacre_checkpoint_look, nacre_checkpoint_confirm and nacre_checkpoint_revert serve both. */
typedef struct nacre_static_training nacre_static_training;

/* Makes a trainer. If `trainer` was made before, it discards what it had accumulated. Call
   nacre_static_trainer_start next. */
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
