// A file that a user named, to read from: every file that a command reads is opened here.
//
// "-" is standard input, which is read whole when it is first asked for, and stays.
//
// Else only regular files are: a folder, a pipe, a socket or a device is refused by name, without waiting for it.
// Memory is taken for what is read, never for what a file claims to hold.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nacre::tools {

inline constexpr uint64_t kMostFileBytes = uint64_t{4} << 30;
inline constexpr size_t kHeadBytes = 4096;

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
  int file_ = -1;
  uint64_t size_ = 0;
  std::span<const std::byte> piped_;  // of standard input
};

inline constexpr const char* kStandardStream = "-";  // the path of standard input, or output

// All bytes of a file of at most `most_bytes`. Where `begins` says of the first kHeadBytes that what is wanted does not
// begin so, they are all that is returned: whoever refuses them need not wait for the rest.
std::vector<uint8_t> read_file(const std::string& path, uint64_t most_bytes = kMostFileBytes,
                               bool (*begins)(std::span<const uint8_t> head) = nullptr);

// "" of a regular file; else what it is: "is a directory", "is a pipe", ...
const char* not_a_file(mode_t mode);

}  // namespace nacre::tools
