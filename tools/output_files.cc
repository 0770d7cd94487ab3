#include "tools/output_files.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "tools/error.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const char* what) {
  const int error = errno;
  throw Error(kIo, path, fmt::format("{}: {}", what, std::strerror(error)),
              error == ENOSPC ? "free some space, or name another disk" : "");
}

// `shown` is the path that it will have.
void write_file(const std::string& path, const std::string& shown, const std::vector<uint8_t>& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wbx");
  if (file == nullptr) fail(shown, "cannot be made");
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const int error = errno;
  if (std::fclose(file) == 0 && written) return;
  if (!written) errno = error;
  fail(shown, "cannot be written");
}

// Like a directory made with mkdir: mkdtemp gives it to its owner alone.
void open_to_others(const std::string& directory) {
  const mode_t mask = umask(0);
  umask(mask);
  chmod(directory.c_str(), 0777 & ~mask);
}

}  // namespace

HeldSignals::HeldSignals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held, signal);
  sigprocmask(SIG_BLOCK, &held, &before_);
}

HeldSignals::~HeldSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

OutputFiles::OutputFiles(const std::string& directory) : directory_(directory) {
  while (directory_.size() > 1 && directory_.back() == '/') directory_.pop_back();
  std::error_code error;
  exists_ = fs::exists(directory_, error);
  if (exists_ && !fs::is_directory(directory_, error))
    throw Error(kIo, directory_, "is not a directory", "name a directory for the output");
  const fs::path parent = fs::path(directory_).parent_path();
  if (!exists_ && !parent.empty() && !fs::is_directory(parent, error))
    throw Error(kIo, directory_, "cannot be made: its parent is not there", "make " + parent.string() + " first");
}

OutputFiles::~OutputFiles() {
  std::error_code ignored;
  if (!staging_.empty()) fs::remove_all(staging_, ignored);
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

void OutputFiles::stage() {
  std::string name = exists_ ? directory_ + "/.nacre-XXXXXX" : directory_ + ".nacre-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) fail(directory_, "cannot be written into");
  staging_ = name;
  open_to_others(staging_);
  for (const auto& [file, bytes] : files_) {
    std::error_code error;
    if (exists_ && fs::is_directory(directory_ + "/" + file, error))
      throw Error(kIo, directory_ + "/" + file, "is a directory", "remove it, or name another output directory");
    write_file(staging_ + "/" + file, directory_ + "/" + file, bytes);
  }
}

void OutputFiles::commit() {
  if (!exists_) {
    if (std::rename(staging_.c_str(), directory_.c_str()) != 0) fail(directory_, "cannot be made");
    staging_.clear();
    return;
  }
  for (const auto& [file, bytes] : files_)
    if (std::rename((staging_ + "/" + file).c_str(), (directory_ + "/" + file).c_str()) != 0)
      fail(directory_ + "/" + file, "cannot be replaced");
}

}  // namespace nacre::tools
