// Preloaded into a program, ends it at a counted place, as a cut of power would: at call N of those that change a file
// whose path holds FILES. The calls before it are done, a write is done by half. So a test cuts at the same places
// however fast the machine is.
//
//   LD_PRELOAD=libpower_cut.so POWER_CUT_FILES=FILES POWER_CUT_AT=N PROGRAM..
//       POWER_CUT_SIGNAL=S: that signal instead of SIGKILL
//   LD_PRELOAD=libpower_cut.so POWER_CUT_FILES=FILES POWER_CUT_COUNT=PATH PROGRAM..
//       no cut: writes to PATH how many calls there are
#undef _FILE_OFFSET_BITS  // else write64 and write are one name
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static long calls;

static void* next(const char* name) {
  void* const function = dlsym(RTLD_NEXT, name);
  if (function == NULL) abort();
  return function;
}

static long number(const char* name) {
  const char* const text = getenv(name);
  return text == NULL ? 0 : strtol(text, NULL, 10);
}

// Counts a call on `path`. Returns 0 to go on, or the signal that cuts the call.
static int cut(const char* path) {
  const char* const files = getenv("POWER_CUT_FILES");
  if (files == NULL || strstr(path, files) == NULL || ++calls != number("POWER_CUT_AT")) return 0;
  const long given = number("POWER_CUT_SIGNAL");
  return given == 0 ? SIGKILL : (int)given;
}

static int cut_file(int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return cut(path);
}

static void end(int signal) {
  if (signal != 0) kill(getpid(), signal);
}

ssize_t write(int file, const void* data, size_t bytes) {
  ssize_t (*const real)(int, const void*, size_t) = next("write");
  const int signal = cut_file(file);
  if (signal == SIGKILL && real(file, data, bytes / 2) < 0) abort();
  end(signal);
  return real(file, data, bytes);
}

#define POSITIONED_WRITE(name, offset_type)                                     \
  ssize_t name(int file, const void* data, size_t bytes, offset_type at) {      \
    ssize_t (*const real)(int, const void*, size_t, offset_type) = next(#name); \
    const int signal = cut_file(file);                                          \
    if (signal == SIGKILL && real(file, data, bytes / 2, at) < 0) abort();      \
    end(signal);                                                                \
    return real(file, data, bytes, at);                                         \
  }
POSITIONED_WRITE(pwrite, off_t)
POSITIONED_WRITE(pwrite64, off64_t)

#define TRUNCATION(name, offset_type)                  \
  int name(int file, offset_type bytes) {              \
    int (*const real)(int, offset_type) = next(#name); \
    end(cut_file(file));                               \
    return real(file, bytes);                          \
  }
TRUNCATION(ftruncate, off_t)
TRUNCATION(ftruncate64, off64_t)

int fsync(int file) {
  int (*const real)(int) = next("fsync");
  end(cut_file(file));
  return real(file);
}

int unlinkat(int folder, const char* name, int flags) {
  int (*const real)(int, const char*, int) = next("unlinkat");
  end(cut_file(folder));
  return real(folder, name, flags);
}

int rename(const char* from, const char* to) {
  int (*const real)(const char*, const char*) = next("rename");
  end(cut(to));
  return real(from, to);
}

__attribute__((destructor)) static void tell(void) {
  const char* const path = getenv("POWER_CUT_COUNT");
  FILE* const file = path == NULL || calls == 0 ? NULL : fopen(path, "w");
  if (file == NULL) return;
  fprintf(file, "%ld\n", calls);
  fclose(file);
}
