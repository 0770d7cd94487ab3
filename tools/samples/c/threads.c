/* Shares one run of a network among the threads of a pool.
 *
 *   cc threads.c -o threads $(pkg-config --cflags --libs nacre-x86 nacre-threads)
 *   ./threads model.nacre samples.u8 outputs.bin 2
 *
 * samples.u8 holds a byte for each number of a sample. A run takes as many samples as the batch of the model (`nacre
 * convert --batch`); the last run takes the rows that are left. The bytes of outputs.bin do not depend on the number of
 * threads. */
#define _POSIX_C_SOURCE 200112L
#include <nacre/threads_c.h>

#include "example.h"

int main(int count, char** arguments) {
  if (count != 5) return fprintf(stderr, "usage: threads model.nacre samples.u8 outputs.bin threads\n"), 2;
  size_t file_size = 0, samples_size = 0;
  unsigned char* file = read_file(arguments[1], &file_size);
  unsigned char* samples = read_file(arguments[2], &samples_size);
  nacre_model model;
  check(arguments[1], nacre_model_open(&model, file, file_size));

  int started = 0;
  nacre_thread_pool* pool = nacre_thread_pool_open_with(atoi(arguments[4]), NULL, &started);
  if (pool == NULL) return fprintf(stderr, "the system gave %d threads\n", started), 1;
  const nacre_workers* workers = nacre_thread_pool_workers(pool); /* NULL if the pool has one thread */

  const nacre_kernels* kernels[3];
  const size_t sets = choose_kernels(kernels);
  nacre_sizes sizes = {.size = sizeof sizes}; /* scratch for each worker is counted */
  check(arguments[1], nacre_program_measure_with(&model, 0, kernels, sets, workers, &sizes));
  void* memory = aligned((size_t)sizes.total);
  nacre_program program;
  check("bind", nacre_program_bind_with(&program, &model, 0, kernels, sets, workers, memory, (size_t)sizes.total));

  nacre_tensor_info in = {.size = sizeof in}, result = {.size = sizeof result};
  check("input 0", nacre_model_input_at(&model, 0, 0, &in));
  check("output 0", nacre_model_output_at(&model, 0, 0, &result));
  const size_t batch = (size_t)in.dims[0];
  size_t row = 1; /* numbers of a sample */
  for (int i = 1; i < in.rank; ++i) row *= (size_t)in.dims[i];
  float* real = malloc(batch * row * sizeof *real);
  if (real == NULL) return 1;

  FILE* out = open_output(arguments[3]);
  const size_t all = samples_size / row;
  for (size_t first = 0; first < all; first += batch) {
    const size_t rows = all - first < batch ? all - first : batch;
    for (size_t i = 0; i < rows * row; ++i) real[i] = samples[first * row + i];
    check("write", nacre_write_numbers(&in, real, nacre_program_input(&program, 0, NULL), rows * row));
    check("run", nacre_program_run_rows(&program, (uint32_t)rows));
    fwrite(nacre_program_output(&program, 0, NULL), 1, (size_t)result.bytes / batch * rows, out);
  }
  printf("%lu samples, %d threads\n", (unsigned long)all, nacre_thread_pool_count(pool));
  const int written = fclose(out) == 0;
  nacre_thread_pool_close(pool); /* no program uses it any more */
  free(real);
  free(memory);
  free(samples);
  free(file);
  return written ? 0 : 1;
}
