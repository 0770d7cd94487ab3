// InputFile: a file that a user named, opened for reading.
//
// "-" is standard input. It is read whole when it is first asked for, and kept.
//
// Any other path must be a regular file. A folder, pipe, socket or device is refused by name, without waiting for it.
// Memory is allocated for bytes that are read, never for a size that a file claims.
//
// While a CommandInputs lives, opening a path again gives the file that it gave first, whatever has replaced it since
// (for the first kHeldFiles large files). A file that changed while it was read is refused.
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

  // Reads the bytes from `offset` on. Returns how many there were.
  size_t read(uint64_t offset, std::span<std::byte> to) const;
  size_t read(uint64_t offset, std::span<uint8_t> to) const { return read(offset, std::as_writable_bytes(to)); }

 private:
  std::string path_;
  std::shared_ptr<const OpenedFile> opened_;  // null: standard input
  uint64_t size_ = 0;
  std::span<const std::byte> piped_;  // bytes of standard input
};

// Keeps the files that a command of this thread reads as they are when the command begins. The bytes of small files
// are held in memory, large files are held open. If one CommandInputs lives within another, the inner one counts.
class CommandInputs {
 public:
  static constexpr uint64_t kHeldBytes = uint64_t{64} << 20;  // limit for the bytes of all held files together
  static constexpr size_t kHeldFiles = 16;                    // limit for files that are held open

  CommandInputs();
  ~CommandInputs();
  CommandInputs(const CommandInputs&) = delete;
  CommandInputs& operator=(const CommandInputs&) = delete;

  // Holds a file, or the npy_files() of a folder. Ignores a path without a file: its reader reports that. Throws
  // Error(kIo) for a file that cannot be read, or that changes meanwhile.
  void hold(const std::string& path);

  // Returns `resolve()` as it was when the command first asked for `name`: the file that a name leads to.
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

// Returns the paths of a folder's files that end in .npy, in order; none if `folder` is no folder. While a
// CommandInputs lives, returns its first answer for the folder. Throws Error(kIo) if the folder cannot be listed.
std::vector<std::string> npy_files(const std::string& folder);

inline constexpr const char* kStandardStream = "-";  // the path of standard input, or output

// Returns all bytes of a file and throws Error if the file has more than `most_bytes`. If `begins` is false for the
// first kHeadBytes, the file is of another kind, and only these bytes are returned. So a caller refuses a large file
// without reading the rest.
std::vector<uint8_t> read_file(const std::string& path, uint64_t most_bytes = kMostFileBytes,
                               bool (*begins)(std::span<const uint8_t> head) = nullptr);

// Returns "" for a regular file, else the reason for a refusal: "is a directory", "is a pipe", ...
const char* not_a_file(mode_t mode);

}  // namespace nacre::tools
