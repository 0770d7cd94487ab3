#include "tools/files/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "tools/base/error.h"

namespace nacre::tools {
namespace {

thread_local CommandInputs* inputs_of_command = nullptr;

std::string remedy_of_read(int error) {
  switch (error) {
    case EMFILE: return "raise the limit on open files (ulimit -n)";
    case ENFILE: return "this machine has no more open files: end other programs";
    case EACCES:
    case EPERM: return "get the permission to read it";
    case ELOOP: return "its links lead in a circle: name the file itself";
    default: return "";
  }
}

[[noreturn]] void fail(const std::string& path, const char* what) {
  const int error = errno;
  throw Error(kIo, path, fmt::format("{}: {}", what, std::generic_category().message(error)), remedy_of_read(error));
}

void require_file(const std::string& path, mode_t mode) {
  if (const char* const other = not_a_file(mode); *other != 0)
    throw Error(kIo, path, other, S_ISFIFO(mode) ? "name a file, or - for standard input" : "name a file");
}

// Returns all of standard input. It is kept, because it can be read once and a file is opened more than once.
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

// A file as it was when it was opened. Once its bytes are held, later changes of the file do not matter.
class OpenedFile {
 public:
  explicit OpenedFile(const std::string& path);
  ~OpenedFile() { close_file(); }
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;

  uint64_t size() const { return uint64_t(first_.st_size); }
  size_t read(uint64_t offset, std::span<std::byte> to) const;

  void hold_bytes();
  bool holds_bytes() const { return !bytes_.empty(); }

 private:
  void close_file();
  bool unchanged(const struct stat& now) const;
  void require_unchanged() const;
  size_t read_from_file(uint64_t offset, std::span<std::byte> to) const;

  std::string path_;
  int file_ = -1;
  struct stat first_ = {};
  std::vector<std::byte> bytes_;
};

// Checks the path before opening it, because opening a device may have effects. Checks again afterwards, because the
// path may have changed meanwhile.
OpenedFile::OpenedFile(const std::string& path) : path_(path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) fail(path, "cannot be opened");
  require_file(path, status.st_mode);
  file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file_ < 0) fail(path, "cannot be opened");
  if (fstat(file_, &first_) == 0 && S_ISREG(first_.st_mode)) return;
  close_file();
  throw Error(kIo, path, "was replaced while it was opened", "name a file");
}

void OpenedFile::close_file() {
  if (file_ >= 0) close(file_);
  file_ = -1;
}

// Files in /proc always pass: the kernel gives them size 0 and any time.
bool OpenedFile::unchanged(const struct stat& now) const {
  if (first_.st_size == 0 && now.st_size == 0) return true;
  return now.st_size == first_.st_size && now.st_mtim.tv_sec == first_.st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == first_.st_mtim.tv_nsec;
}

void OpenedFile::require_unchanged() const {
  struct stat now;
  if (fstat(file_, &now) == 0 && unchanged(now)) return;
  throw Error(kIo, path_, "was changed while it was read", "give a file that nobody writes to meanwhile");
}

void OpenedFile::hold_bytes() {
  std::vector<std::byte> bytes(size());
  const size_t count = read_from_file(0, bytes);
  require_unchanged();
  bytes.resize(count);
  bytes_ = std::move(bytes);
  close_file();
}

size_t OpenedFile::read(uint64_t offset, std::span<std::byte> to) const {
  if (!holds_bytes()) {
    const size_t done = read_from_file(offset, to);
    require_unchanged();
    return done;
  }
  const size_t from = std::min(bytes_.size(), size_t(offset)), count = std::min(to.size(), bytes_.size() - from);
  std::copy_n(bytes_.begin() + std::ptrdiff_t(from), count, to.begin());
  return count;
}

size_t OpenedFile::read_from_file(uint64_t offset, std::span<std::byte> to) const {
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

CommandInputs::CommandInputs() : before_(inputs_of_command) { inputs_of_command = this; }
CommandInputs::~CommandInputs() { inputs_of_command = before_; }

std::shared_ptr<const OpenedFile> CommandInputs::opened(const std::string& path) {
  if (const auto found = files_.find(path); found != files_.end()) return found->second;
  const auto file = std::make_shared<OpenedFile>(path);
  if (file->size() > 0 && file->size() <= kHeldBytes - held_bytes_) file->hold_bytes();
  if (file->holds_bytes()) held_bytes_ += file->size();
  else if (++held_files_ > kHeldFiles) return file;  // beyond the limit a file is opened anew each time
  files_[path] = file;
  return file;
}

void CommandInputs::hold(const std::string& path) {
  if (path == kStandardStream) return;
  for (const std::string& file : npy_files(path)) hold(file);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return;
  const std::shared_ptr<const OpenedFile> file = opened(path);
  if (files_.contains(path)) files_.emplace(std::filesystem::canonical(path, error).string(), file);
}

std::string CommandInputs::first_answer(const std::string& name, const std::function<std::string()>& resolve) {
  if (inputs_of_command == nullptr) return resolve();
  std::map<std::string, std::string>& answers = inputs_of_command->answers_;
  if (const auto found = answers.find(name); found != answers.end()) return found->second;
  return answers[name] = resolve();
}

std::vector<std::string> npy_files(const std::string& folder) {
  CommandInputs* const inputs = inputs_of_command;
  if (inputs != nullptr && inputs->folders_.contains(folder)) return inputs->folders_[folder];
  std::vector<std::string> files;
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return files;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".npy") files.push_back(at->path().string());
  if (error) throw Error(kIo, folder, "cannot be listed: " + error.message());
  std::ranges::sort(files);
  if (inputs != nullptr) inputs->folders_[folder] = files;
  return files;
}

InputFile::InputFile(const std::string& path) : path_(path) {
  if (path == kStandardStream) {
    piped_ = standard_input();
    size_ = piped_.size();
    return;
  }
  opened_ = inputs_of_command != nullptr ? inputs_of_command->opened(path) : std::make_shared<const OpenedFile>(path);
  size_ = opened_->size();
}

InputFile::~InputFile() = default;

size_t InputFile::read(uint64_t offset, std::span<std::byte> to) const {
  if (opened_) return opened_->read(offset, to);
  const size_t from = std::min(piped_.size(), size_t(offset)), count = std::min(to.size(), piped_.size() - from);
  std::copy_n(piped_.begin() + std::ptrdiff_t(from), count, to.begin());
  return count;
}

// Reads a file until no more bytes come, because it may be longer than its stated size (files in /proc state 0).
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
