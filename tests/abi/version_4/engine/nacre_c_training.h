/* Nacre for C: training, checkpoints, and replacing a model in the field. nacre_c.h includes this header. */
#ifndef NACRE_C_TRAINING_H
#define NACRE_C_TRAINING_H

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Training: engine/train/trainer.h, checkpoint.h, which say more about each function ----
 *
 * Example:
 *   const nacre_kernels* sets[] = {nacre_reference_kernels(), nacre_training_kernels()};
 *   nacre_report report = {.size = sizeof report};
 *   if (nacre_trainer_measure(&model, "host", sets, 2, &sizes).code != 0 || sizes.total > memory_size) return 0;
 *   if (nacre_trainer_bind(&trainer, &model, "host", sets, 2, memory, memory_size).code != 0) return 0;
 *   if (nacre_trainer_start(&trainer).code != 0) return 0;
 *   if (nacre_checkpoint_load(&model, &trainer, &storage, NULL, NULL, 0).code == 0) puts("goes on");
 *   while (next_batch(nacre_trainer_input(&trainer, 0, NULL), nacre_trainer_input(&trainer, 1, NULL))) {
 *     if (nacre_trainer_accumulate(&trainer, 0).code != 0) return 0;       // any number of micro-batches
 *     if (nacre_trainer_commit(&trainer, 0.01f, &report).code != 0) return 0;
 *     if (!report.applied) puts("refused: the parameters are as they were");
 *   }
 *   return nacre_checkpoint_save(&model, &trainer, &storage, 0, NULL, 0).code == 0;
 */
typedef struct {
  uint32_t size;              /* set to sizeof(nacre_report) before the call */
  uint32_t applied;           /* 0: refused; only the loss scale and its counters changed in the state */
  uint32_t overflow_at_floor; /* 1: refused at the lowest loss scale */
  uint32_t refused_in_row;    /* refused steps in a row, with this step */
  float loss, norm;           /* mean over the samples; 2-norm of the mean gradient before clipping, 0 in int8/full */
  float loss_scale, samples;  /* the gradients were made with this scale; samples that the loss counts */
} nacre_report;

/* A flash, a file, or anything else that keeps bytes. read, program, erase and flush return 0 if they failed. They run
   on the thread of the call that uses the storage; offsets count from its start, in bytes. read and program get any
   addresses. engine/base/storage.h says more. ports/files/files_c.h fills one for a directory. */
typedef struct {
  uint32_t size;          /* set to sizeof(nacre_storage) */
  uint32_t program_bytes; /* programmed at once, and once only between two erases: a power of two, at most 256 */
  uint32_t erase_bytes;   /* erased at once: a power of two, at least program_bytes */
  uint32_t reserved;
  uint64_t bytes; /* size of the storage; each of two slots has half */
  void* context;  /* first argument of each function */
  int (*read)(void* context, uint64_t offset, void* to, size_t size);
  int (*program)(void* context, uint64_t offset, const void* from, size_t size);
  int (*erase)(void* context, uint64_t offset); /* erase_bytes, all 0xFF afterwards */
  int (*flush)(void* context);                  /* NULL: programmed bytes survive a loss of power at once */
  /* Since version 2. Returns where the last byte that was programmed since the erase of the slot at `offset` ends,
     counted from the start of the slot. For a storage that offers more bytes than it holds, such as files. NULL: a
     whole slot. */
  uint64_t (*filled)(void* context, uint64_t offset);
} nacre_storage;

/* Facts about the checkpoint that a load took. */
typedef struct {
  uint32_t size;             /* set to sizeof(nacre_checkpoint_report) before the call */
  uint32_t slot, generation; /* 0 or 1; counts saves, and wraps */
  uint32_t pending;          /* neither confirmed nor reverted */
  uint32_t same_layout;      /* 1: equal layouts, the whole block was copied */
  uint32_t taken, kept;      /* tensors that took the checkpoint's values; tensors that kept their own */
  uint32_t note_bytes;       /* size of the note that was saved */
  uint32_t same_model;       /* 1: saved with a model file of the same hash */
} nacre_checkpoint_report;

/* Returns the kernels that only training runs; a trainer needs nacre_reference_kernels() beside them. */
const nacre_kernels* nacre_training_kernels(void);

/* Checks all programs of a target and counts the memory that they need together. `target`: the target that the programs
   were compiled for; NULL: the target of the first program `update`. `kernels`: `count` sets, as of
   nacre_program_measure_with. kNotBound: the model is not opened. kNoEntry: it has no `update` for the target.
   kTrainingProgram: `update` is no training program. Else as nacre_program_measure. */
nacre_status nacre_trainer_measure(const nacre_model* model, const char* target, const nacre_kernels* const* kernels,
                                   size_t count, nacre_sizes* sizes);
/* Binds all programs; nacre_trainer_start comes next. `memory` starts at a multiple of 16 (kMemoryAlignment) and has
   sizes.total bytes. With fewer bytes, at least sizes.unpacked, no weights are packed; with still fewer it refuses
   (kMemorySize). kMemoryOverlap: it overlaps the model's bytes. Else as nacre_trainer_measure. After a refusal, but for
   NACRE_ARGUMENT, `trainer` is filled too, as one that is not bound. */
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
/* Sets the state to the model's initial values. Call it before any other function below, or to begin again. kNotBound:
   the trainer is not bound. */
nacre_status nacre_trainer_start(nacre_trainer* trainer);
/* Call it after writing the state: derives the values that depend on it, discards what was accumulated, and zeros the
   streams. kNotBound: the trainer is not bound. */
nacre_status nacre_trainer_restored(nacre_trainer* trainer);
/* Inputs of a micro-batch are data, then labels; write all of them before every accumulate. Outputs are the network's,
   valid until an input is written or another call runs. The counts are 0 if the trainer is not bound. */
uint32_t nacre_trainer_input_count(const nacre_trainer* trainer);
uint32_t nacre_trainer_output_count(const nacre_trainer* trainer);
void* nacre_trainer_input(const nacre_trainer* trainer, uint32_t index, size_t* size);        /* NULL: no such input */
const void* nacre_trainer_output(const nacre_trainer* trainer, uint32_t index, size_t* size); /* NULL: no such output */
/* Adds the gradients of the first `rows` rows; 0: the compiled batch. kIndex: a label is out of range, and all that was
   accumulated is discarded. kRows, kRowsUnsupported, kNotBound (not started), kOneMicroBatch (--update immediate):
   nothing happened. */
nacre_status nacre_trainer_accumulate(nacre_trainer* trainer, uint32_t rows);
/* Makes one training step with the accumulated gradients. kNothingAccumulated, kLearningRate (negative or not finite),
   kNotBound (not started): nothing happened. If the verdict refuses the step, because a number is not finite, the code
   is 0 and report->applied is 0. `report` may be NULL; it is only written if the code is 0. */
nacre_status nacre_trainer_commit(nacre_trainer* trainer, float learning_rate, nacre_report* report);
void nacre_trainer_discard(nacre_trainer* trainer); /* discards what was accumulated; the state does not change */
/* Since version 4. Accumulates one micro-batch and commits. If a device runs all steps and keeps its memory, this is
   one run with one wait, and the network's outputs are not available afterwards. */
nacre_status nacre_trainer_step(nacre_trainer* trainer, float learning_rate, uint32_t rows, nacre_report* report);
uint32_t nacre_trainer_micro_batches(const nacre_trainer* trainer); /* accumulated since the last commit */
int nacre_trainer_immediate(const nacre_trainer* trainer);          /* 1: each commit takes one micro-batch */
/* Counts the bytes of each block on another machine; sizes.total is their sum at multiples of 16. */
nacre_status nacre_trainer_measure_for(const nacre_model* model, const char* target,
                                       const nacre_kernels* const* kernels, size_t count, const nacre_machine* machine,
                                       nacre_sizes* sizes);
/* Returns the program `infer` over the same state. Run it with nacre_program_*, as long as `trainer` stays in
   place. If the model has no such program, running it is refused (kNotBound). It overwrites the inputs of a
   micro-batch: with --update immediate do not run it between accumulate and commit. */
const nacre_program* nacre_trainer_infer(const nacre_trainer* trainer);
/* For steps whose micro-batches run on several machines (engine/train/step_sums.h), between accumulate and commit.
   Returns the step block: gradients, loss and everything else that a step adds up. NULL and 0: there is no block
   now. Machine m calls nacre_trainer_begin_at(trainer, m), accumulates, and sends its block to the other machines.
   It joins the blocks of all machines in the order of the micro-batches (nacre_gradients_join) and copies the
   result to its own block. It then calls nacre_trainer_merged with the number of micro-batches, and commits. Every
   machine then has the same state.
 *
 * Example:
 *   size_t n = 0;
 *   if (nacre_trainer_begin_at(&trainer, mine).code != 0 || nacre_trainer_accumulate(&trainer, 0).code != 0) return 0;
 *   void* const sums = nacre_trainer_gradients(&trainer, &n);
 *   send_to_all(sums, n);                                              // the caller's transport; `all` holds block 0
 *   for (uint32_t m = 1; m < count; ++m)
 *     if (nacre_gradients_join(&model, all, block_of(m), n).code != 0) return 0;
 *   memcpy(sums, all, n);
 *   if (nacre_trainer_merged(&trainer, count).code != 0) return 0;
 *   return nacre_trainer_commit(&trainer, 0.01f, NULL).code == 0;
 */
void* nacre_trainer_gradients(nacre_trainer* trainer, size_t* size);
typedef struct {
  uint64_t first, bytes; /* a stretch of the block whose numbers join in one way; 0 bytes: no run has this index */
  uint32_t kind;         /* 0 float32 and 1 float64, added; 2 int32, added and saturated; 3 uint32, the larger */
  uint32_t reserved;
  uint64_t float32_first, float32_bytes; /* the gradients of parameters, if these are float32 */
} nacre_gradient_run;
/* Writes run `index` and returns how many runs there are. Offsets count from the start of the step block. */
uint32_t nacre_gradient_run_at(const nacre_model* model, uint32_t index, nacre_gradient_run* run);
/* Returns the scale of the next gradients; 1 if gradients are integers or the trainer is not started; 0 for NULL. */
float nacre_trainer_loss_scale(const nacre_model* model, const nacre_trainer* trainer);
/* Writes the first 16 bytes of the SHA-256 of the file after its header; zeros if the model is not opened. */
void nacre_model_hash(const nacre_model* model, uint8_t hash[16]);
/* Discards what was accumulated: the next accumulate takes micro-batch `micro_batch` of the step, from 0, and draws its
   random numbers. kNotBound: not started. kOneMicroBatch: --update immediate, and it is not 0. kRegion: it is not 0,
   and `gradients` writes state or streams. */
nacre_status nacre_trainer_begin_at(nacre_trainer* trainer, uint32_t micro_batch);
/* Adds step blocks of `size` bytes each, number by number: into = into + from. kMemorySize: the model's step block has
   more bytes. */
nacre_status nacre_gradients_join(const nacre_model* model, void* into, const void* from, size_t size);
/* Says that the step block, after it was written, holds the sums of so many micro-batches. kNothingAccumulated: 0
   micro-batches, or there is no block. */
nacre_status nacre_trainer_merged(nacre_trainer* trainer, uint32_t micro_batches);
/* Accumulates on one machine to the same bytes: sums the micro-batch from zero, then adds the sums to the block.
   `keep`: memory of `size` bytes, at least as many as the block (kMemorySize), which it overwrites. Else as
   nacre_trainer_begin_at and nacre_trainer_accumulate; after kRows and kRowsUnsupported the sums are as they were. */
nacre_status nacre_trainer_accumulate_apart(nacre_trainer* trainer, void* keep, size_t size, uint32_t rows);
/* Returns the state block. NULL and 0: the trainer is not started, or a device cannot copy the state back. */
void* nacre_trainer_state(const nacre_trainer* trainer, size_t* size);

/* Trained parameters, in the state block: federated training sends these (docs/many_machines.md). `info` receives
   name, element, dims and bytes. *values points at info->bytes bytes of the state: read them, or write them and
   call nacre_trainer_restored after the last parameter. *values becomes NULL before start, and if a device cannot
   copy the state back. `info` or `values` may be NULL. NACRE_NO_NAME: there is no such parameter; nothing is
   written.
 *
 * Example:
 *   nacre_tensor_info info = {.size = sizeof info};
 *   void* values = NULL;
 *   for (uint32_t i = 0; i < nacre_parameter_count(&model); ++i)
 *     if (nacre_trainer_parameter_at(&model, &trainer, i, &info, &values).code == 0 && values != NULL)
 *       printf("%s: %u bytes\n", info.name, (unsigned)info.bytes);
 */
uint32_t nacre_parameter_count(const nacre_model* model);
nacre_status nacre_trainer_parameter_at(const nacre_model* model, const nacre_trainer* trainer, uint32_t index,
                                        nacre_tensor_info* info, void** values);
nacre_status nacre_trainer_parameter(const nacre_model* model, const nacre_trainer* trainer, const char* name,
                                     nacre_tensor_info* info, void** values);

/* Learning rates by step, for nacre_trainer_commit. engine/numeric/schedule.h has the formulas.
 *
 * Example:
 *   const nacre_schedule schedule = {.size = sizeof schedule, .kind = NACRE_COSINE, .rate = 0.1f, .steps = 1000};
 *   float rate = 0;
 *   if (nacre_schedule_rate(&schedule, steps_done, &rate).code != 0) return 0;   // steps_done: updates applied so far
 *   return nacre_trainer_commit(&trainer, rate, NULL).code == 0;
 */
#define NACRE_CONSTANT 0u
#define NACRE_STEP 1u
#define NACRE_COSINE 2u
#define NACRE_LINEAR 3u
#define NACRE_ONE_CYCLE 4u
typedef struct {
  uint32_t size;         /* set to sizeof(nacre_schedule) */
  uint32_t kind;         /* NACRE_CONSTANT ... */
  float rate;            /* the highest, 0 to 1e30 */
  uint32_t steps;        /* steps of the schedule, at least 1; NACRE_STEP: steps from one factor to the next */
  float gamma;           /* NACRE_STEP: the factor, 0 to 1 */
  float end;             /* 0 to 1: share of `rate` at the end; NACRE_ONE_CYCLE: of rate * warmup_start */
  uint32_t warmup_steps; /* steps in which the rate goes from rate * warmup_start to rate; NACRE_ONE_CYCLE: 0 */
  float warmup_start;    /* 0 to 1: share of `rate` at step 0 of a warm-up or NACRE_ONE_CYCLE */
  float pct;             /* NACRE_ONE_CYCLE: the share of the steps that rise, over 1 / steps and under 1 */
} nacre_schedule;
/* Computes the learning rate of a step, counted from 0. NACRE_ARGUMENT: a field is out of its range; *rate keeps its
   value. All kinds are held to the ranges of gamma, end and warmup_start. */
nacre_status nacre_schedule_rate(const nacre_schedule* schedule, uint32_t step, float* rate);

/* Checkpoints: engine/train/checkpoint.h. A storage whose sizes cannot be used is kStorageGranule; a function that is
   missing or failed is kStorageFailed.

   Computes the bytes that a storage with these granules must have, for both slots. kNotBound: the model is not
   opened. */
nacre_status nacre_checkpoint_measure(const nacre_model* model, const nacre_storage* storage, uint32_t note_bytes,
                                      uint64_t* bytes);
/* Saves the state. `model` must be opened. `pending` not 0: the checkpoint is on trial until it is confirmed or
   reverted. `note`: the caller's own bytes, or NULL (kNull: `note` is NULL, and note_bytes is not 0). kMemorySize: the
   trainer is not started. kCheckpointModel: it trains another model. kStorageSize: a slot is too small. kReadBack: the
   bytes read back differently. A refusal writes nothing. After kReadBack and kStorageFailed the newest checkpoint that
   counts stays. */
nacre_status nacre_checkpoint_save(const nacre_model* model, const nacre_trainer* trainer, const nacre_storage* storage,
                                   int pending, const void* note, size_t note_bytes);
/* Loads the newest whole checkpoint and derives the values that depend on the state. Call nacre_trainer_start
   first: if the checkpoint has another layout, tensors that it lacks keep their values. If the load is refused,
   training goes on as before. After kStorageFailed call nacre_trainer_start or load again. `report` and `note` may
   be NULL; `note` receives at most note_bytes bytes. kNoCheckpoint: nothing was saved. kCheckpointDamaged: neither slot
   is whole. kCheckpointModel: no parameter is one of the model's. kMemorySize: the trainer is not started. */
nacre_status nacre_checkpoint_load(const nacre_model* model, nacre_trainer* trainer, const nacre_storage* storage,
                                   nacre_checkpoint_report* report, void* note, size_t note_bytes);
/* Reports the checkpoint that load would take; fields that compare it with a model are 0. `report` may be NULL. Codes
   are kNoCheckpoint and kCheckpointDamaged. */
nacre_status nacre_checkpoint_look(const nacre_storage* storage, nacre_checkpoint_report* report);
/* Makes the newest checkpoint count, if it is pending. kConfirmTorn: an earlier confirm was cut off; save again. */
nacre_status nacre_checkpoint_confirm(const nacre_storage* storage);
/* Forgets the newest checkpoint; load() then takes the one before. kNoCheckpoint: it is the only one that counts. */
nacre_status nacre_checkpoint_revert(const nacre_storage* storage);

/* ---- Since version 4: a flash that the processor reads by address (engine/train/nor_flash.h) ----
 *   static const nacre_nor_flash flash = {sizeof flash, 8, 4096, 65536, (const void*)0x08060000, program, erase};
 *   nacre_storage storage = {sizeof storage}; nacre_nor_flash_storage(&flash, &storage); */
typedef struct {
  uint32_t size; /* set to sizeof(nacre_nor_flash) */
  /* Bytes that are programmed at once, a power of two, at most 256. Bytes of a sector, which is erased at once. */
  uint32_t program_bytes, erase_bytes;
  uint32_t bytes;    /* whole sectors, at least two */
  const void* begin; /* start of a sector */
  /* Return 0 if the flash failed. `granule` has program_bytes, at a multiple of 8, in RAM. */
  int (*program)(uintptr_t address, const void* granule);
  int (*erase)(uintptr_t address);
} nacre_nor_flash;
/* Fills `storage`, whose size the caller set. `flash` outlives it. */
nacre_status nacre_nor_flash_storage(const nacre_nor_flash* flash, nacre_storage* storage);

/* ---- Another model in the field: engine/model/model_slots.h ----
 * Two places for a model file in a storage, which may lose its power at any moment.
 *
 * Example:
 *   nacre_model_slots slots;
 *   nacre_slot found = {.size = sizeof found};
 *   nacre_model_slots_make(&slots, &storage);
 *   if (nacre_model_slots_find(&slots, &found, NULL).code != 0) return 0;                // open it where it lies
 *   if (nacre_model_slots_begin(&slots, found.slot, file_bytes).code != 0) return 0;     // an update
 *   while (receive(&part, &size))
 *     if (nacre_model_slots_write(&slots, part, size).code != 0) return 0;
 *   return nacre_model_slots_finish(&slots).code == 0;                                   // from now on it is found
 */
#define NACRE_NO_SLOT 2u
typedef struct {
  uint32_t size; /* set to sizeof(nacre_slot) before the call */
  uint32_t slot; /* 0, 1 or NACRE_NO_SLOT */
  uint32_t sequence, reserved;
  uint64_t offset, bytes; /* offset and size of the file in the storage */
} nacre_slot;

/* Fills `slots`; `storage` outlives it. If the size of `storage` is not set, the other functions return
   NACRE_ARGUMENT; if its sizes cannot be used, find and begin return kStorageGranule. */
void nacre_model_slots_make(nacre_model_slots* slots, const nacre_storage* storage);
/* Finds the newest slot whose file is whole, other than the slot `other`, which may be NULL. kNoCheckpoint: there is
   none. kStorageFailed: there is none, and a read failed. found->slot is NACRE_NO_SLOT then. */
nacre_status nacre_model_slots_find(const nacre_model_slots* slots, nacre_slot* found, const nacre_slot* other);
/* Erases the slot that is not `keep`, or slot 0 for NACRE_NO_SLOT, for a file of `bytes` bytes. kStorageSize: the file
   does not fit; nothing is erased. kStorageFailed: an erase failed. */
nacre_status nacre_model_slots_begin(nacre_model_slots* slots, uint32_t keep, uint64_t bytes);
uint64_t nacre_model_slots_offset(const nacre_model_slots* slots); /* offset of the file that is being written */
/* Writes the next bytes of the file. kRange: more than begin was told; nothing is written. kNotBound: no begin.
   kStorageFailed: programming failed, which ends the update. */
nacre_status nacre_model_slots_write(nacre_model_slots* slots, const void* part, size_t size);
/* Finishes an update, after which the slot is found. kLengthUnder: bytes are missing; write may go on. kReadBack,
   kStorageFailed: the update ends without it. kNotBound: no begin. */
nacre_status nacre_model_slots_finish(nacre_model_slots* slots);

/* ---- Training of static programs: engine/train/static_trainer.h ----
 * `nacre firmware --train` declares NAME_training in NAME.h, and NAME_program, which infers over the same state. If a
 * function returns a code, 0 is success; nacre_sentence(code) says what another code means. Checkpoints are the same
 * as those of the model file: nacre_trainer and nacre_static_trainer load what the other saved.
 * nacre_checkpoint_look, nacre_checkpoint_confirm and nacre_checkpoint_revert serve both. Functions do what those of
 * nacre_trainer do, with the same codes, for the compiled batch.
 *
 * Example:
 *   nacre_static_trainer learner;
 *   nacre_static_trainer_make(&learner, &kws_training);                              // #include "kws.h"
 *   if (nacre_static_trainer_start(&learner) != 0) return 0;
 *   while (next_batch(nacre_static_trainer_input(&learner, 0, NULL), nacre_static_trainer_input(&learner, 1, NULL)))
 *     if (nacre_static_trainer_accumulate(&learner) != 0 || nacre_static_trainer_commit(&learner, 0.01f, NULL) != 0)
 *       return 0;
 *   return nacre_static_checkpoint_save(&learner, &storage, 0, NULL, 0).code == 0;
 */
typedef struct nacre_static_training nacre_static_training;

/* Makes a trainer, which needs no bind. One trainer at a time may use the memory of `training`. A trainer that is made
   again forgets what it had accumulated. Call nacre_static_trainer_start next. */
void nacre_static_trainer_make(nacre_static_trainer* trainer, const nacre_static_training* training);
uint8_t nacre_static_trainer_start(nacre_static_trainer* trainer);    /* sets the state to its initial values */
uint8_t nacre_static_trainer_restored(nacre_static_trainer* trainer); /* call it after writing the state */
uint32_t nacre_static_trainer_input_count(const nacre_static_trainer* trainer);
uint32_t nacre_static_trainer_output_count(const nacre_static_trainer* trainer);
void* nacre_static_trainer_input(const nacre_static_trainer* trainer, uint32_t index, size_t* size);
const void* nacre_static_trainer_output(const nacre_static_trainer* trainer, uint32_t index, size_t* size);
uint8_t nacre_static_trainer_accumulate(nacre_static_trainer* trainer); /* a micro-batch of the compiled size */
uint8_t nacre_static_trainer_commit(nacre_static_trainer* trainer, float learning_rate, nacre_report* report);
void nacre_static_trainer_discard(nacre_static_trainer* trainer);
int nacre_static_trainer_immediate(const nacre_static_trainer* trainer);             /* since version 4 */
void* nacre_static_trainer_state(const nacre_static_trainer* trainer, size_t* size); /* NULL and 0 before start */

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
