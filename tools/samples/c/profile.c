/* Tells which kernel runs each step of a network, how long it takes, and which numbers it writes.
 *
 *   cc profile.c -o profile $(pkg-config --cflags --libs nacre-x86)
 *   ./profile model.nacre samples.u8 steps.txt
 *
 * The engine asks no clock: it calls the caller's function before and after each step. Here this function measures, and
 * sums the bytes that the step wrote. steps.txt gets a line for each step of each run: index, op, layer, kernel, packed
 * operands, tensor and FNV-1a hash of what it wrote. Times are printed. */
#define _POSIX_C_SOURCE 200112L
#include <time.h>

#include "example.h"

typedef struct {
  const nacre_model* model;
  const nacre_program* program;
  FILE* out;
  struct timespec begun;
  double* best_us; /* of each step, the fastest of all runs */
} profile;

/* Returns the name of a kernel. The sets of choose_kernels have it. */
static const char* name_of(const void* kernel) {
  nacre_kernel_info info = {.size = sizeof info};
  const char* tier = BEST_TIER();
  for (uint32_t i = 0; tier != NULL && TIER_KERNEL_AT(tier, i, &info).code == 0; ++i)
    if (info.kernel == kernel) return info.name;
  for (uint32_t i = 0; nacre_reference_kernel_at(i, &info).code == 0; ++i)
    if (info.kernel == kernel) return info.name;
  for (uint32_t i = 0; nacre_training_kernel_at(i, &info).code == 0; ++i)
    if (info.kernel == kernel) return info.name;
  return "?";
}

static uint32_t hash_of(const unsigned char* bytes, size_t size) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 16777619u;
  return hash;
}

static void on_step(void* context, uint32_t step, int ended) {
  profile* p = context;
  if (!ended) {
    clock_gettime(CLOCK_MONOTONIC, &p->begun);
    return;
  }
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double us = 1e6 * (double)(now.tv_sec - p->begun.tv_sec) + 1e-3 * (double)(now.tv_nsec - p->begun.tv_nsec);
  if (p->best_us[step] == 0 || us < p->best_us[step]) p->best_us[step] = us;

  nacre_step_info info = {.size = sizeof info};
  check("step", nacre_program_step(p->program, step, &info));
  fprintf(p->out, "%lu %s %s %s %lx", (unsigned long)step, info.op, info.layer, name_of(info.kernel),
          (unsigned long)info.packed);
  for (uint32_t i = 0; i < info.operands; ++i) {
    nacre_operand_info operand = {.size = sizeof operand};
    check("operand", nacre_model_operand(p->model, 0, step, i, &operand));
    if (operand.role == NACRE_READ || operand.tensor == 0xFFFFFFFFu) continue;
    size_t bytes = 0; /* an intermediate tensor is valid now, until a later step takes its bytes */
    const unsigned char* written = nacre_program_tensor(p->program, operand.tensor, &bytes);
    fprintf(p->out, " %lu:%08lx", (unsigned long)operand.tensor, (unsigned long)hash_of(written, bytes));
  }
  fprintf(p->out, "\n");
}

int main(int count, char** arguments) {
  if (count != 4) return fprintf(stderr, "usage: profile model.nacre samples.u8 steps.txt\n"), 2;
  size_t file_size = 0, samples_size = 0;
  unsigned char* file = read_file(arguments[1], &file_size);
  unsigned char* samples = read_file(arguments[2], &samples_size);
  nacre_model model;
  check(arguments[1], nacre_model_open(&model, file, file_size));
  const nacre_kernels* kernels[3];
  const size_t sets = choose_kernels(kernels);
  nacre_sizes sizes = {.size = sizeof sizes};
  check(arguments[1], nacre_program_measure_with(&model, 0, kernels, sets, NULL, &sizes));
  void* memory = aligned((size_t)sizes.total);
  nacre_program program;
  check("bind", nacre_program_bind_with(&program, &model, 0, kernels, sets, NULL, memory, (size_t)sizes.total));

  nacre_tensor_info in = {.size = sizeof in};
  check("input 0", nacre_model_input_at(&model, 0, 0, &in));
  size_t numbers = 1;
  for (int i = 0; i < in.rank; ++i) numbers *= (size_t)in.dims[i];
  float* real = malloc(numbers * sizeof *real);
  const uint32_t steps = nacre_program_step_count(&program);
  double* best_us = calloc(steps, sizeof *best_us);
  if (real == NULL || best_us == NULL) return 1;

  profile p = {&model, &program, open_output(arguments[3]), {0, 0}, best_us};
  for (size_t row = 0; row < samples_size / numbers; ++row) {
    for (size_t i = 0; i < numbers; ++i) real[i] = samples[row * numbers + i];
    check("write", nacre_write_numbers(&in, real, nacre_program_input(&program, 0, NULL), numbers));
    check("run", nacre_program_run_hooked(&program, 0, on_step, &p));
  }
  for (uint32_t i = 0; i < steps; ++i) {
    nacre_step_info info = {.size = sizeof info};
    check("step", nacre_program_step(&program, i, &info));
    printf("%8.2f us  %-16s %-24s %s\n", best_us[i], info.op, name_of(info.kernel), info.layer);
  }
  const int written = fclose(p.out) == 0;
  free(best_us);
  free(real);
  free(memory);
  free(samples);
  free(file);
  return written ? 0 : 1;
}
