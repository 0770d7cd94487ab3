/* Feeds a network that remembers: its state survives from run to run, in the block `stream` of its memory.
 *
 *   cc stream.c -o stream $(pkg-config --cflags --libs nacre-x86)
 *   ./stream model.nacre samples.s16 outputs.bin
 *
 * samples.s16 holds samples of 16 bits, in the processor's byte order. A frame has as many samples as input 0 has
 * numbers; the network reads sample / 32768. Two streams run over one model, each a program with memory of its own. The
 * second one begins in the middle of the samples. outputs.bin gets the outputs of both, frame by frame. */
#define _POSIX_C_SOURCE 200112L
#include <string.h>

#include "example.h"

typedef struct {
  nacre_program program;
  void* memory;
} stream;

/* Binds a program of its own over the shared model. */
static void open_stream(stream* s, const nacre_model* model) {
  const nacre_kernels* kernels[3];
  const size_t sets = choose_kernels(kernels);
  nacre_sizes sizes = {.size = sizeof sizes};
  check("measure", nacre_program_measure_with(model, 0, kernels, sets, NULL, &sizes));
  s->memory = aligned((size_t)sizes.total);
  check("bind", nacre_program_bind_with(&s->program, model, 0, kernels, sets, NULL, s->memory, (size_t)sizes.total));
  check("start", nacre_program_start(&s->program)); /* the state is zero */
}

static void feed(const stream* s, const nacre_tensor_info* in, const float* frame, size_t numbers, FILE* out) {
  check("write", nacre_write_numbers(in, frame, nacre_program_input(&s->program, 0, NULL), numbers));
  check("run", nacre_program_run(&s->program));
  for (uint32_t i = 0; i < nacre_program_output_count(&s->program); ++i) {
    size_t bytes = 0;
    const void* output = nacre_program_output(&s->program, i, &bytes);
    fwrite(output, 1, bytes, out);
  }
}

int main(int count, char** arguments) {
  if (count != 4) return fprintf(stderr, "usage: stream model.nacre samples.s16 outputs.bin\n"), 2;
  size_t file_size = 0, samples_size = 0;
  unsigned char* file = read_file(arguments[1], &file_size);
  unsigned char* samples = read_file(arguments[2], &samples_size);
  nacre_model model;
  check(arguments[1], nacre_model_open(&model, file, file_size));
  nacre_tensor_info in = {.size = sizeof in};
  check("input 0", nacre_model_input_at(&model, 0, 0, &in));
  size_t numbers = 1;
  for (int i = 0; i < in.rank; ++i) numbers *= (size_t)in.dims[i];
  float* frame = malloc(numbers * sizeof *frame);
  if (frame == NULL) return 1;

  stream first, second;
  open_stream(&first, &model);
  open_stream(&second, &model);
  FILE* out = open_output(arguments[3]);
  const size_t frames = samples_size / (numbers * sizeof(int16_t));
  for (size_t f = 0; f < frames; ++f) {
    for (size_t i = 0; i < numbers; ++i) {
      int16_t sample;
      memcpy(&sample, samples + (f * numbers + i) * sizeof sample, sizeof sample);
      frame[i] = (float)sample / 32768.0f;
    }
    feed(&first, &in, frame, numbers, out);
    if (f >= frames / 2) feed(&second, &in, frame, numbers, out);
  }
  printf("%lu frames\n", (unsigned long)frames);
  const int written = fclose(out) == 0;
  free(first.memory);
  free(second.memory);
  free(frame);
  free(samples);
  free(file);
  return written ? 0 : 1;
}
