// OutputFiles: files of one directory that appear together or not at all, for commands that write several.
//
//   OutputFiles files("out");  files.add("y.npy", bytes);  files.stage();  files.commit();
//
// stage() writes all files into a temporary directory. commit() makes the directory and its parents and renames the
// files. If stage() fails or a signal comes (write_together), nothing is left. Files renamed before a failure stay.
#pragma once

#include <signal.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace nacre::tools {

// While it lives, SIGINT, SIGTERM and SIGHUP wait, so that they do not interrupt the writing of files.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_;
};

// Makes the directory `path` and its parents, as far as they do not exist. The destructor removes them again, as far
// as they are empty, unless keep() was called. Refuses ".." after a directory that does not exist, which leads
// nowhere.
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
  // Throws if the path is no directory and cannot become one. Makes nothing.
  explicit OutputFiles(const std::string& directory);
  ~OutputFiles();
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  // Returns the name that the file gets: `name`, or if that is taken, `name` with a number before its extension.
  std::string add(const std::string& name, std::vector<uint8_t> bytes);
  std::vector<std::string> paths() const;  // of all files added so far
  const std::string& directory() const { return directory_; }
  void stage();
  void commit();
  void discard();  // removes the staged files

 private:
  std::string staged() const;

  std::string directory_;
  std::string first_made_;  // the outermost directory that did not exist, or "" if all did
  std::string staging_;     // temporary directory, for first_made_ or in directory_; "": none
  std::vector<std::pair<std::string, std::vector<uint8_t>>> files_;
};

// Writes the files of several OutputFiles: stages all, then commits all, while signals wait. If a signal waits while
// files are staged, stops, and nothing is left. Refuses beforehand a file that two of them write, or that another one
// needs as a directory.
void write_together(std::span<OutputFiles* const> all);

}  // namespace nacre::tools
