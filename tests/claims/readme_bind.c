/* The end of README's C program, which tests put behind the function that stands there. It reads plain.nacre and
 * image.bin, and prints the scores of the fast kernels with two threads. */
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

static alignas(64) unsigned char bytes[1 << 20], memory[1 << 20];

int main(void) {
  nacre_thread_pool* const pool = nacre_thread_pool_open(2);
  FILE* file = fopen("plain.nacre", "rb");
  const size_t size = file == NULL ? 0 : fread(bytes, 1, sizeof bytes, file);
  nacre_model model;
  nacre_program program;
  nacre_status status = open_and_bind(&model, &program, bytes, size, memory, sizeof memory, pool);
  size_t input_bytes = 0, output_bytes = 0;
  float scores[16];
  if (file != NULL) fclose(file);
  if (status.code == 0) {
    void* const input = nacre_program_input(&program, 0, &input_bytes);
    file = fopen("image.bin", "rb");
    if (file == NULL || fread(input, 1, input_bytes, file) != input_bytes) return 2;
    fclose(file);
    status = nacre_program_run(&program);
  }
  if (status.code != 0) return printf("%s\n", nacre_sentence(status.code)), 1;
  const void* const output = nacre_program_output(&program, 0, &output_bytes);
  if (output_bytes > sizeof scores) return 3;
  memcpy(scores, output, output_bytes);
  for (size_t i = 0; i < output_bytes / sizeof scores[0]; ++i) printf("%.9g\n", (double)scores[i]);
  nacre_thread_pool_close(pool);
  return 0;
}
