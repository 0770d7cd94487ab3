// CommandFiles: the files that one command reads and writes. No output may be an input, and none is written twice.
// Two paths are one file if device and inode are equal, so links and other spellings are recognized. If no file exists
// yet, the resolved paths are compared. A device or pipe may be named several times. "-" is standard
// input for one option that reads, and standard output for one option that writes. The command's own text then goes
// to standard error.
//
//   CommandFiles files;
//   files.add_input("MODEL", "m.nacre");
//   files.add_output("--svg", "m.svg");  // throws Error(kUsage) if it is an input or another output
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
  // Adds a path that the command writes, also a folder into which it writes files. Call it after the inputs.
  void add_output(const std::string& option, const std::string& path);
  // Throws Error if `path`, a file in such a folder, is an input.
  void require_no_input(const std::string& option, const std::string& path) const;

 private:
  struct File {
    std::string option;
    bool there;  // true: known by device and inode; false: by `place`, the resolved path
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
  std::string reads_standard_input_, writes_standard_output_;  // the options; "" if none
};

}  // namespace nacre::tools
