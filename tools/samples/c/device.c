/* Trains a static program and keeps what it learned in a flash, as a microcontroller does. The flash is an array here.
 *
 *   nacre firmware train.nacre --train --target host --name learner -o made
 *   (compile made/learner*.cc and this file as static.c says)
 *   ./device samples.bin labels.bin steps state.bin [power]
 *
 * A step is a micro-batch of the compiled size. Every second step is saved. `power`: the flash loses its power at that
 * call; the program then starts over with the content of the flash, as after a reset. */
#define _POSIX_C_SOURCE 200112L
#include <string.h>

#include "example.h"
#include "learner.h"

enum { kGranule = 8, kSector = 4096, kSectors = 160 };
static unsigned char sectors[kSectors * kSector];
static long calls, cut_at;
static uint32_t begun; /* the step from which the last start went on */

/* Returns 0 at the call that has no power. */
static int powered(void) { return ++calls != cut_at; }

static int program_granule(uintptr_t address, const void* granule) {
  unsigned char* to = sectors + (address - (uintptr_t)sectors);
  if (!powered()) return 0;
  for (int i = 0; i < kGranule; ++i) to[i] &= ((const unsigned char*)granule)[i]; /* a flash clears bits */
  return 1;
}

static int erase_sector(uintptr_t address) {
  if (!powered()) return 0;
  memset(sectors + (address - (uintptr_t)sectors), 0xFF, kSector);
  return 1;
}

/* Trains until `steps` steps are saved. Returns 0 if the power failed. */
static int train(const nacre_storage* storage, const unsigned char* samples, size_t samples_size,
                 const unsigned char* labels, uint32_t steps, FILE* out) {
  nacre_static_trainer trainer;
  nacre_static_trainer_make(&trainer, &learner_training);
  if (nacre_static_trainer_start(&trainer) != 0) exit(4);
  uint32_t done = 0;
  if (nacre_static_checkpoint_load(&trainer, storage, NULL, &done, sizeof done).code != 0) done = 0;
  begun = done;
  size_t in_bytes = 0, label_bytes = 0;
  void* input = nacre_static_trainer_input(&trainer, 0, &in_bytes);
  void* label = nacre_static_trainer_input(&trainer, 1, &label_bytes);
  const size_t batches = samples_size / in_bytes;
  while (done < steps) {
    memcpy(input, samples + done % batches * in_bytes, in_bytes);
    memcpy(label, labels + done % batches * label_bytes, label_bytes);
    uint8_t code = nacre_static_trainer_accumulate(&trainer);
    if (code == 0) code = nacre_static_trainer_commit(&trainer, 0.01f, NULL);
    if (code != 0) exit(3);
    ++done;
    if (done % 2 == 0 || done == steps)
      if (nacre_static_checkpoint_save(&trainer, storage, 0, &done, sizeof done).code != 0) return 0;
  }
  size_t size = 0;
  const void* state = nacre_static_trainer_state(&trainer, &size);
  fwrite(state, 1, size, out);
  return 1;
}

int main(int count, char** arguments) {
  if (count != 5 && count != 6) return fprintf(stderr, "usage: device samples labels steps state [power]\n"), 2;
  size_t samples_size = 0, labels_size = 0;
  unsigned char* samples = read_file(arguments[1], &samples_size);
  unsigned char* labels = read_file(arguments[2], &labels_size);
  memset(sectors, 0xFF, sizeof sectors);
  cut_at = count == 6 ? atol(arguments[5]) : 0;
  const nacre_nor_flash flash = {sizeof flash, kGranule,        kSector,     sizeof sectors,
                                 sectors,      program_granule, erase_sector};
  nacre_storage storage = {.size = sizeof storage};
  check("flash", nacre_nor_flash_storage(&flash, &storage));
  FILE* out = open_output(arguments[4]);
  const uint32_t steps = (uint32_t)strtoul(arguments[3], NULL, 10);
  int starts = 1;
  while (!train(&storage, samples, samples_size, labels, steps, out))
    if (++starts > 8) return fprintf(stderr, "the flash keeps nothing\n"), 1;
  printf("%d starts, %ld calls that change the flash, from step %lu\n", starts, calls, (unsigned long)begun);
  const int written = fclose(out) == 0;
  free(labels);
  free(samples);
  return written ? 0 : 1;
}
