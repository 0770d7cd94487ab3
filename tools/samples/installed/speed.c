/* Measures how long a run of a model takes with the reference kernels, and with the fast kernels of this processor on
 * several threads. Also prints how far their outputs differ. A C program that needs only the installed library.
 *
 *   cc speed.c -o speed $(pkg-config --cflags --libs nacre-x86 nacre-threads)       (on AArch64: nacre-arm)
 *   ./speed model.nacre [threads [runs]]
 */
#define _POSIX_C_SOURCE 200112L
#include <math.h>
#include <nacre/nacre_c.h>
#include <nacre/threads_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __aarch64__
#include <nacre/arm_c.h>
#define BEST nacre_arm_best()
#define KERNELS nacre_arm_kernels
#else
#include <nacre/x86_c.h>
#define BEST nacre_x86_best()
#define KERNELS nacre_x86_kernels
#endif

static void* read_file(const char* path, size_t* size) { /* returns memory at a multiple of 64; NULL if it fails */
  FILE* file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) return NULL;
  const long end = ftell(file);
  void* bytes = end < 0 ? NULL : aligned_alloc(64, ((size_t)end / 64 + 1) * 64);
  rewind(file);
  if (bytes != NULL && fread(bytes, 1, (size_t)end, file) != (size_t)end) {
    free(bytes);
    bytes = NULL;
  }
  fclose(file);
  *size = end < 0 ? 0 : (size_t)end;
  return bytes;
}

static double now(void) { /* milliseconds */
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Writes numbers between -1 and 1 to float32 inputs, and zeros to others. */
static void fill(const nacre_model* model, const nacre_program* program) {
  for (uint32_t i = 0; i < nacre_program_input_count(program); ++i) {
    nacre_tensor_info info = {.size = sizeof info};
    size_t size = 0;
    void* to = nacre_program_input(program, i, &size);
    memset(to, 0, size);
    if (nacre_model_input_at(model, 0, i, &info).code != 0 || info.element != NACRE_FLOAT32) continue;
    for (size_t k = 0; k < size / sizeof(float); ++k) ((float*)to)[k] = sinf((float)(k + 1));
  }
}

/* Measures the median milliseconds of `runs` runs. Copies output 0 to `*output`, which the caller frees. */
static nacre_status measure(const nacre_model* model, const nacre_kernels* const* kernels, size_t count,
                            const nacre_workers* workers, int runs, double* median, void** output, size_t* bytes) {
  nacre_sizes sizes = {.size = sizeof sizes};
  nacre_status status = nacre_program_measure_with(model, 0, kernels, count, workers, &sizes);
  if (status.code != 0) return status;
  nacre_program program;
  void* memory = aligned_alloc(64, ((size_t)sizes.total / 64 + 1) * 64);
  status = nacre_program_bind_with(&program, model, 0, kernels, count, workers, memory, (size_t)sizes.total);
  double* times = calloc((size_t)runs, sizeof(double));
  for (int i = 0; i < runs && status.code == 0; ++i) {
    fill(model, &program);
    const double begun = now();
    status = nacre_program_run(&program);
    const double took = now() - begun;
    int at = i; /* insert in order */
    for (; at > 0 && times[at - 1] > took; --at) times[at] = times[at - 1];
    times[at] = took;
  }
  if (status.code == 0) {
    *median = times[runs / 2];
    const void* from = nacre_program_output(&program, 0, bytes);
    *output = malloc(*bytes);
    memcpy(*output, from, *bytes);
  }
  free(times);
  free(memory);
  return status;
}

int main(int count, char** arguments) {
  const int threads = count > 2 ? atoi(arguments[2]) : 1, runs = count > 3 ? atoi(arguments[3]) : 50;
  if (count < 2 || threads < 1 || runs < 1) {
    fprintf(stderr, "usage: speed model.nacre [threads [runs]]\n");
    return 2;
  }
  size_t size = 0, bytes = 0;
  void* file = read_file(arguments[1], &size);
  if (file == NULL) {
    fprintf(stderr, "%s: cannot be read\n", arguments[1]);
    return 1;
  }
  nacre_model model;
  nacre_status status = nacre_model_open(&model, file, size);
  const nacre_kernels* reference = nacre_reference_kernels();
  const nacre_kernels* const fast[] = {KERNELS(BEST), reference};
  nacre_thread_pool* pool = nacre_thread_pool_open(threads);
  double plain_time = 0, fast_time = 0;
  void *plain_output = NULL, *fast_output = NULL;
  nacre_tensor_info out = {.size = sizeof out};
  if (status.code == 0) status = nacre_model_output_at(&model, 0, 0, &out);
  if (status.code == 0) status = measure(&model, &reference, 1, NULL, runs, &plain_time, &plain_output, &bytes);
  if (status.code == 0)
    status = measure(&model, fast, 2, nacre_thread_pool_workers(pool), runs, &fast_time, &fast_output, &bytes);
  if (status.code != 0) {
    fprintf(stderr, "%s: %s (%u)\n", arguments[1], nacre_sentence(status.code), status.index);
    return 1;
  }
  printf("reference kernels, 1 thread    %10.3f ms\n", plain_time);
  printf("%s kernels, %d thread%s  %10.3f ms\n", BEST, threads, threads > 1 ? "s" : "", fast_time);
  if (out.element == NACRE_FLOAT32) {
    double difference = 0, largest = 0;
    for (size_t i = 0; i < bytes / sizeof(float); ++i) {
      const double a = ((float*)plain_output)[i], b = ((float*)fast_output)[i];
      if (fabs(a - b) > difference) difference = fabs(a - b);
      if (fabs(a) > largest) largest = fabs(a);
    }
    printf("outputs differ by at most %.2g of %.2g\n", difference, largest);
  } else {
    printf("outputs %s\n", memcmp(plain_output, fast_output, bytes) == 0 ? "are the same bytes" : "differ");
  }
  free(plain_output);
  free(fast_output);
  nacre_thread_pool_close(pool);
  free(file);
  return 0;
}
