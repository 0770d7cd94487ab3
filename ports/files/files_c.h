/* A file-backed nacre_storage on POSIX systems, for C: checkpoints in two files of a directory (checkpoint_files.h).
 *
 *   nacre_storage storage = {sizeof storage};
 *   char why[256];
 *   nacre_checkpoint_files* files = nacre_checkpoint_files_open("run", 1, &model, &storage, why, sizeof why);
 *   if (files == NULL) puts(why); else nacre_checkpoint_save(&model, &trainer, &storage, 0, NULL, 0);
 *   nacre_checkpoint_files_close(files);
 */
#ifndef NACRE_FILES_C_H
#define NACRE_FILES_C_H

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nacre_checkpoint_files nacre_checkpoint_files;

/* Fills `storage`, whose size is set. `save` not 0: to save to; else to load from. The directory must be there. NULL:
 * refused, and `why`, of why_size bytes, says it in a sentence; it may be NULL. Allocates. */
nacre_checkpoint_files* nacre_checkpoint_files_open(const char* directory, int save, const nacre_model* model,
                                                    nacre_storage* storage, char* why, size_t why_size);
/* The last failure of a call on the storage, "" where nothing failed. */
const char* nacre_checkpoint_files_problem(const nacre_checkpoint_files* files);
void nacre_checkpoint_files_close(nacre_checkpoint_files* files); /* NULL: nothing happens */

#ifdef __cplusplus
}
#endif
#endif
