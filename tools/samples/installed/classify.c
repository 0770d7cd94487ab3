/* Runs a model on one sample and prints the highest scores: a C program that needs only the installed library.
 *
 *   cc classify.c -o classify $(pkg-config --cflags --libs nacre)
 *   ./classify model.nacre sample.bin [sample]
 *
 * sample.bin holds samples one after the other, as the bytes of input 0; `sample` counts from 0. */
#include <inttypes.h>
#include <nacre/nacre_c.h>
#include <stdio.h>
#include <stdlib.h>

/* Reads a whole file to an address that is a multiple of 64. Returns NULL if it cannot be read. */
static void* read_file(const char* path, size_t* size) {
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

static int refused(const char* what, nacre_status status) {
  fprintf(stderr, "%s: %s (%u)\n", what, nacre_sentence(status.code), status.index);
  return 1;
}

/* Reads element i of float32 numbers, or of int8 codes: real = scale * (code - zero). */
static float real(const nacre_tensor_info* info, const void* bytes, size_t i) {
  if (info->element == NACRE_FLOAT32) return ((const float*)bytes)[i];
  return info->scale * (float)(((const int8_t*)bytes)[i] - info->zero);
}

int main(int count, char** arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: classify model.nacre sample.bin [sample]\n");
    return 2;
  }
  size_t model_size = 0, data_size = 0;
  void* bytes = read_file(arguments[1], &model_size);
  const char* data = read_file(arguments[2], &data_size);
  if (bytes == NULL || data == NULL) {
    fprintf(stderr, "%s: cannot be read\n", arguments[bytes == NULL ? 1 : 2]);
    return 1;
  }

  nacre_model model;
  nacre_program program;
  nacre_sizes sizes = {.size = sizeof sizes};
  nacre_status status = nacre_model_open(&model, bytes, model_size);
  if (status.code == 0) status = nacre_model_check_weights(&model);
  if (status.code == 0) status = nacre_program_measure(&model, 0, nacre_reference_kernels(), &sizes);
  if (status.code != 0) return refused(arguments[1], status);
  void* memory = aligned_alloc(16, (size_t)sizes.total);
  status = nacre_program_bind(&program, &model, 0, nacre_reference_kernels(), memory, (size_t)sizes.total);
  if (status.code != 0) return refused(arguments[1], status);

  nacre_tensor_info in = {.size = sizeof in}, out = {.size = sizeof out};
  status = nacre_model_input_at(&model, 0, 0, &in);
  if (status.code == 0) status = nacre_model_output_at(&model, 0, 0, &out);
  if (status.code != 0) return refused(arguments[1], status);
  if (out.element != NACRE_FLOAT32 && out.element != NACRE_INT8) {
    fprintf(stderr, "%s: output %s is neither float32 nor int8\n", arguments[1], out.name);
    return 1;
  }

  size_t input_size = 0, output_size = 0;
  char* input = nacre_program_input(&program, 0, &input_size);
  const size_t sample = count > 3 ? strtoul(arguments[3], NULL, 10) : 0;
  if (data_size / input_size <= sample) {
    fprintf(stderr, "%s: %zu bytes hold no sample %zu of %zu bytes\n", arguments[2], data_size, sample, input_size);
    return 1;
  }
  for (size_t i = 0; i < input_size; ++i) input[i] = data[sample * input_size + i];
  status = nacre_program_run(&program);
  if (status.code != 0) return refused("run", status);

  const void* scores = nacre_program_output(&program, 0, &output_size);
  const size_t classes = output_size / (out.element == NACRE_FLOAT32 ? sizeof(float) : 1);
  printf("%s -> %s, %" PRIu64 " bytes of memory\n", in.name, out.name, sizes.total);
  for (int place = 0; place < 3 && (size_t)place < classes; ++place) {
    size_t best = classes, length = 0;
    for (size_t i = 0; i < classes; ++i) { /* finds the class with `place` scores above its own */
      size_t above = 0;
      for (size_t j = 0; j < classes; ++j) {
        const float a = real(&out, scores, j), b = real(&out, scores, i);
        above += a > b || (a == b && j < i);
      }
      if (above == (size_t)place) best = i;
    }
    if (best == classes) break; /* NaN */
    const char* label = nacre_model_label(&model, (uint32_t)best, &length);
    if (label != NULL) printf("  %.*s  %g\n", (int)length, label, (double)real(&out, scores, best));
    else printf("  class %zu  %g\n", best, (double)real(&out, scores, best));
  }
  free(memory);
  free((void*)data);
  free(bytes);
  return 0;
}
