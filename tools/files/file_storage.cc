#include "tools/files/file_storage.h"

#include <cerrno>

#include "tools/base/error.h"
#include "tools/files/atomic_file.h"

namespace nacre::tools {

FileStorage::FileStorage(const std::string& directory, Use use) {
  if (use == Use::kSave) made_directories_ = std::make_unique<NewDirectories>(directory);
  if (files_.open(directory, use)) return;
  const CheckpointFiles::Problem& problem = files_.problem();
  throw Error(problem.no_checkpoints ? kUsage : kIo, problem.place, problem.fact, remedy());
}

std::string FileStorage::remedy() const {
  const CheckpointFiles::Problem& problem = files_.problem();
  if (problem.error != 0 && problem.error != EWOULDBLOCK) return remedy_of_write(problem.error);
  return problem.remedy.empty() ? "name another directory" : problem.remedy;
}

void FileStorage::begin_anew() {
  if (files_.begin_anew()) return;
  const CheckpointFiles::Problem& problem = files_.problem();
  throw Error(kIo, problem.place, problem.fact, remedy());
}

FileStorage::~FileStorage() {
  files_.close();
  if (made_directories_ && files_.saved()) made_directories_->keep();
}

}  // namespace nacre::tools
