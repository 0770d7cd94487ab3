#include "ports/files/files_c.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "engine/c_api.h"
#include "ports/files/checkpoint_files.h"

struct nacre_checkpoint_files {
  nacre::CheckpointFiles files;
  nacre::Storage storage;
  std::string problem;
};

namespace {

const nacre::Storage& of(void* context) { return static_cast<nacre_checkpoint_files*>(context)->storage; }

void say(const std::string& sentence, char* why, size_t size) {
  if (why == nullptr || size == 0) return;
  const size_t count = std::min(sentence.size(), size - 1);
  std::memcpy(why, sentence.data(), count);
  why[count] = 0;
}

nacre_checkpoint_files* opened(const char* directory, int save, const nacre_model* model, nacre_storage* storage,
                               nacre::CheckpointFiles::Problem* problem) {
  using nacre::CheckpointFiles;
  if (directory == nullptr || model == nullptr || storage == nullptr || storage->size < sizeof *storage) return nullptr;
  try {
    auto made = std::make_unique<nacre_checkpoint_files>();
    if (!made->files.open(directory, save != 0 ? CheckpointFiles::Use::kSave : CheckpointFiles::Use::kRead)) {
      *problem = made->files.problem();
      return nullptr;
    }
    const nacre::Storage& s = made->storage = made->files.storage(nacre::of(model));
    storage->program_bytes = s.program_bytes;
    storage->erase_bytes = s.erase_bytes;
    storage->bytes = s.bytes;
    storage->context = made.get();
    storage->read = [](void* c, uint64_t at, void* to, size_t size) {
      return int(of(c).read(of(c).context, at, {static_cast<std::byte*>(to), size}));
    };
    storage->program = [](void* c, uint64_t at, const void* from, size_t size) {
      return int(of(c).program(of(c).context, at, {static_cast<const std::byte*>(from), size}));
    };
    storage->erase = [](void* c, uint64_t at) { return int(of(c).erase(of(c).context, at)); };
    storage->flush = [](void* c) { return int(of(c).flush(of(c).context)); };
    storage->filled = [](void* c, uint64_t at) { return of(c).filled(of(c).context, at); };
    return made.release();
  } catch (const std::bad_alloc&) {  // these texts need no memory
    *problem = {};
    problem->place = "memory";
    problem->fact = "is used up";
    return nullptr;
  }
}

std::string sentence_of(const nacre::CheckpointFiles::Problem& problem) {
  return problem.place.empty() ? "an argument is NULL, or the size of the storage is not set" : problem.sentence();
}

}  // namespace

extern "C" {

nacre_checkpoint_files* nacre_checkpoint_files_open(const char* directory, int save, const nacre_model* model,
                                                    nacre_storage* storage, char* why, size_t why_size) {
  nacre::CheckpointFiles::Problem problem;
  nacre_checkpoint_files* const files = opened(directory, save, model, storage, &problem);
  say(files != nullptr ? "" : sentence_of(problem), why, why_size);
  return files;
}

nacre_checkpoint_files* nacre_checkpoint_files_open_with(const char* directory, int save, const nacre_model* model,
                                                         nacre_storage* storage, nacre_files_problem* problem) {
  nacre::CheckpointFiles::Problem found;
  nacre_checkpoint_files* const files = opened(directory, save, model, storage, &found);
  if (problem == nullptr || !nacre::usable(problem)) return files;
  nacre_files_problem told = {};
  if (files == nullptr) {
    told.no_checkpoints = found.no_checkpoints;
    told.error = found.error;
    say(sentence_of(found), told.sentence, sizeof told.sentence);
  }
  nacre::give(told, problem);
  return files;
}

const char* nacre_checkpoint_files_problem(const nacre_checkpoint_files* files) {
  if (files == nullptr) return "";
  auto* const own = const_cast<nacre_checkpoint_files*>(files);  // the sentence is stored there
  const auto& problem = files->files.problem();
  own->problem = problem.place.empty() ? std::string() : problem.sentence();
  return files->problem.c_str();
}

int nacre_checkpoint_files_begin_anew(nacre_checkpoint_files* files) {
  return files == nullptr ? 0 : int(files->files.begin_anew());
}
int nacre_checkpoint_files_there(nacre_checkpoint_files* files) {
  return files == nullptr ? 0 : int(files->files.there());
}
int nacre_checkpoint_files_saved(const nacre_checkpoint_files* files) {
  return files == nullptr ? 0 : int(files->files.saved());
}
int nacre_checkpoint_files_unsaved(const nacre_checkpoint_files* files) {
  return files == nullptr ? 0 : int(files->files.unsaved());
}
int nacre_checkpoint_files_made(const nacre_checkpoint_files* files) {
  return files == nullptr ? 0 : int(files->files.made());
}

void nacre_checkpoint_files_close(nacre_checkpoint_files* files) { delete files; }

}  // extern "C"
