/* Prints what is in a model: programs, inputs, outputs, metadata, and with --steps how long each step took.
 *
 *   cc describe.c -o describe $(pkg-config --cflags --libs nacre) && ./describe model.nacre [--steps] */
#include <inttypes.h>
#include <nacre/nacre_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void print(const char* what, const nacre_tensor_info* info) {
  printf("%s %" PRIu32 " %s element %u [", what, info->index, info->name, info->element);
  for (int i = 0; i < info->rank; ++i) printf(i == 0 ? "%" PRId32 : ", %" PRId32, info->dims[i]);
  printf("] %s%s", info->axes, info->batched ? " batched" : "");
  if (info->scale != 0) printf(" scale %.9g zero %" PRId32, (double)info->scale, info->zero);
  for (uint32_t i = 0; i < info->scale_count; ++i)
    printf(" scale[%" PRIu32 "] %.9g zero %" PRId32, i, (double)info->scales[i],
           info->zeros == NULL ? info->zero : info->zeros[i]);
  printf("%s\n", info->survives ? " survives" : "");
}

typedef struct {
  double* seconds;
} times;

static double now(void) { return (double)clock() / CLOCKS_PER_SEC; }
static void hook(void* context, uint32_t step, int ended) {
  ((times*)context)->seconds[step] += ended ? now() : -now();
}

static int profile(const nacre_model* model) {
  nacre_program program;
  nacre_sizes sizes = {.size = sizeof sizes};
  nacre_status status = nacre_program_measure(model, 0, nacre_reference_kernels(), &sizes);
  void* memory = aligned_alloc(16, (size_t)sizes.total);
  if (status.code == 0)
    status = nacre_program_bind(&program, model, 0, nacre_reference_kernels(), memory, (size_t)sizes.total);
  if (status.code != 0 || memory == NULL) {
    fprintf(stderr, "bind: %s\n", nacre_sentence(status.code));
    return 1;
  }
  for (uint32_t i = 0; i < nacre_program_input_count(&program); ++i) {
    size_t size = 0;
    void* input = nacre_program_input(&program, i, &size);
    memset(input, 0, size);
  }
  const uint32_t steps = nacre_program_step_count(&program);
  times taken = {calloc(steps, sizeof(double))};
  status = nacre_program_run_hooked(&program, 0, hook, &taken);
  for (uint32_t i = 0; i < steps; ++i) {
    nacre_step_info step = {.size = sizeof step};
    if (nacre_model_step(model, 0, i, &step).code == 0)
      printf("step %" PRIu32 " %s %s %.0f us\n", i, step.op, step.layer, 1e6 * taken.seconds[i]);
  }
  free(taken.seconds);
  free(memory);
  return status.code;
}

int main(int count, char** arguments) {
  FILE* file = count < 2 ? NULL : fopen(arguments[1], "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    fprintf(stderr, "usage: describe model.nacre [--steps]\n");
    return 2;
  }
  const size_t size = (size_t)ftell(file);
  void* bytes = aligned_alloc(64, (size / 64 + 1) * 64);
  rewind(file);
  if (bytes == NULL || fread(bytes, 1, size, file) != size) return 1;
  fclose(file);

  nacre_model model;
  const nacre_status status = nacre_model_open(&model, bytes, size);
  if (status.code != 0) {
    fprintf(stderr, "%s: %s\n", arguments[1], nacre_sentence(status.code));
    return 1;
  }
  for (uint32_t p = 0; p < nacre_model_program_count(&model); ++p) {
    nacre_program_info program = {.size = sizeof program};
    nacre_model_program(&model, p, &program);
    printf("program %" PRIu32 " entry %" PRIu32 " %s batch %" PRIu32 "\n", p, program.entry, program.target,
           program.batch);
    nacre_tensor_info info = {.size = sizeof info};
    for (uint32_t i = 0; i < program.inputs; ++i)
      if (nacre_model_input_at(&model, p, i, &info).code == 0) print("input", &info);
    for (uint32_t i = 0; i < program.outputs; ++i)
      if (nacre_model_output_at(&model, p, i, &info).code == 0) print("output", &info);
  }
  for (uint32_t i = 0; i < nacre_model_metadata_count(&model); ++i) {
    const char *key = NULL, *value = NULL;
    if (nacre_model_metadata_at(&model, i, &key, &value).code == 0) printf("metadata %s = %s\n", key, value);
  }
  const int failed = count > 2 && strcmp(arguments[2], "--steps") == 0 ? profile(&model) : 0;
  free(bytes);
  return failed;
}
