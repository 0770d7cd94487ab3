// The files of one command: what it is given to read, and what it is to write. None of the second is one of the first,
// and none is written twice. Two paths are one file by device and inode, so through links and other spellings too;
// where nothing is there yet, by the place that they lead to. Devices and pipes are never overwritten. "-" is standard
// input, which one option reads, or standard output, which one option writes; what the command prints then goes to
// standard error.
//
//   CommandFiles files;
//   files.add_input("MODEL", "m.nacre");
//   files.add_output("--svg", "m.svg");  // throws Error(kUsage) if it is one of the others
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace nacre::tools {

class CommandFiles {
 public:
  // Adds a path that the command reads. If the path is a folder, its .npy files are added too. A path that does not
  // exist is ignored. `option` names the path in refusals.
  void add_input(const std::string& option, const std::string& path);
  // Also a folder into which files are written. Call it after the inputs.
  void add_output(const std::string& option, const std::string& path);
  // For the files of such a folder, once their names are known.
  void require_no_input(const std::string& option, const std::string& path) const;

 private:
  struct File {
    std::string option;
    bool there;  // with a device and an inode; else with a place
    dev_t device;
    ino_t inode;
    std::string place;

    bool operator==(const File& other) const;
  };
  static File file_of(const std::string& option, const std::string& path);
  static void require_no_standard_output(const File& input);
  static void require_not_printed_to(const File& file, const std::string& path);
  static void require_other(const File& file, const std::string& path, const std::vector<File>& files);

  std::vector<File> inputs_, outputs_;
  std::string reads_standard_input_, writes_standard_output_;  // options; "": none
};

}  // namespace nacre::tools
