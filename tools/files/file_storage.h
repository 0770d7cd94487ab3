// FileStorage: checkpoints in two files of a directory (ports/files/checkpoint_files.h), as the commands open them.
//
//   FileStorage files(directory);                           // to save to: made where it is missing, parents too
//   FileStorage files(directory, FileStorage::Use::kRead);  // to load from
//   Checkpoint checkpoint(files.storage(model));
//
// What was made to save to, and into which nothing was saved, is removed again.
#pragma once

#include <memory>
#include <string>

#include "ports/files/checkpoint_files.h"
#include "tools/files/output_files.h"

namespace nacre::tools {

class FileStorage {
 public:
  using Use = CheckpointFiles::Use;

  explicit FileStorage(const std::string& directory, Use use = Use::kSave);  // throws Error
  ~FileStorage();
  FileStorage(const FileStorage&) = delete;
  FileStorage& operator=(const FileStorage&) = delete;

  nacre::Storage storage(const Model& model) { return files_.storage(model); }

  // The last failure in words, or empty.
  // What to do about it, of the limit that was hit.
  std::string remedy() const;
  std::string problem() const { return files_.problem().place.empty() ? "" : files_.problem().sentence(); }

 private:
  std::unique_ptr<NewDirectories> made_directories_;
  CheckpointFiles files_;
};

}  // namespace nacre::tools
