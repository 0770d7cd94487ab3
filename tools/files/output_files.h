// Files of one directory that appear together or not at all: what a command writes when it makes several.
//
//   OutputFiles files("out");  files.add("y.npy", bytes);  files.stage();  files.commit();
//
// stage() writes everything beside its place, commit() only renames. The directory and what leads to it are made then.
// Nothing is left where one of them fails, or where a signal comes between them: see write_together.
#pragma once

#include <signal.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace nacre::tools {

// SIGINT, SIGTERM and SIGHUP wait for the end of its life: for the moment in which files are written.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_;
};

// The directories that lead to `path`, and itself, where they are not there yet: made now, and removed again as far as
// they are empty unless what is put into them is kept. ".." behind a directory that is not there leads nowhere: that is
// refused.
class NewDirectories {
 public:
  NewDirectories() = default;
  explicit NewDirectories(const std::string& path);
  ~NewDirectories();
  NewDirectories(const NewDirectories&) = delete;
  NewDirectories& operator=(const NewDirectories&) = delete;

  void keep() { made_.clear(); }

 private:
  void remove();

  std::vector<std::string> made_;  // the outermost first
};

class OutputFiles {
 public:
  // throws if that is no directory and cannot become one; makes nothing
  explicit OutputFiles(const std::string& directory);
  ~OutputFiles();
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  // Returns the name it will have: `name`, or with a number before its extension where that is taken.
  std::string add(const std::string& name, std::vector<uint8_t> bytes);
  std::vector<std::string> paths() const;  // of all that was added
  const std::string& directory() const { return directory_; }
  void stage();
  void commit();
  void discard();  // what was staged

 private:
  std::string staged() const;

  std::string directory_;
  std::string first_made_;  // the outermost directory that was not there before, or "": all were
  std::string staging_;     // stands for it until commit(), or lies in directory_; "": none
  std::vector<std::pair<std::string, std::vector<uint8_t>>> files_;
};

// All of several directories, or none: staged, then committed, while signals wait. One that waits meanwhile ends it
// before the next file, with nothing left. A file that another of them writes, or that another needs as a directory, is
// refused before that.
void write_together(std::span<OutputFiles* const> all);

}  // namespace nacre::tools
