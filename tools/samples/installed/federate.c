/* Runs a round of federated training on a device, in C: takes the server's update, trains on the device's own samples,
 * and writes the update to send back, which holds only the trained parameters. docs/many_machines.md has the format.
 *
 *   cc federate.c -o federate $(pkg-config --cflags --libs nacre)
 *   ./federate train.nacre update|- samples.bin labels.bin epochs rate made
 *
 * train.nacre comes from `nacre convert --train`. With `-` there is no update yet: training begins with the model's own
 * values. samples.bin and labels.bin hold rows one after the other, as the bytes of inputs 0 and 1. If an update is
 * refused, nothing changes and no file is written. The program needs POSIX (stat) and a little-endian machine. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <nacre/nacre_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { kHeader = 24, kLongestName = 255, kLongestHead = 4 + kLongestName + 8 * 4 };
static const unsigned char kMagic[8] = {'n', 'a', 'c', 'r', 'e', 'u', 'p', 'd'};

typedef struct {
  unsigned char* bytes;
  size_t size;
} file_bytes;

typedef struct {
  nacre_model model;
  nacre_trainer trainer;
  uint32_t batch, rows; /* rows of a micro-batch; of the samples */
} device;

/* One parameter of an update. */
typedef struct {
  char name[kLongestName + 1];
  uint8_t element, rank;
  uint32_t dims[8];
  const unsigned char* values;
} entry;

/* Prints a refusal. `place` may be a name from an update, so no byte of it may control a terminal. */
static int refused(const char* place, const char* fact) {
  fputs("federate: ", stderr);
  for (const char* c = place; *c != 0; ++c) fputc((unsigned char)*c < 32 || *c == 127 ? '?' : *c, stderr);
  fprintf(stderr, ": %s\n", fact);
  return 3;
}

static int status_of(const char* place, nacre_status status) {
  return status.code == 0 ? 0 : refused(place, nacre_sentence(status.code));
}

static int read_file(const char* path, file_bytes* file) {
  FILE* stream = fopen(path, "rb");
  long end = -1;
  if (stream != NULL && fseek(stream, 0, SEEK_END) == 0) end = ftell(stream);
  if (end >= 0) {
    file->size = (size_t)end;
    file->bytes = aligned_alloc(64, (file->size / 64 + 1) * 64);
    rewind(stream);
    if (file->bytes == NULL || fread(file->bytes, 1, file->size, stream) != file->size) end = -1;
  }
  if (stream != NULL) fclose(stream);
  return end < 0 ? refused(path, "cannot be read") : 0;
}

/* Continues a CRC-32 (zlib, IEEE 802.3: reflected, polynomial 0xEDB88320). `crc` is 0 at the start. */
static uint32_t crc32_of(uint32_t crc, const unsigned char* bytes, size_t size) {
  crc = ~crc;
  for (size_t i = 0; i < size; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
  }
  return ~crc;
}

static uint32_t read_u32(const unsigned char* at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}
static void write_u32(unsigned char* at, uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = (unsigned char)(value >> 8 * i);
}

/* Returns the bytes of an element, or 0 for a type that is not sent. */
static uint32_t element_bytes(uint8_t element) { return element == NACRE_FLOAT32 ? 4 : element == NACRE_INT8 ? 1 : 0; }

/* Reads the entry at offset *at and moves *at past it. Returns 0 if the entry is malformed (name, rank), goes beyond
   the update's end, or has a type that is not sent. */
static int next_entry(const file_bytes* update, size_t* at, entry* made) {
  const unsigned char* p = update->bytes + *at;
  const size_t left = update->size - *at;
  if (left < 4) return 0;
  const size_t name_bytes = (size_t)p[0] | (size_t)p[1] << 8;
  made->element = p[2], made->rank = p[3];
  const size_t head = 4 + name_bytes + 4 * (size_t)made->rank;
  if (name_bytes == 0 || name_bytes > kLongestName || made->rank > 8 || left < head) return 0;
  memcpy(made->name, p + 4, name_bytes);
  made->name[name_bytes] = 0;
  uint64_t bytes = element_bytes(made->element);
  if (bytes == 0) return 0;
  for (int i = 0; i < made->rank; ++i) {
    made->dims[i] = read_u32(p + 4 + name_bytes + 4 * (size_t)i);
    bytes *= made->dims[i];
    if (bytes > left - head) return 0;
  }
  if (bytes > left - head) return 0;
  made->values = p + head;
  *at += head + (size_t)bytes;
  return 1;
}

static int all_finite(const entry* e, uint64_t bytes) {
  for (uint64_t i = 0; e->element == NACRE_FLOAT32 && i < bytes; i += 4)
    if ((read_u32(e->values + i) & 0x7F800000u) == 0x7F800000u) return 0;
  return 1;
}

/* Checks an entry against the device's parameter of its name: type and shape must be equal, every value finite. */
static int check_entry(const device* d, const entry* e) {
  nacre_tensor_info info = {.size = sizeof info};
  if (nacre_trainer_parameter(&d->model, &d->trainer, e->name, &info, NULL).code != 0)
    return refused(e->name, "no trained parameter of this model has this name");
  int same = info.element == e->element && info.rank == e->rank;
  for (int i = 0; same && i < e->rank; ++i) same = (uint32_t)info.dims[i] == e->dims[i];
  if (!same) return refused(e->name, "its type or shape in the update is not the model's");
  return all_finite(e, info.bytes) ? 0 : refused(e->name, "the update holds a NaN or an infinite value");
}

/* Returns how many entries have this name. */
static uint32_t entries_named(const file_bytes* update, uint32_t count, const char* name) {
  entry e;
  uint32_t found = 0;
  size_t at = kHeader;
  for (uint32_t i = 0; i < count && next_entry(update, &at, &e); ++i) found += strcmp(e.name, name) == 0;
  return found;
}

static int check_update(const device* d, const char* path, const file_bytes* update) {
  if (update->size < kHeader || memcmp(update->bytes, kMagic, sizeof kMagic) != 0)
    return refused(path, "is no update: it does not begin with nacreupd");
  if (read_u32(update->bytes + 8) != 1) return refused(path, "is of another version than 1");
  const uint32_t count = read_u32(update->bytes + 16);
  if (crc32_of(0, update->bytes + kHeader, update->size - kHeader) != read_u32(update->bytes + 20))
    return refused(path, "is damaged: its CRC is not that of its bytes; send it again");
  if (count != nacre_parameter_count(&d->model)) return refused(path, "has another count of parameters");
  entry e;
  size_t at = kHeader;
  for (uint32_t i = 0; i < count; ++i) {
    if (!next_entry(update, &at, &e)) return refused(path, "ends within a parameter, or holds a type that is not sent");
    const int failed = check_entry(d, &e);
    if (failed) return failed;
    if (entries_named(update, count, e.name) != 1) return refused(e.name, "is in the update twice");
  }
  return at == update->size ? 0 : refused(path, "goes on behind its last parameter");
}

/* Checks a whole update before it takes any value from it. */
static int take_update(device* d, const char* path) {
  file_bytes update = {NULL, 0};
  int failed = read_file(path, &update);
  if (!failed) failed = check_update(d, path, &update);
  entry e;
  size_t at = kHeader;
  for (uint32_t i = 0; !failed && i < nacre_parameter_count(&d->model) && next_entry(&update, &at, &e); ++i) {
    void* values = NULL;
    nacre_tensor_info info = {.size = sizeof info};
    failed = status_of(e.name, nacre_trainer_parameter(&d->model, &d->trainer, e.name, &info, &values));
    if (!failed) memcpy(values, e.values, (size_t)info.bytes);
  }
  if (!failed) failed = status_of(path, nacre_trainer_restored(&d->trainer));
  free(update.bytes);
  return failed;
}

/* Trains on the rows in their order, one micro-batch per step. The last one of an epoch may be shorter. */
static int train(device* d, const file_bytes data[2], uint32_t epochs, float rate, float* loss) {
  for (uint32_t epoch = 0; epoch < epochs; ++epoch) {
    for (uint32_t first = 0; first < d->rows; first += d->batch) {
      const uint32_t rows = d->rows - first < d->batch ? d->rows - first : d->batch;
      for (uint32_t i = 0; i < 2; ++i) {
        size_t size = 0;
        void* input = nacre_trainer_input(&d->trainer, i, &size);
        memcpy(input, data[i].bytes + size / d->batch * first, size / d->batch * rows);
      }
      nacre_report report = {.size = sizeof report};
      nacre_status status = nacre_trainer_accumulate(&d->trainer, rows == d->batch ? 0 : rows);
      if (status.code == 0) status = nacre_trainer_commit(&d->trainer, rate, &report);
      if (status.code != 0) return status_of("a training step", status);
      if (!report.applied) fprintf(stderr, "federate: a step was refused: its gradients are not finite\n");
      *loss = report.loss;
    }
  }
  return 0;
}

/* Writes a parameter's entry without its values into head. Returns its bytes, or 0 if it cannot be sent. */
static size_t entry_head(const nacre_tensor_info* info, unsigned char head[kLongestHead]) {
  const size_t name_bytes = strlen(info->name);
  if (name_bytes == 0 || name_bytes > kLongestName || element_bytes(info->element) == 0) return 0;
  head[0] = (unsigned char)name_bytes, head[1] = 0, head[2] = info->element, head[3] = info->rank;
  memcpy(head + 4, info->name, name_bytes);
  for (int i = 0; i < info->rank; ++i) write_u32(head + 4 + name_bytes + 4 * (size_t)i, (uint32_t)info->dims[i]);
  return 4 + name_bytes + 4 * (size_t)info->rank;
}

/* Writes all entries to `stream`, unless it is NULL. Adds to their CRC and size. */
static int write_parameters(const device* d, FILE* stream, uint32_t* crc, size_t* size) {
  for (uint32_t i = 0; i < nacre_parameter_count(&d->model); ++i) {
    unsigned char head[kLongestHead];
    void* values = NULL;
    nacre_tensor_info info = {.size = sizeof info};
    const int failed = status_of("parameter", nacre_trainer_parameter_at(&d->model, &d->trainer, i, &info, &values));
    if (failed) return failed;
    const size_t head_bytes = entry_head(&info, head);
    if (head_bytes == 0) return refused(info.name, "is sent only with a name, in float32 or int8");
    const entry e = {.element = info.element, .values = values};
    if (!all_finite(&e, info.bytes)) return refused(info.name, "training made a NaN or an infinite value");
    *crc = crc32_of(crc32_of(*crc, head, head_bytes), values, (size_t)info.bytes);
    *size += head_bytes + (size_t)info.bytes;
    if (stream != NULL && (fwrite(head, 1, head_bytes, stream) != head_bytes ||
                           fwrite(values, 1, (size_t)info.bytes, stream) != (size_t)info.bytes))
      return refused("update", "cannot be written");
  }
  return 0;
}

/* Writes under another name first, so that the file is whole or does not exist. */
static int write_update(const device* d, const char* path, size_t* size) {
  char part[4096];
  unsigned char header[kHeader];
  uint32_t crc = 0, again = 0;
  size_t written = 0;
  if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part) return refused(path, "is too long a name");
  *size = kHeader;
  int failed = write_parameters(d, NULL, &crc, size);
  if (failed) return failed;
  memcpy(header, kMagic, sizeof kMagic);
  write_u32(header + 8, 1);
  write_u32(header + 12, d->rows);
  write_u32(header + 16, nacre_parameter_count(&d->model));
  write_u32(header + 20, crc);
  FILE* stream = fopen(part, "wb");
  if (stream == NULL) return refused(part, "cannot be written");
  if (fwrite(header, 1, kHeader, stream) != kHeader) failed = refused(part, "cannot be written");
  if (!failed) failed = write_parameters(d, stream, &again, &written);
  if (fclose(stream) != 0 && !failed) failed = refused(part, "cannot be written");
  if (!failed && rename(part, path) != 0) failed = refused(path, "cannot be written");
  if (failed) remove(part);
  return failed;
}

static int open_device(device* d, const file_bytes* model, const char* path, void** memory) {
  const nacre_kernels* const sets[] = {nacre_reference_kernels(), nacre_training_kernels()};
  nacre_sizes sizes = {.size = sizeof sizes};
  nacre_program_info program = {.size = sizeof program};
  uint32_t gradients = 0;
  nacre_status status = nacre_model_open(&d->model, model->bytes, model->size);
  if (status.code == 0) status = nacre_model_find(&d->model, NACRE_GRADIENTS, NULL, &gradients);
  if (status.code == 0) status = nacre_model_program(&d->model, gradients, &program);
  if (status.code == 0) status = nacre_trainer_measure(&d->model, NULL, sets, 2, &sizes);
  if (status.code != 0) return status_of(path, status);
  *memory = aligned_alloc(64, ((size_t)sizes.total / 64 + 1) * 64);
  if (*memory == NULL) return refused(path, "there is not enough memory to train it");
  status = nacre_trainer_bind(&d->trainer, &d->model, NULL, sets, 2, *memory, (size_t)sizes.total);
  if (status.code == 0) status = nacre_trainer_start(&d->trainer);
  d->batch = program.batch;
  if (status.code == 0 && (program.inputs != 2 || program.batch == 0))
    return refused(path, "has not one input and one label for each row");
  return status_of(path, status);
}

static int count_rows(device* d, const file_bytes data[2], char** paths) {
  uint64_t rows[2] = {0, 0};
  for (uint32_t i = 0; i < 2; ++i) {
    size_t size = 0;
    if (nacre_trainer_input(&d->trainer, i, &size) == NULL) return refused(paths[i], "the model has no such input");
    const size_t row = size / d->batch;
    if (data[i].size == 0 || data[i].size % row != 0) return refused(paths[i], "holds no whole number of rows");
    rows[i] = data[i].size / row;
  }
  if (rows[0] != rows[1] || rows[0] > UINT32_MAX) return refused(paths[1], "holds not as many rows as the samples");
  d->rows = (uint32_t)rows[0];
  return 0;
}

static int same_file(const char* a, const char* b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int main(int count, char** arguments) {
  if (count != 8) {
    fprintf(stderr, "usage: federate train.nacre update|- samples.bin labels.bin epochs rate made\n");
    return 2;
  }
  char *epochs_end = NULL, *rate_end = NULL;
  const unsigned long epochs = strtoul(arguments[5], &epochs_end, 10);
  const float rate = strtof(arguments[6], &rate_end);
  if (*epochs_end != 0 || epochs == 0 || epochs > 1000000) return refused(arguments[5], "is no count of epochs from 1");
  if (*rate_end != 0 || !(rate >= 0 && rate <= 1e6f)) return refused(arguments[6], "is no learning rate from 0");
  for (int i = 1; i < 5; ++i)
    if (same_file(arguments[i], arguments[7])) return refused(arguments[7], "is an input; give another file");

  static device d;
  file_bytes model = {NULL, 0}, data[2] = {{NULL, 0}, {NULL, 0}};
  void* memory = NULL;
  float loss = 0;
  size_t size = 0;
  int failed = read_file(arguments[1], &model);
  for (int i = 0; !failed && i < 2; ++i) failed = read_file(arguments[3 + i], &data[i]);
  if (!failed) failed = open_device(&d, &model, arguments[1], &memory);
  if (!failed) failed = count_rows(&d, data, arguments + 3);
  if (!failed && strcmp(arguments[2], "-") != 0) failed = take_update(&d, arguments[2]);
  if (!failed) failed = train(&d, data, (uint32_t)epochs, rate, &loss);
  if (!failed) failed = write_update(&d, arguments[7], &size);
  if (!failed)
    printf("%" PRIu32 " rows, %lu epochs, loss %.9g: update of %zu bytes, %" PRIu32 " parameters\n", d.rows, epochs,
           (double)loss, size, nacre_parameter_count(&d.model));
  free(memory);
  free(model.bytes);
  for (int i = 0; i < 2; ++i) free(data[i].bytes);
  return failed;
}
