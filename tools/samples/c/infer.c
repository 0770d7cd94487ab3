/* Runs a network on samples: measure, bind, then a run for each sample.
 *
 *   cc infer.c -o infer $(pkg-config --cflags --libs nacre-x86)       (on AArch64: nacre-arm)
 *   ./infer model.nacre samples.u8 outputs.bin
 *
 * samples.u8 holds a byte for each number of the input, sample after sample. The network's input may have any type that
 * nacre_write_numbers knows. outputs.bin gets the bytes of all outputs of each run. */
#define _POSIX_C_SOURCE 200112L
#include "example.h"

int main(int count, char** arguments) {
  if (count != 4) return fprintf(stderr, "usage: infer model.nacre samples.u8 outputs.bin\n"), 2;
  size_t file_size = 0, samples_size = 0;
  unsigned char* file = read_file(arguments[1], &file_size);
  unsigned char* samples = read_file(arguments[2], &samples_size);

  nacre_model model;
  check(arguments[1], nacre_model_open(&model, file, file_size));
  check(arguments[1], nacre_model_check_weights(&model)); /* reads the file once; for a file from outside */

  const nacre_kernels* kernels[3];
  const size_t sets = choose_kernels(kernels);
  nacre_sizes sizes = {.size = sizeof sizes};
  check(arguments[1], nacre_program_measure_with(&model, 0, kernels, sets, NULL, &sizes));
  void* memory = aligned((size_t)sizes.total); /* all that the program will ever use; an array does as well */
  nacre_program program;
  check("bind", nacre_program_bind_with(&program, &model, 0, kernels, sets, NULL, memory, (size_t)sizes.total));

  nacre_tensor_info in = {.size = sizeof in};
  check("input 0", nacre_model_input_at(&model, 0, 0, &in));
  size_t numbers = 1;
  for (int i = 0; i < in.rank; ++i) numbers *= (size_t)in.dims[i];
  float* real = malloc(numbers * sizeof *real);
  if (real == NULL) return 1;

  FILE* out = open_output(arguments[3]);
  const size_t rows = samples_size / numbers;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < numbers; ++i) real[i] = samples[row * numbers + i];
    /* The outputs of the last run may lie where the input does: write the input before every run. */
    check("write", nacre_write_numbers(&in, real, nacre_program_input(&program, 0, NULL), numbers));
    check("run", nacre_program_run(&program));
    for (uint32_t i = 0; i < nacre_program_output_count(&program); ++i) {
      size_t bytes = 0;
      const void* output = nacre_program_output(&program, i, &bytes);
      fwrite(output, 1, bytes, out);
    }
  }
  printf("%lu runs in %lu bytes\n", (unsigned long)rows, (unsigned long)sizes.total);
  const int written = fclose(out) == 0;
  free(real);
  free(memory);
  free(samples);
  free(file);
  return written ? 0 : 1;
}
