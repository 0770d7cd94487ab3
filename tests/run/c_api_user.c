/* A user in C: opens, measures, binds, runs with every input byte 3. */
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
  *status = nacre_program_run(&program);
  if (status->code != 0) return 5;
  size_t count = 0;
  const void* result = nacre_program_output(&program, 0, &count);
  if (result == NULL || count != output_size) return 6;
  memcpy(output, result, count);
  return 0;
}
