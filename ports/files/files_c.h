/* A nacre_storage over files, for C on POSIX systems: checkpoints in two files of a directory (checkpoint_files.h).
 *
 * Example:
 *   nacre_storage storage = {.size = sizeof storage};
 *   char why[256];
 *   nacre_checkpoint_files* files = nacre_checkpoint_files_open("run", 1, &model, &storage, why, sizeof why);
 *   if (files == NULL) return puts(why);
 *   if (nacre_checkpoint_save(&model, &trainer, &storage, 0, NULL, 0).code != 0)
 *     puts(nacre_checkpoint_files_problem(files));
 *   nacre_checkpoint_files_close(files);
 */
#ifndef NACRE_FILES_C_H
#define NACRE_FILES_C_H

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nacre_checkpoint_files nacre_checkpoint_files;

/* Opens the files and fills `storage`, whose size the caller set; the storage is usable until close. If `save` is not
 * 0, opens them for saving, else for loading checkpoints of `model`, which must be opened. The directory must exist.
 * Returns NULL if it refuses; then `why`, of why_size bytes, holds a sentence that says so, cut to that length and
 * ended with a 0. `why` may be NULL. Allocates. */
nacre_checkpoint_files* nacre_checkpoint_files_open(const char* directory, int save, const nacre_model* model,
                                                    nacre_storage* storage, char* why, size_t why_size);
/* Returns the last failure of a call on the storage; "" if nothing failed. The text is valid until the next call. */
const char* nacre_checkpoint_files_problem(const nacre_checkpoint_files* files);

/* Since version 4. */
typedef struct {
  uint32_t size;           /* set to sizeof(nacre_files_problem) before the call */
  uint32_t no_checkpoints; /* 1: opened for loading, and the directory has none */
  int32_t error;           /* errno, if the system refused; else 0 */
  uint32_t reserved;
  char sentence[496]; /* "run/slot0.checkpoint: is a pipe: name another directory, or remove it" */
} nacre_files_problem;
/* Does as nacre_checkpoint_files_open, and tells more if it returns NULL. `problem` may be NULL. */
nacre_checkpoint_files* nacre_checkpoint_files_open_with(const char* directory, int save, const nacre_model* model,
                                                         nacre_storage* storage, nacre_files_problem* problem);
/* Makes all existing checkpoints void, for a training that begins anew. Returns 0 if it failed. */
int nacre_checkpoint_files_begin_anew(nacre_checkpoint_files* files);
/* Returns 1 if the slots are still the files with their names. */
int nacre_checkpoint_files_there(nacre_checkpoint_files* files);
int nacre_checkpoint_files_saved(const nacre_checkpoint_files* files);   /* 1: a whole one was saved since open */
int nacre_checkpoint_files_unsaved(const nacre_checkpoint_files* files); /* 1: no checkpoint is whole yet */
int nacre_checkpoint_files_made(const nacre_checkpoint_files* files);    /* 1: no slot existed before */

void nacre_checkpoint_files_close(nacre_checkpoint_files* files); /* does nothing for NULL */

#ifdef __cplusplus
}
#endif
#endif
