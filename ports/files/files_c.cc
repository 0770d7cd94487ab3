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

}  // namespace

extern "C" {

nacre_checkpoint_files* nacre_checkpoint_files_open(const char* directory, int save, const nacre_model* model,
                                                    nacre_storage* storage, char* why, size_t why_size) {
  using nacre::CheckpointFiles;
  say("", why, why_size);
  if (directory == nullptr || model == nullptr || storage == nullptr || storage->size < sizeof *storage) {
    say("an argument is NULL, or the size of the storage is not set", why, why_size);
    return nullptr;
  }
  try {
    auto made = std::make_unique<nacre_checkpoint_files>();
    if (!made->files.open(directory, save != 0 ? CheckpointFiles::Use::kSave : CheckpointFiles::Use::kRead)) {
      say(made->files.problem().sentence(), why, why_size);
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
  } catch (const std::bad_alloc&) {
    say("there is no memory to open the folder", why, why_size);
    return nullptr;
  }
}

const char* nacre_checkpoint_files_problem(const nacre_checkpoint_files* files) {
  if (files == nullptr) return "";
  auto* const own = const_cast<nacre_checkpoint_files*>(files);  // the sentence is stored there
  const auto& problem = files->files.problem();
  own->problem = problem.place.empty() ? std::string() : problem.sentence();
  return files->problem.c_str();
}

void nacre_checkpoint_files_close(nacre_checkpoint_files* files) { delete files; }

}  // extern "C"
