#include "tools/files/atomic_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "tools/base/caller.h"
#include "tools/base/error.h"
#include "tools/base/held_pipe_signal.h"
#include "tools/files/input_file.h"
#include "tools/files/output_files.h"

namespace nacre::tools {
namespace {

// Names of the temporary files that exist now. The table is global, of fixed size and without locks, because a signal
// handler reads it.
constexpr int kSlots = 16;
constexpr size_t kMostName = 4096;  // PATH_MAX of Linux
enum SlotState { kFree, kTaken, kNamed };
struct Slot {
  std::atomic<int> state;
  char name[kMostName];
};
Slot slots[kSlots];
static_assert(std::atomic<int>::is_always_lock_free);

// Leaves a signal alone that is already handled or ignored. SIGXFSZ is ignored: write() then fails with EFBIG.
bool install_handlers() {
  struct sigaction action = {}, before = {};
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) {
    if (sigaction(signal, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
    action.sa_handler = signal == SIGXFSZ ? SIG_IGN : end_by_signal;
    sigaction(signal, &action, nullptr);
  }
  return true;
}

int take_slot() {
  for (int i = 0; i < kSlots; ++i) {
    int expected = kFree;
    if (slots[i].state.compare_exchange_strong(expected, kTaken)) return i;
  }
  return -1;
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// Returns the file that a path leads to, which need not exist yet.
std::string resolved(const std::string& path) {
  constexpr int kMostLinks = 40;  // as Linux has it
  std::filesystem::path target = path;
  std::error_code error;
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(target, error); ++i)
    target = target.parent_path() / std::filesystem::read_symlink(target, error);
  return target.string();
}

// Opens a named pipe once another process reads it. Waits up to 2 seconds for a reader that is about to begin.
int open_pipe(const std::string& path, bool blocks) {
  constexpr int kTries = 100;
  constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 20'000'000};
  for (int i = 0; i < kTries; ++i) {
    const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0) {
      if (blocks) fcntl(file, F_SETFL, O_WRONLY);  // writing waits for its reader
      return file;
    }
    if (errno != ENXIO) return -1;
    nanosleep(&kPause, nullptr);
  }
  errno = ENXIO;
  return -1;
}

}  // namespace

// Calls only functions that POSIX lists as async-signal-safe.
void end_by_signal(int signal) {
  for (Slot& slot : slots)
    if (slot.state.load() == kNamed) unlink(slot.name);
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  raise(signal);
}

void remove_temporaries_on_signals() {
  if (caller() != nullptr) return;  // the caller handles signals
  static const bool installed = install_handlers();
  static_cast<void>(installed);
}

AtomicFile::AtomicFile(const std::string& path, int patience_ms)
    : path_(path), target_(resolved(path)), patience_ms_(patience_ms) {
  remove_temporaries_on_signals();
  if (path == kStandardStream) {
    piped_ = true;
    return;
  }
  struct stat status = {};
  const bool exists = stat(target_.c_str(), &status) == 0;
  if (!exists && errno == ELOOP) fail("cannot be written", ELOOP);
  if (exists && S_ISDIR(status.st_mode)) fail("cannot be written", EISDIR);
  if (!exists || S_ISREG(status.st_mode)) {
    open_temporary();
    if (exists && fchmod(file_, status.st_mode & 07777) != 0) fail("cannot be given its permissions", errno);
    return;
  }
  named_pipe_ = S_ISFIFO(status.st_mode);
  file_ = named_pipe_ ? open_pipe(target_, patience_ms < 0) : open(target_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (file_ < 0) fail("cannot be opened", errno);
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::open_temporary() {
  static std::atomic<unsigned> counter = 0;
  slot_ = take_slot();
  if (slot_ < 0) fail("cannot be written", EMFILE);
  Slot& slot = slots[slot_];
  for (;;) {
    const std::string name =
        directory_of(target_) + "/.nacre-" + std::to_string(getpid()) + '-' + std::to_string(counter++) + ".tmp";
    if (name.size() >= kMostName) fail("no file can be made in its directory", ENAMETOOLONG);
    std::memcpy(slot.name, name.c_str(), name.size() + 1);
    slot.state = kNamed;  // before the file exists: a signal in between finds nothing to remove
    file_ = open(slot.name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ >= 0) return;
    const int error = errno;
    slot.state = kTaken;
    if (error != EEXIST) fail("no file can be made in its directory", error);
  }
}

void AtomicFile::write(std::span<const uint8_t> bytes) {
  if (piped_) collected_.insert(collected_.end(), bytes.begin(), bytes.end());
  else write_to_file(bytes);
}

void AtomicFile::write_to_file(std::span<const uint8_t> bytes) {
  const HeldPipeSignal held(named_pipe_);
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN && named_pipe_) {
      pollfd pipe = {.fd = file_, .events = POLLOUT, .revents = 0};
      if (poll(&pipe, 1, patience_ms_) == 0) fail("cannot be written", ETIMEDOUT);
      continue;
    }
    if (written < 0) fail("cannot be written", errno);
    bytes = bytes.subspan(size_t(written));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

void AtomicFile::flush() {
  if (file_ < 0) return;
  // Devices and pipes answer fsync with EINVAL or EROFS: there is nothing to flush.
  if (fsync(file_) != 0 && slot_ >= 0) fail("cannot be written", errno);
  const int file = file_;
  file_ = -1;
  if (close(file) != 0) fail("cannot be written", errno);
}

void AtomicFile::commit() {
  if (piped_) {
    file_ = STDOUT_FILENO;
    write_to_file(collected_);
    file_ = -1;
    return;
  }
  flush();
  if (slot_ < 0) return;
  if (rename(slots[slot_].name, target_.c_str()) != 0) fail("cannot be replaced", errno);
  slots[slot_].state = kFree;
  slot_ = -1;
  // Makes the new name durable too. Some file systems refuse this; the file itself is whole in any case.
  if (const int directory = open(directory_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); directory >= 0) {
    fsync(directory);
    close(directory);
  }
}

void AtomicFile::discard() {
  if (file_ >= 0 && !piped_) close(file_);
  file_ = -1;
  if (slot_ < 0) return;
  Slot& slot = slots[slot_];
  if (slot.state == kNamed) unlink(slot.name);
  slot.state = kFree;
  slot_ = -1;
}

void AtomicFile::fail(const char* what, int error) {
  discard();
  throw Error(kIo, path_, std::string(what) + ": " + std::generic_category().message(error), remedy_of_write(error));
}

std::string remedy_of_write(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT: return "free some space, or name another disk";
    case EFBIG: return "raise the limit on the size of files (ulimit -f), or name another disk";
    case EACCES:
    case EPERM: return "get the permission to write there, or name another place";
    case EROFS: return "name a place that can be written";
    case ENOENT: return "make the directory first, or name another";
    case ENOTDIR: return "name a place in a directory";
    case EISDIR: return "name a file";
    case ENAMETOOLONG: return "take a shorter name";
    case EMFILE: return "raise the limit on open files (ulimit -n), or write fewer files at once";
    case ENFILE: return "this machine has no more open files: end other programs";
    case ELOOP: return "its links lead in a circle: name the file itself";
    case ENXIO: return "nobody reads the pipe: start its reader first, or name a file";
    case ETIMEDOUT: return "the reader of the pipe takes nothing: look there";
    case EPIPE: return "the reader of the pipe ended: look there";
    default: return "name another place";
  }
}

void require_directory_of(const std::string& path) {
  if (path == kStandardStream) return;
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0 && errno == ELOOP)
    throw Error(kIo, path, "cannot be written: " + std::generic_category().message(ELOOP), remedy_of_write(ELOOP));
  const bool there = stat(directory_of(resolved(path)).c_str(), &status) == 0;
  if (there && S_ISDIR(status.st_mode)) return;
  const int error = there ? ENOTDIR : errno;
  throw Error(kIo, path, "no file can be made in its directory: " + std::generic_category().message(error),
              remedy_of_write(error));
}

void write_file_whole(const std::string& path, std::span<const uint8_t> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_file_whole(const std::string& path, std::string_view text, int patience_ms) {
  AtomicFile file(path, patience_ms);
  file.write(text);
  file.commit();
}

void write_files_whole(std::span<const WholeFile> files) {
  std::vector<std::unique_ptr<AtomicFile>> all;
  for (const WholeFile& file : files) all.push_back(std::make_unique<AtomicFile>(file.path));
  for (size_t i = 0; i < files.size(); ++i) all[i]->write(files[i].bytes);
  for (const auto& file : all) file->flush();
  const HeldSignals held;
  for (const auto& file : all) file->commit();
}

}  // namespace nacre::tools
