// FileStorage: checkpoints in two files of a directory (ports/files/checkpoint_files.h), for the commands.
//
//   FileStorage files(directory);                           // to save to: makes the directory if needed, parents too
//   FileStorage files(directory, FileStorage::Use::kRead);  // to load from
//   Checkpoint checkpoint(files.storage(model));
//
// If the directory was made for saving and nothing was saved into it, it is removed again.
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

  // CheckpointFiles describes these functions. begin_anew() throws Error if that function returns false.
  void begin_anew();
  bool there() { return files_.there(); }
  bool unsaved() const { return files_.unsaved(); }
  bool made() const { return files_.made(); }

  // Returns the last failure, or "".
  std::string problem() const {
    const CheckpointFiles::Problem& problem = files_.problem();
    return problem.place.empty() ? "" : problem.place + ": " + problem.fact;
  }
  std::string remedy() const;  // for the last failure

 private:
  std::unique_ptr<NewDirectories> made_directories_;
  CheckpointFiles files_;
};

}  // namespace nacre::tools
