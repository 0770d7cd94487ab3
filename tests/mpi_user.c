/* Trains through <nacre/mpi_c.h> from C, as a program outside of the tree would: 4 micro-batches a step,
 * on as many ranks as mpirun starts, or on one process without MPI's help. Prints a hash of the state.
 *
 *   mpi_user MODEL STEPS CODING [alone|other|none]     alone: no MPI; other: rank 1 states other kernels;
 *                                             none: no trainer is given */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nacre/mpi_c.h>

enum { kMicroBatches = 4 };

static void* aligned(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }

static void fill(nacre_trainer* trainer, unsigned seed) {
  size_t x_bytes, y_bytes;
  float* x = nacre_trainer_input(trainer, 0, &x_bytes);
  int32_t* y = nacre_trainer_input(trainer, 1, &y_bytes);
  const size_t rows = y_bytes / sizeof *y, each = x_bytes / sizeof *x / rows;
  for (size_t r = 0; r < rows; ++r) {
    y[r] = (int32_t)(r % 4);
    for (size_t i = 0; i < each; ++i) {
      seed = seed * 1664525u + 1013904223u;
      x[r * each + i] = (float)(seed >> 16) / 65536.0f - 0.5f + (i % 16 == r % 4 ? 1.0f : 0.0f);
    }
  }
}

static int check(nacre_status status) {
  if (status.code != 0) fprintf(stderr, "mpi_user: %s\n", nacre_sentence(status.code));
  return status.code == 0;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int alone = argc > 4 && strcmp(argv[4], "alone") == 0;
  if (!alone) MPI_Init(&argc, &argv);
  FILE* file = fopen(argv[1], "rb");
  if (file == NULL) return 2;
  fseek(file, 0, SEEK_END);
  const size_t size = (size_t)ftell(file);
  rewind(file);
  void* bytes = aligned(size);
  if (fread(bytes, 1, size, file) != size) return 2;
  fclose(file);

  static nacre_model model;
  static nacre_trainer trainer;
  const nacre_kernels* sets[] = {nacre_reference_kernels(), nacre_training_kernels()};
  nacre_sizes sizes = {.size = sizeof sizes};
  if (!check(nacre_model_open(&model, bytes, size)) || !check(nacre_trainer_measure(&model, NULL, sets, 2, &sizes)))
    return 1;
  void* memory = aligned(sizes.total);
  if (!check(nacre_trainer_bind(&trainer, &model, NULL, sets, 2, memory, sizes.total)) ||
      !check(nacre_trainer_start(&trainer)))
    return 1;

  nacre_mpi* ranks = NULL;
  size_t block;
  nacre_trainer_gradients(&trainer, &block);
  void* keep = aligned(block);
  if (!alone) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char* const mode = argc > 4 ? argv[4] : "";
    const int other = strcmp(mode, "other") == 0 && rank == 1;
    const nacre_mpi_options options = {.size = sizeof options,
                                       .coding = (uint32_t)atoi(argv[3]),
                                       .same = other ? "kernels others\n" : "kernels reference\n"};
    nacre_trainer* const given = strcmp(mode, "none") == 0 ? NULL : &trainer;
    ranks = nacre_mpi_open(MPI_Comm_c2f(MPI_COMM_WORLD), &model, given, &options);
    if (nacre_mpi_problem(ranks) != NULL) {
      if (rank == 0) fprintf(stderr, "mpi_user: %s\n", nacre_mpi_problem(ranks));
      nacre_mpi_close(ranks);
      MPI_Finalize();
      return 1;
    }
  }
  for (unsigned step = 0; step < (unsigned)atoi(argv[2]); ++step) {
    const uint32_t count = alone ? 1 : nacre_mpi_count(ranks), rank = alone ? 0 : nacre_mpi_rank(ranks);
    for (uint32_t first = 0; first < kMicroBatches; first += count) {
      const uint32_t mine = first + rank;
      const int has = mine < kMicroBatches;
      if (!alone && has && !check(nacre_trainer_begin_at(&trainer, mine))) return 1;
      if (has) fill(&trainer, step * kMicroBatches + mine);
      if (alone && !check(nacre_trainer_accumulate_apart(&trainer, keep, block, 0))) return 1;
      if (!alone && has && !check(nacre_trainer_accumulate(&trainer, 0))) return 1;
      if (!alone && !nacre_mpi_add(ranks, has ? &trainer : NULL)) return 1;
    }
    if (!alone && !nacre_mpi_finish(ranks, &trainer, kMicroBatches)) return 1;
    nacre_report report = {.size = sizeof report};
    if (!check(nacre_trainer_commit(&trainer, 0.002f, &report))) return 1;
    if (!alone) nacre_mpi_end_step(ranks, &model, &trainer, &report);
  }
  size_t state_bytes;
  const unsigned char* state = nacre_trainer_state(&trainer, &state_bytes);
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  for (size_t i = 0; i < state_bytes; ++i) hash = (hash ^ state[i]) * 1099511628211u;
  printf("state %016llx\n", (unsigned long long)hash);
  if (!alone && nacre_mpi_rank(ranks) == 0)
    fprintf(stderr, "sent %llu\n", (unsigned long long)nacre_mpi_sent_bytes(ranks));
  if (!alone) {
    nacre_mpi_close(ranks);
    MPI_Finalize();
  }
  free(keep), free(memory), free(bytes);
  return 0;
}
