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
  if (const char* const other = not_a_file(mode); *other != 0) throw Error(kIo, path, other, "name a file");
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

InputFile::~InputFile() { close(file_); }

size_t InputFile::read(uint64_t offset, std::span<std::byte> to) const {
  size_t done = 0;
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
