// AtomicFile: a file that is written whole or not at all.
//
//   AtomicFile file(path);  file.write(bytes);  ...  file.commit();
//
// The bytes go to a temporary file in the same directory, which commit() flushes to the disk and renames. Until then
// `path` is untouched. If an exception, a full disk, SIGINT, SIGTERM or SIGHUP comes earlier, the temporary file is
// removed. A link is followed; an existing file keeps its permissions. A device or a pipe is written directly,
// because it cannot be replaced; a pipe that nobody reads is refused. "-" is standard output, which gets all bytes in
// commit(). Every failure is an Error(kIo).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nacre::tools {

class AtomicFile {
 public:
  // `patience_ms`: how long the reader of a pipe may take nothing before the write fails; -1: no limit.
  explicit AtomicFile(const std::string& path, int patience_ms = -1);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const uint8_t> bytes);
  void write(std::string_view text);
  void flush();  // flushes to the disk; after it only the renaming can fail
  void commit();

 private:
  void open_temporary();
  void write_to_file(std::span<const uint8_t> bytes);
  [[noreturn]] void fail(const char* what, int error);
  void discard();

  std::string path_;    // as the caller named it
  std::string target_;  // links resolved
  int file_ = -1;
  int slot_ = -1;  // slot of the temporary file's name; -1: written directly
  bool named_pipe_ = false;
  int patience_ms_;
  bool piped_ = false;              // "-": commit() writes
  std::vector<uint8_t> collected_;  // these bytes to standard output
};

// From now on those of SIGINT, SIGTERM, SIGHUP and SIGPIPE that are not handled or ignored yet remove the temporary
// files before they end the process. AtomicFile's constructor calls it too. It does nothing if there is a caller
// (base/caller.h), which handles signals itself. A command that installs its own handlers calls it before.
void remove_temporaries_on_signals();

// Removes temporary files and ends the process by this signal, as if nobody handled it. Signal handlers may call it.
void end_by_signal(int signal);

// Returns the remedy for a write that failed with this errno.
std::string remedy_of_write(int error);

// Throws Error if the directory of `path` does not exist. Commands call it before long work whose result goes there.
void require_directory_of(const std::string& path);

void write_file_whole(const std::string& path, std::span<const uint8_t> bytes);
void write_file_whole(const std::string& path, std::string_view text, int patience_ms = -1);

// Writes all of several files, in any directories, or none.
struct WholeFile {
  std::string path;
  std::span<const uint8_t> bytes;
};
void write_files_whole(std::span<const WholeFile> files);

}  // namespace nacre::tools
