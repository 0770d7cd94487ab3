#include "tools/training/file_storage.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "tools/error.h"

namespace nacre::tools {

FileStorage::FileStorage(const std::string& directory) {
  const auto refuse = [&](const std::string& place, const std::string& remedy) {
    const std::string why = std::strerror(errno);
    close_all();
    throw Error(kIo, place, why, remedy);
  };
  if (mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) refuse(directory, "name a directory that can be made");
  directory_ = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_ < 0) refuse(directory, "name a directory for checkpoints");
  for (int i = 0; i < 2; ++i) {
    paths_[i] = directory + "/slot" + std::to_string(i) + ".checkpoint";
    files_[i] = open(paths_[i].c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (files_[i] < 0) refuse(paths_[i], "the directory must be writable");
  }
  if (flock(files_[0], LOCK_EX | LOCK_NB) != 0)
    refuse(directory, "another process trains with these checkpoints: end it, or name another directory");
  if (fsync(directory_) != 0) refuse(directory, "the directory must be on a disk that can be synced");
}

FileStorage::~FileStorage() { close_all(); }

void FileStorage::close_all() {
  for (int* file : {&files_[0], &files_[1], &directory_}) {
    if (*file >= 0) close(*file);
    *file = -1;
  }
}

Storage FileStorage::storage() {
  return {.context = this,
          .program_bytes = 1,
          .erase_bytes = kEraseBytes,
          .bytes = 2 * kSlotBytes,
          .read = [](void* c, uint64_t at, std::span<std::byte> to) { return static_cast<FileStorage*>(c)->read(at, to); },
          .program = [](void* c, uint64_t at, std::span<const std::byte> from) { return static_cast<FileStorage*>(c)->program(at, from); },
          .erase = [](void* c, uint64_t at) { return static_cast<FileStorage*>(c)->erase(at); },
          .flush = [](void* c) { return static_cast<FileStorage*>(c)->flush(); }};
}

bool FileStorage::fail(uint32_t slot, const char* what) {
  problem_ = paths_[slot] + ": " + what + ": " + std::strerror(errno);
  return false;
}

// Beyond the end of a file everything is erased.
bool FileStorage::read(uint64_t offset, std::span<std::byte> to) {
  const auto slot = uint32_t(offset / kSlotBytes);
  for (offset %= kSlotBytes; !to.empty();) {
    const ssize_t count = pread(files_[slot], to.data(), to.size(), off_t(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(slot, "cannot be read");
    if (count == 0) {
      std::memset(to.data(), 0xFF, to.size());
      return true;
    }
    to = to.subspan(size_t(count));
    offset += uint64_t(count);
  }
  return true;
}

bool FileStorage::program(uint64_t offset, std::span<const std::byte> from) {
  const auto slot = uint32_t(offset / kSlotBytes);
  offset %= kSlotBytes;
  const off_t end = lseek(files_[slot], 0, SEEK_END);
  if (end < 0) return fail(slot, "cannot be written");
  // What is skipped (the header, until it comes last) is erased, and no hole of zeros.
  const std::vector<std::byte> gap(uint64_t(end) < offset ? offset - uint64_t(end) : 0, std::byte{0xFF});
  return write_at(slot, uint64_t(end), gap) && write_at(slot, offset, from);
}

bool FileStorage::write_at(uint32_t slot, uint64_t offset, std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t count = pwrite(files_[slot], from.data(), from.size(), off_t(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail(slot, "cannot be written");
    from = from.subspan(size_t(count));
    offset += uint64_t(count);
  }
  return true;
}

// Units are erased in order from the start of a slot, so what lies behind this one is of the old checkpoint too.
bool FileStorage::erase(uint64_t offset) {
  const auto slot = uint32_t(offset / kSlotBytes);
  offset %= kSlotBytes;
  struct stat now;
  if (fstat(files_[slot], &now) != 0) return fail(slot, "cannot be read");
  if (uint64_t(now.st_size) <= offset) return true;
  return ftruncate(files_[slot], off_t(offset)) == 0 || fail(slot, "cannot be cut to length");
}

bool FileStorage::flush() {
  for (uint32_t slot = 0; slot < 2; ++slot)
    if (fsync(files_[slot]) != 0) return fail(slot, "cannot be synced");
  return true;
}

}  // namespace nacre::tools
