#include "tools/files/command_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tools/base/error.h"
#include "tools/base/print.h"
#include "tools/base/standard_streams.h"
#include "tools/files/input_file.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;

// Returns the path where a file would be made: links are followed, also a last one that leads to nothing yet.
std::string link_target(fs::path path) {
  constexpr int kMostLinks = 40;  // as Linux has it
  std::error_code error;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, error); ++i)
    path = path.parent_path() / fs::read_symlink(path, error);
  const fs::path place = fs::weakly_canonical(fs::absolute(path, error), error);
  return (place.has_filename() ? place : place.parent_path()).string();  // "out/" is "out"
}

}  // namespace

bool CommandFiles::File::operator==(const File& other) const {
  if (there != other.there) return false;
  return there ? device == other.device && inode == other.inode : place == other.place;
}

CommandFiles::File CommandFiles::file_of(const std::string& option, const std::string& path) {
  struct stat found = {};
  const bool there = stat(path.c_str(), &found) == 0;
  return {.option = option,
          .there = there,
          .device = found.st_dev,
          .inode = found.st_ino,
          .place = there ? "" : link_target(path)};
}

void CommandFiles::require_other(const File& file, const std::string& path, const std::vector<File>& files) {
  std::error_code error;
  if (file.there && fs::is_other(path, error)) return;
  const auto same = std::ranges::find(files, file);
  if (same == files.end()) return;
  throw Error(kUsage, path, fmt::format("is what {} names: it would be overwritten", same->option),
              fmt::format("name another with {}", file.option));
}

void CommandFiles::add_input(const std::string& option, const std::string& path) {
  if (path == kStandardStream) {
    if (!reads_standard_input_.empty())
      throw Error(kUsage, option, fmt::format("is standard input, which {} reads", reads_standard_input_),
                  "name a file with one of them");
    reads_standard_input_ = option;
    struct stat found = {};
    if (fstat(STDIN_FILENO, &found) != 0 || !S_ISREG(found.st_mode)) return;
    inputs_.push_back({.option = option, .there = true, .device = found.st_dev, .inode = found.st_ino, .place = ""});
    return require_no_standard_output(inputs_.back());
  }
  std::error_code error;
  if (!fs::exists(path, error)) return;
  inputs_.push_back(file_of(option, path));
  require_no_standard_output(inputs_.back());
  for (const std::string& file : npy_files(path)) inputs_.push_back(file_of(option, file));
}

// Refuses an input file to which standard output is redirected (for example by >> or <>), because printed text would
// change it.
void CommandFiles::require_no_standard_output(const File& input) {
  struct stat printed = {};
  if (fstat(STDOUT_FILENO, &printed) != 0 || !S_ISREG(printed.st_mode) || printed.st_dev != input.device ||
      printed.st_ino != input.inode)
    return;
  throw Error(kUsage, "standard output",
              fmt::format("is the file that {} names: it would be overwritten", input.option),
              "redirect standard output to another file");
}

// Refuses an output file on which standard output is open, because the command prints its report there. Devices that
// are no terminal are allowed: text printed to the null device is lost in any case.
void CommandFiles::require_not_printed_to(const File& file, const std::string& path) {
  struct stat printed = {};
  if (!file.there || fstat(STDOUT_FILENO, &printed) != 0 || printed.st_dev != file.device ||
      printed.st_ino != file.inode)
    return;
  if (S_ISCHR(printed.st_mode) && isatty(STDOUT_FILENO) == 0) return;
  throw Error(kUsage, path, "is standard output, where this command prints what it did",
              fmt::format("name a file with {}, or - for standard output", file.option));
}

void CommandFiles::add_output(const std::string& option, const std::string& path) {
  if (path == kStandardStream) {
    if (!writes_standard_output_.empty())
      throw Error(kUsage, option, fmt::format("is standard output, which {} writes", writes_standard_output_),
                  "name a file with one of them");
    if (standard_output_was_closed())
      throw Error(kIo, option, "is standard output, and that is closed", "name a file, or redirect it");
    if (isatty(STDOUT_FILENO) == 1)
      throw Error(kUsage, option, "is standard output, and that is a terminal", "name a file, or redirect it");
    writes_standard_output_ = option;
    print_to_standard_error();
    return;
  }
  print_to_the_end();
  require_no_input(option, path);
  const File file = file_of(option, path);
  require_not_printed_to(file, path);
  require_other(file, path, outputs_);
  outputs_.push_back(file);
}

void CommandFiles::require_no_input(const std::string& option, const std::string& path) const {
  require_other(file_of(option, path), path, inputs_);
}

}  // namespace nacre::tools
