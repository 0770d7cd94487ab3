/* Trains a network on a device whose power may fail at any moment, with checkpoints in two files of a directory. If it
 * is started again, it goes on from the newest whole checkpoint. It ends with the bytes of a training without a cut.
 *
 *   cc train.c -o train $(pkg-config --cflags --libs nacre-x86 nacre-files)
 *   ./train train.nacre samples.bin labels.bin directory steps state.bin
 *
 * train.nacre comes from `nacre convert --train`. samples.bin and labels.bin hold micro-batches one after the other, as
 * the bytes of inputs 0 and 1. A step is two micro-batches. Every fourth step is saved, with the number of steps as the
 * note. state.bin gets the state at the end. */
#define _POSIX_C_SOURCE 200112L
#include <nacre/files_c.h>
#include <string.h>

#include "example.h"

typedef struct {
  unsigned char* bytes;
  size_t size;
} file;

static void take(const nacre_trainer* trainer, uint32_t input, const file* from, size_t batch) {
  size_t size = 0;
  void* to = nacre_trainer_input(trainer, input, &size);
  memcpy(to, from->bytes + batch % (from->size / size) * size, size);
}

int main(int count, char** arguments) {
  if (count != 7) return fprintf(stderr, "usage: train train.nacre samples labels directory steps state\n"), 2;
  file network, samples, labels;
  network.bytes = read_file(arguments[1], &network.size);
  samples.bytes = read_file(arguments[2], &samples.size);
  labels.bytes = read_file(arguments[3], &labels.size);
  const uint32_t steps = (uint32_t)strtoul(arguments[5], NULL, 10);

  nacre_model model;
  check(arguments[1], nacre_model_open(&model, network.bytes, network.size));
  const nacre_kernels* kernels[3];
  const size_t sets = choose_kernels(kernels);
  nacre_sizes sizes = {.size = sizeof sizes};
  check(arguments[1], nacre_trainer_measure(&model, NULL, kernels, sets, &sizes));
  void* memory = aligned((size_t)sizes.total);
  nacre_trainer trainer;
  check("bind", nacre_trainer_bind(&trainer, &model, NULL, kernels, sets, memory, (size_t)sizes.total));
  check("start", nacre_trainer_start(&trainer)); /* the model's initial values */

  nacre_storage storage = {.size = sizeof storage};
  nacre_files_problem problem = {.size = sizeof problem};
  nacre_checkpoint_files* files = nacre_checkpoint_files_open_with(arguments[4], 1, &model, &storage, &problem);
  if (files == NULL) return fprintf(stderr, "%s\n", problem.sentence), 1;
  uint32_t done = 0; /* saved beside the state */
  nacre_checkpoint_report loaded = {.size = sizeof loaded};
  if (nacre_checkpoint_load(&model, &trainer, &storage, &loaded, &done, sizeof done).code != 0) done = 0;
  printf("from step %lu\n", (unsigned long)done);
  fflush(stdout);

  const nacre_schedule schedule = {
      .size = sizeof schedule, .kind = NACRE_COSINE, .rate = 0.01f, .steps = 2000, .end = 0.1f};
  nacre_report report = {.size = sizeof report};
  while (done < steps) {
    float rate = 0;
    check("rate", nacre_schedule_rate(&schedule, done, &rate));
    for (uint32_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
      take(&trainer, 0, &samples, 2 * (size_t)done + micro_batch);
      take(&trainer, 1, &labels, 2 * (size_t)done + micro_batch);
      check("accumulate", nacre_trainer_accumulate(&trainer, 0));
    }
    check("commit", nacre_trainer_commit(&trainer, rate, &report)); /* the whole step, or nothing of it */
    ++done;
    if (done % 4 == 0 || done == steps) {
      check("save", nacre_checkpoint_save(&model, &trainer, &storage, 0, &done, sizeof done));
      printf("saved step %lu, loss %.9g\n", (unsigned long)done, (double)report.loss);
      fflush(stdout);
    }
  }

  FILE* out = open_output(arguments[6]);
  size_t size = 0;
  const void* state = nacre_trainer_state(&trainer, &size);
  fwrite(state, 1, size, out);
  const int written = fclose(out) == 0;
  nacre_checkpoint_files_close(files);
  free(memory);
  free(labels.bytes);
  free(samples.bytes);
  free(network.bytes);
  return written ? 0 : 1;
}
