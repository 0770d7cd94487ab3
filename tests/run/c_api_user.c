/* A user of the C API, in C. nacre_c_run opens, measures, binds, and runs with every input byte 3. */
#include <string.h>

#include "engine/nacre_c.h"

int nacre_c_run(const void* bytes, size_t size, void* memory, size_t memory_size, void* output, size_t output_size,
                nacre_status* status);

int nacre_c_run(const void* bytes, size_t size, void* memory, size_t memory_size, void* output, size_t output_size,
                nacre_status* status) {
  nacre_model model;
  nacre_program program;
  nacre_sizes sizes = {.size = sizeof sizes};
  *status = nacre_model_open(&model, bytes, size);
  if (status->code != 0) return 1;
  *status = nacre_model_check_weights(&model);
  if (status->code != 0) return 2;
  *status = nacre_program_measure(&model, 0, nacre_reference_kernels(), &sizes);
  if (status->code != 0) return 3;
  *status = nacre_program_bind(&program, &model, 0, nacre_reference_kernels(), memory, memory_size);
  if (status->code != 0) return 4;
  for (uint32_t i = 0; i < nacre_program_input_count(&program); ++i) {
    size_t count = 0;
    void* input = nacre_program_input(&program, i, &count);
    memset(input, 3, count);
  }
  *status = nacre_program_start(&program);
  if (status->code == 0) *status = nacre_program_run(&program);
  if (status->code != 0) return 5;
  size_t count = 0;
  const void* result = nacre_program_output(&program, 0, &count);
  if (result == NULL || count != output_size) return 6;
  memcpy(output, result, count);
  return 0;
}

int nacre_c_train(const void* bytes, size_t size, void* memory, size_t memory_size, int steps,
                  const nacre_storage* storage, int resume, void* state, size_t state_size, nacre_report* report,
                  nacre_status* status);

/* Trains `steps` steps, from the start or from the checkpoint of an earlier call. Then saves a checkpoint, whose note
   counts all steps. */
int nacre_c_train(const void* bytes, size_t size, void* memory, size_t memory_size, int steps,
                  const nacre_storage* storage, int resume, void* state, size_t state_size, nacre_report* report,
                  nacre_status* status) {
  nacre_model model;
  nacre_trainer trainer;
  nacre_sizes sizes = {.size = sizeof sizes};
  const nacre_kernels* sets[] = {nacre_reference_kernels(), nacre_training_kernels()};
  int32_t step = 0;
  uint64_t needed = 0;
  *status = nacre_model_open(&model, bytes, size);
  if (status->code != 0) return 1;
  *status = nacre_trainer_measure(&model, "host", sets, 2, &sizes);
  if (status->code != 0) return 2;
  *status = nacre_trainer_bind(&trainer, &model, "host", sets, 2, memory, memory_size);
  if (status->code != 0) return 3;
  *status = nacre_trainer_start(&trainer);
  if (status->code != 0) return 4;
  *status = nacre_checkpoint_measure(&model, storage, sizeof step, &needed);
  if (status->code != 0 || needed > storage->bytes) return 5;
  if (resume) {
    nacre_checkpoint_report loaded = {.size = sizeof loaded};
    *status = nacre_checkpoint_load(&model, &trainer, storage, &loaded, &step, sizeof step);
    if (status->code != 0 || loaded.note_bytes != sizeof step || !loaded.same_layout) return 6;
  }
  for (const int32_t end = step + steps; step < end; ++step) {
    size_t count = 0;
    float* x = nacre_trainer_input(&trainer, 0, &count);
    for (size_t i = 0; i < count / sizeof *x; ++i) x[i] = (float)(((int)i * 7 + step) % 5) * 0.25f;
    int32_t* labels = nacre_trainer_input(&trainer, 1, &count);
    for (size_t i = 0; i < count / sizeof *labels; ++i) labels[i] = (int32_t)i % 3;
    *status = nacre_trainer_accumulate(&trainer, 0);
    if (status->code != 0) return 7;
    *status = nacre_trainer_commit(&trainer, 0.25f, report);
    if (status->code != 0) return 8;
  }
  *status = nacre_checkpoint_save(&model, &trainer, storage, resume, &step, sizeof step);
  if (status->code != 0) return 9;
  *status = nacre_checkpoint_confirm(storage);
  if (status->code != 0) return 10;
  size_t count = 0;
  const void* trained = nacre_trainer_state(&trainer, &count);
  if (count != state_size || nacre_program_input_count(nacre_trainer_infer(&trainer)) != 1) return 11;
  memcpy(state, trained, count);
  return 0;
}
