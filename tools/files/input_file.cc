#include "tools/files/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "tools/base/error.h"

namespace nacre::tools {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw Error(kIo, path, fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

void require_file(const std::string& path, mode_t mode) {
  if (const char* const other = not_a_file(mode); *other != 0)
    throw Error(kIo, path, other, S_ISFIFO(mode) ? "name a file, or - for standard input" : "name a file");
}

// All of standard input: it can be read once, and a file is opened more than once.
std::span<const std::byte> standard_input() {
  static const std::vector<std::byte> all = [] {
    if (isatty(STDIN_FILENO) == 1)
      throw Error(kUsage, kStandardStream, "is standard input, and that is a terminal", "name a file, or pipe one in");
    std::vector<std::byte> bytes;
    for (size_t end = 0;;) {
      bytes.resize(std::max(2 * end, size_t{1} << 16));
      const ssize_t count = read(STDIN_FILENO, bytes.data() + end, bytes.size() - end);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("standard input", "cannot be read");
      end += size_t(count);
      if (end > kMostFileBytes)
        throw Error(kUnsupported, "standard input", fmt::format("has more than {} bytes", kMostFileBytes));
      if (count != 0) continue;
      bytes.resize(end);
      return bytes;
    }
  }();
  return all;
}

}  // namespace

const char* not_a_file(mode_t mode) {
  if (S_ISREG(mode)) return "";
  if (S_ISDIR(mode)) return "is a directory";
  if (S_ISFIFO(mode)) return "is a pipe";
  if (S_ISSOCK(mode)) return "is a socket";
  return "is a device, which may never end";
}

// Looked at before it is opened, because opening a device may do something, and after, because it may be another by
// then.
InputFile::InputFile(const std::string& path) : path_(path) {
  if (path == kStandardStream) {
    piped_ = standard_input();
    size_ = piped_.size();
    return;
  }
  struct stat status;
  if (stat(path.c_str(), &status) != 0) fail(path, "cannot be opened");
  require_file(path, status.st_mode);
  file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file_ < 0) fail(path, "cannot be opened");
  if (fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file_);
    throw Error(kIo, path, "was replaced while it was opened", "name a file");
  }
  size_ = uint64_t(status.st_size);
}

InputFile::~InputFile() {
  if (file_ >= 0) close(file_);
}

size_t InputFile::read(uint64_t offset, std::span<std::byte> to) const {
  size_t done = 0;
  if (path_ == kStandardStream) {
    done = offset < size_ ? std::min(to.size(), size_t(size_ - offset)) : 0;
    std::copy_n(piped_.begin() + std::ptrdiff_t(offset < size_ ? offset : size_), done, to.begin());
    return done;
  }
  while (done < to.size()) {
    const ssize_t count = pread(file_, to.data() + done, to.size() - done, off_t(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path_, "cannot be read");
    if (count == 0) break;
    done += size_t(count);
  }
  return done;
}

// A file may be longer than it says (those in /proc say 0): the end is where nothing more is read.
std::vector<uint8_t> read_file(const std::string& path, uint64_t most_bytes,
                               bool (*begins)(std::span<const uint8_t> head)) {
  const InputFile file(path);
  std::vector<uint8_t> bytes(kHeadBytes);
  bytes.resize(file.read(0, bytes));
  if (bytes.size() < kHeadBytes || (begins != nullptr && !begins(bytes))) return bytes;
  const auto require = [&](uint64_t size) {
    if (size > most_bytes) throw Error(kUnsupported, path, fmt::format("has more than {} bytes", most_bytes));
  };
  require(file.size());
  bytes.reserve(size_t(file.size()) + 1);
  for (size_t count = 1; count > 0;) {
    const size_t end = bytes.size();
    bytes.resize(std::max(bytes.capacity(), end + kHeadBytes));
    count = file.read(end, std::span(bytes).subspan(end));
    bytes.resize(end + count);
    require(bytes.size());
  }
  return bytes;
}

}  // namespace nacre::tools
