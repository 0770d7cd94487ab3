// A file that is written whole or not at all.
//
//   AtomicFile file(path);  file.write(bytes);  ...  file.commit();
//
// The bytes go to a temporary file in the same directory, which commit() flushes to the disk and renames. Until then
// `path` is untouched; whatever ends this earlier (an exception, a full disk, SIGINT, SIGTERM, SIGHUP) removes the
// temporary file. A link is followed, an existing file keeps its permissions. A path that is a device or a pipe is
// written directly: it cannot be replaced; a pipe that nobody reads is refused. "-" is standard output, which is given
// all bytes by commit(). Every failure is an Error(kIo).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nacre::tools {

class AtomicFile {
 public:
  // `patience_ms`: how long the reader of a pipe may take nothing; -1: for ever.
  explicit AtomicFile(const std::string& path, int patience_ms = -1);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const uint8_t> bytes);
  void write(std::string_view text);
  void flush();  // to the disk: what may still fail behind it is the new name
  void commit();

 private:
  void open_temporary();
  void write_to_file(std::span<const uint8_t> bytes);
  [[noreturn]] void fail(const char* what, int error);
  void discard();

  std::string path_;    // as the caller named it
  std::string target_;  // links resolved
  int file_ = -1;
  int slot_ = -1;  // of the temporary's name; -1: none, written directly
  bool named_pipe_ = false;
  int patience_ms_;
  bool piped_ = false;              // to standard output:
  std::vector<uint8_t> collected_;  // by commit()
};

// From now on SIGINT, SIGTERM, SIGHUP and SIGPIPE remove the temporary files before they end the process. The first
// AtomicFile does it too, where there is no caller (base/caller.h), whose signals are its own; a command that has
// handlers of its own for a while does it before.
void remove_temporaries_on_signals();

// Ends the process by this signal, as if nobody handled it, without temporary files. For signal handlers too.
void end_by_signal(int signal);

// Returns the remedy for a write that failed with this errno.
std::string remedy_of_write(int error);

// Refuses a path whose directory is not there, as writing would: before work that would be lost.
void require_directory_of(const std::string& path);

void write_file_whole(const std::string& path, std::span<const uint8_t> bytes);
void write_file_whole(const std::string& path, std::string_view text, int patience_ms = -1);

// All of several files, of any directories, or none.
struct WholeFile {
  std::string path;
  std::span<const uint8_t> bytes;
};
void write_files_whole(std::span<const WholeFile> files);

}  // namespace nacre::tools
