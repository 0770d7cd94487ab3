/* The examples of this folder share these functions: files at a multiple of 64, refusals as text, and the fast kernels
 * of this processor. A program defines _POSIX_C_SOURCE before its first header, for posix_memalign. */
#ifndef NACRE_EXAMPLE_H
#define NACRE_EXAMPLE_H

#include <nacre/nacre_c.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __aarch64__
#include <nacre/arm_c.h>
#define BEST_TIER nacre_arm_best
#define TIER_KERNELS nacre_arm_kernels
#define TIER_KERNEL_AT nacre_arm_kernel_at
#else
#include <nacre/x86_c.h>
#define BEST_TIER nacre_x86_best
#define TIER_KERNELS nacre_x86_kernels
#define TIER_KERNEL_AT nacre_x86_kernel_at
#endif

/* Returns memory at a multiple of 64, which free() takes; NULL if there is none. */
static inline void* aligned(size_t size) {
  void* memory = NULL;
  return posix_memalign(&memory, 64, size + 1) == 0 ? memory : NULL;
}

/* Returns the bytes of a whole file. Ends the program if the file cannot be read. */
static inline unsigned char* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  long end = -1;
  unsigned char* bytes = NULL;
  if (file != NULL && fseek(file, 0, SEEK_END) == 0) end = ftell(file);
  if (end >= 0) bytes = aligned((size_t)end);
  if (bytes != NULL) rewind(file);
  if (bytes == NULL || fread(bytes, 1, (size_t)end, file) != (size_t)end) {
    fprintf(stderr, "%s: cannot be read\n", path);
    exit(1);
  }
  fclose(file);
  *size = (size_t)end;
  return bytes;
}

static inline FILE* open_output(const char* path) {
  FILE* file = fopen(path, "wb");
  if (file == NULL) {
    fprintf(stderr, "%s: cannot be written\n", path);
    exit(1);
  }
  return file;
}

/* Ends the program with a sentence if a call was refused. */
static inline void check(const char* place, nacre_status status) {
  if (status.code == 0) return;
  fprintf(stderr, "%s: %s (code %u, record %u", place, nacre_sentence(status.code), (unsigned)status.code,
          (unsigned)status.index);
  if (status.needed != 0)
    fprintf(stderr, ", needed %lu, given %lu", (unsigned long)status.needed, (unsigned long)status.given);
  fprintf(stderr, ")\n");
  exit(3);
}

/* Gives the kernels of a program: those of the best tier first, then the reference's, which run every other step. An
 * LSTM that gives out its last cells is a kernel of the training set. Returns how many sets there are. */
static inline size_t choose_kernels(const nacre_kernels* sets[3]) {
  size_t count = 0;
  const char* tier = BEST_TIER();
  if (tier != NULL) sets[count++] = TIER_KERNELS(tier);
  sets[count++] = nacre_reference_kernels();
  sets[count++] = nacre_training_kernels();
  return count;
}

#endif
