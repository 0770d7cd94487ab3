// A file that a user named, to read from: every file that a command reads is opened here.
//
// "-" is standard input, which is read whole when it is first asked for, and stays.
//
// Else only regular files are: a folder, a pipe, a socket or a device is refused by name, without waiting for it.
// Memory is taken for what is read, never for what a file claims to hold.
//
// While a CommandInputs lives, a path that is opened again gives the file that it gave first, whatever was put in its
// place. A file whose content was changed meanwhile is refused.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nacre::tools {

inline constexpr uint64_t kMostFileBytes = uint64_t{4} << 30;
inline constexpr size_t kHeadBytes = 4096;

class OpenedFile;  // input_file.cc

class InputFile {
 public:
  explicit InputFile(const std::string& path);  // throws Error(kIo)
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  uint64_t size() const { return size_; }

  // The bytes from `offset` on; returns how many there were.
  size_t read(uint64_t offset, std::span<std::byte> to) const;
  size_t read(uint64_t offset, std::span<uint8_t> to) const { return read(offset, std::as_writable_bytes(to)); }

 private:
  std::string path_;
  std::shared_ptr<const OpenedFile> opened_;  // null: standard input
  uint64_t size_ = 0;
  std::span<const std::byte> piped_;  // of standard input
};

// The files that a command of this thread reads, as they are when it begins: small ones are held in memory, of the
// others the opened file is. One stands in another: the inner one counts.
class CommandInputs {
 public:
  static constexpr uint64_t kHeldBytes = uint64_t{64} << 20;  // of all files together
  static constexpr size_t kHeldFiles = 16;                    // that are open

  CommandInputs();
  ~CommandInputs();
  CommandInputs(const CommandInputs&) = delete;
  CommandInputs& operator=(const CommandInputs&) = delete;

  // Holds a file, or a folder's npy_files(). A path without a file is left to whoever reads it. Throws Error(kIo) for a
  // file that cannot be read, or is written to meanwhile.
  void hold(const std::string& path);

  // `resolve()` as it was when the command first asked for `name`: which file a name leads to.
  static std::string first_answer(const std::string& name, const std::function<std::string()>& resolve);

 private:
  friend class InputFile;
  friend std::vector<std::string> npy_files(const std::string& folder);
  std::shared_ptr<const OpenedFile> opened(const std::string& path);

  CommandInputs* before_;
  std::map<std::string, std::shared_ptr<const OpenedFile>> files_;
  std::map<std::string, std::vector<std::string>> folders_;
  std::map<std::string, std::string> answers_;
  uint64_t held_bytes_ = 0;
  size_t held_files_ = 0;
};

// The paths of a folder's files that end in .npy, in order; none where `folder` is no folder. While a CommandInputs
// lives, those that were there first. Throws Error(kIo) of a folder that cannot be listed.
std::vector<std::string> npy_files(const std::string& folder);

inline constexpr const char* kStandardStream = "-";  // the path of standard input, or output

// Returns all bytes of a file and throws Error if the file has more than `most_bytes`. If `begins` is false for the
// first kHeadBytes, the file is of another kind, and only these bytes are returned. So a caller refuses a large file
// without reading the rest.
std::vector<uint8_t> read_file(const std::string& path, uint64_t most_bytes = kMostFileBytes,
                               bool (*begins)(std::span<const uint8_t> head) = nullptr);

// "" of a regular file; else what it is: "is a directory", "is a pipe", ...
const char* not_a_file(mode_t mode);

}  // namespace nacre::tools
