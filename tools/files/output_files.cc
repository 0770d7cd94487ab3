#include "tools/files/output_files.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "tools/base/error.h"
#include "tools/files/atomic_file.h"
#include "tools/files/input_file.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kHeldSignals[] = {SIGINT, SIGTERM, SIGHUP};

[[noreturn]] void fail_to_write(const std::string& path, const char* what) {
  const int error = errno;
  throw Error(kIo, path, fmt::format("{}: {}", what, std::strerror(error)), remedy_of_write(error));
}

bool signal_waits() {
  sigset_t waiting;
  sigpending(&waiting);
  return std::ranges::any_of(kHeldSignals, [&](int signal) { return sigismember(&waiting, signal) == 1; });
}

// Writes one file. `shown` is the path that it will have, for errors.
void write_file(const std::string& path, const std::string& shown, const std::vector<uint8_t>& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wbx");
  if (file == nullptr) fail_to_write(shown, "cannot be made");
  constexpr size_t kChunk = 1 << 24;
  bool written = true;
  for (size_t at = 0; written && at < bytes.size() && !signal_waits(); at += kChunk) {
    const size_t count = std::min(kChunk, bytes.size() - at);
    written = std::fwrite(bytes.data() + at, 1, count, file) == count;
  }
  const int error = errno;
  if (std::fclose(file) == 0 && written) return;
  if (!written) errno = error;
  fail_to_write(shown, "cannot be written");
}

// Gives a directory the permissions of mkdir: mkdtemp makes it accessible to its owner alone.
void open_to_others(const std::string& directory) {
  const mode_t mask = umask(0);
  umask(mask);
  chmod(directory.c_str(), 0777 & ~mask);
}

void make_directories(const std::string& path, const std::string& shown) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return;
  errno = error.value();
  fail_to_write(shown, "cannot be made");
}

// Refuses ".." after a part that does not exist: the file system cannot resolve it.
void require_way(const std::string& path) {
  fs::path way;
  std::error_code error;
  for (const fs::path& part : fs::path(path)) {
    if (part == ".." && !way.empty() && !fs::exists(way, error))
      throw Error(kIo, path, fmt::format("leads through {}, which is not there", way.string()), "name it without ..");
    way /= part;
  }
}

std::string place_of(const std::string& directory) {
  std::error_code error;
  return fs::weakly_canonical(fs::absolute(directory, error), error).string();
}

// Refuses two outputs that share a file, or one whose file is a directory on another's path.
void require_apart(std::span<OutputFiles* const> all) {
  std::map<std::string, std::string> files;  // place -> path as named
  for (const OutputFiles* output : all) {
    const std::string place = place_of(output->directory());
    for (const std::string& path : output->paths())
      if (!files.emplace(place + path.substr(output->directory().size()), path).second)
        throw Error(kUsage, path, "would be written by two outputs", "name another directory for one of them");
  }
  for (const OutputFiles* output : all)
    for (fs::path at = place_of(output->directory()); at.has_relative_path(); at = at.parent_path())
      if (const auto found = files.find(at.string()); found != files.end())
        throw Error(kUsage, output->directory(),
                    fmt::format("cannot be a directory: {} is a file that the same command writes", found->second),
                    "name another directory");
}

}  // namespace

NewDirectories::NewDirectories(const std::string& path) {
  require_way(path);
  fs::path way;
  std::error_code error;
  for (const fs::path& part : fs::path(path)) {
    way /= part;
    if (fs::exists(way, error)) continue;
    if (mkdir(way.c_str(), 0777) == 0) {
      made_.push_back(way.string());
    } else if (errno != EEXIST) {  // another process may have made it meanwhile
      const int why = errno;
      remove();
      errno = why;
      fail_to_write(path, "cannot be made");
    }
  }
}

NewDirectories::~NewDirectories() { remove(); }

void NewDirectories::remove() {
  for (size_t i = made_.size(); i-- > 0;) rmdir(made_[i].c_str());
  made_.clear();
}

HeldSignals::HeldSignals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : kHeldSignals) sigaddset(&held, signal);
  sigprocmask(SIG_BLOCK, &held, &before_);
}

HeldSignals::~HeldSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

OutputFiles::OutputFiles(const std::string& directory) : directory_(directory) {
  if (directory == kStandardStream)
    throw Error(kUsage, directory, "is standard output, which is no directory", "name a directory");
  while (directory_.size() > 1 && directory_.back() == '/') directory_.pop_back();
  require_way(directory_);
  std::error_code error;
  for (fs::path path = directory_; !path.empty() && !fs::exists(path, error); path = path.parent_path())
    first_made_ = path.string();
  const fs::path there = first_made_.empty() ? fs::path(directory_) : fs::path(first_made_).parent_path();
  if (!there.empty() && !fs::is_directory(there, error))
    throw Error(kIo, there.string(), "is not a directory", "name a directory for the output");
}

OutputFiles::~OutputFiles() { discard(); }

void OutputFiles::discard() {
  std::error_code ignored;
  if (!staging_.empty()) fs::remove_all(staging_, ignored);
  staging_.clear();
}

std::string OutputFiles::add(const std::string& name, std::vector<uint8_t> bytes) {
  const auto taken = [&](const std::string& n) {
    return std::ranges::any_of(files_, [&](const auto& file) { return file.first == n; });
  };
  const fs::path path(name);
  std::string free_name = name;
  for (int i = 2; taken(free_name); ++i)
    free_name = fmt::format("{}_{}{}", path.stem().string(), i, path.extension().string());
  files_.emplace_back(free_name, std::move(bytes));
  return free_name;
}

std::vector<std::string> OutputFiles::paths() const {
  std::vector<std::string> paths;
  for (const auto& [name, bytes] : files_) paths.push_back(directory_ + "/" + name);
  return paths;
}

void OutputFiles::stage() {
  std::string name = first_made_.empty() ? directory_ + "/.nacre-XXXXXX" : first_made_ + ".nacre-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) fail_to_write(directory_, "cannot be written into");
  staging_ = name;
  open_to_others(staging_);
  make_directories(staged(), directory_);
  for (const auto& [file, bytes] : files_) {
    std::error_code error;
    if (fs::is_directory(directory_ + "/" + file, error))
      throw Error(kIo, directory_ + "/" + file, "is a directory", "remove it, or name another output directory");
    write_file(staged() + "/" + file, directory_ + "/" + file, bytes);
    // the waiting signal ends the process when write_together() no longer holds signals
    if (signal_waits()) throw Error(kFailed, directory_, "was not written: a signal came");
  }
}

// Returns the directory in which the staged files lie, with the parts of directory_ below first_made_.
std::string OutputFiles::staged() const {
  return first_made_.empty() ? staging_ : staging_ + directory_.substr(first_made_.size());
}

void OutputFiles::commit() {
  if (!first_made_.empty() && std::rename(staging_.c_str(), first_made_.c_str()) == 0) {
    staging_.clear();
    return;
  }
  // Another output of the same command may have made some of these: "out" and "out/tensors".
  make_directories(directory_, directory_);
  for (const auto& [file, bytes] : files_)
    if (std::rename((staged() + "/" + file).c_str(), (directory_ + "/" + file).c_str()) != 0)
      fail_to_write(directory_ + "/" + file, "cannot be replaced");
}

void write_together(std::span<OutputFiles* const> all) {
  require_apart(all);
  const HeldSignals held;
  try {
    for (OutputFiles* files : all) files->stage();
    for (OutputFiles* files : all) files->commit();
  } catch (...) {
    for (OutputFiles* files : all) files->discard();  // before signals are let in
    throw;
  }
}

}  // namespace nacre::tools
