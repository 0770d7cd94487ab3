/* A nacre_storage over files, for C on POSIX systems: checkpoints in two files of a directory (checkpoint_files.h).
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

/* Opens the files and fills `storage`, whose size the caller set. If `save` is not 0, opens them for saving, else for
 * loading. The directory must exist. Returns NULL if it refuses; then `why`, of why_size bytes, holds a sentence that
 * says so. `why` may be NULL. Allocates. */
nacre_checkpoint_files* nacre_checkpoint_files_open(const char* directory, int save, const nacre_model* model,
                                                    nacre_storage* storage, char* why, size_t why_size);
/* Returns the last failure of a call on the storage; "" if nothing failed. */
const char* nacre_checkpoint_files_problem(const nacre_checkpoint_files* files);
void nacre_checkpoint_files_close(nacre_checkpoint_files* files); /* does nothing for NULL */

#ifdef __cplusplus
}
#endif
#endif
