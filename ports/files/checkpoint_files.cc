#include "ports/files/checkpoint_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace nacre {

namespace {

constexpr uint64_t kLeastPlausible = uint64_t{16} << 20;
constexpr const char* kUnsaved = "unsaved";

const char* kind(mode_t mode) {
  if (S_ISDIR(mode)) return "is a directory";
  if (S_ISFIFO(mode)) return "is a pipe";
  return S_ISSOCK(mode) ? "is a socket" : "is a device, which may never end";
}

}  // namespace

bool CheckpointFiles::refuse(const std::string& place, const std::string& fact, const std::string& remedy) {
  problem_ = {place, fact, remedy};
  return false;
}

bool CheckpointFiles::refuse_errno(const std::string& place, const std::string& before, const std::string& remedy) {
  const int error = errno;
  problem_ = {.place = place, .fact = before + std::strerror(error), .remedy = remedy, .error = error};
  return false;
}

bool CheckpointFiles::open(const std::string& directory, Use use) {
  close();
  saved_ = heads_ = unsaved_ = false;
  if (open_all(directory, use)) return true;
  close();
  return false;
}

bool CheckpointFiles::open_all(const std::string& directory, Use use) {
  const bool saves = use == Use::kSave;
  directory_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_ < 0 && saves) return refuse_errno(directory, "", "name a directory for checkpoints");
  // Not every file system locks directories, so the slots are locked too.
  if (directory_ >= 0 && !lock(directory_, use) && errno == EWOULDBLOCK)
    return refuse_errno(directory, "",
                        "another process trains with these checkpoints: end it, or name another directory");
  mark_ = directory + "/" + kUnsaved;
  bool none = true;
  struct stat now;
  for (int i = 0; i < 2; ++i) {
    paths_[i] = directory + "/slot" + std::to_string(i) + ".checkpoint";
    none = none && stat(paths_[i].c_str(), &now) != 0 && errno == ENOENT;
  }
  unsaved_ = directory_ >= 0 && fstatat(directory_, kUnsaved, &now, AT_SYMLINK_NOFOLLOW) == 0;
  if (unsaved_ && !saves) {
    problem_ = {directory, "holds no checkpoint: a training began there and has saved nothing yet",
                "give the command that trains again, or name another directory", true};
    return false;
  }
  if (saves && none && !unsaved_ && !mark_unsaved()) return false;
  for (int i = 0; i < 2; ++i)
    if (!open_slot(i, use)) return false;
  if (files_[0] < 0 && files_[1] < 0) {
    problem_ = {directory, "is no directory with checkpoints", "name one that --checkpoint made", true};
    return false;
  }
  struct stat first, second;
  if (files_[0] >= 0 && files_[1] >= 0 && fstat(files_[0], &first) == 0 && fstat(files_[1], &second) == 0 &&
      first.st_dev == second.st_dev && first.st_ino == second.st_ino)
    return refuse(paths_[1], "is slot0.checkpoint itself", "name another directory, or remove it");
  for (const int file : files_)
    if (file >= 0 && !lock(file, use))
      return refuse_errno(directory, "",
                          "another process trains with these checkpoints: end it, or name another directory");
  for (int i = 0; saves && i < 2; ++i)
    if (!require_own(i)) return false;
  if (saves && fsync(directory_) != 0)
    return refuse_errno(directory, "", "the directory must be on a disk that can be synced");
  return !unsaved_ || void_slots();
}

bool CheckpointFiles::lock(int file, Use use) {
  return flock(file, (use == Use::kSave ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0;
}

// The mark is an empty file, so it also fits on a full disk. A mark that may not survive a cut of power is removed.
bool CheckpointFiles::mark_unsaved() {
  const int file = openat(directory_, kUnsaved, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  unsaved_ = file >= 0 && fsync(file) == 0 && fsync(directory_) == 0;
  if (unsaved_) {
    ::close(file);
    return true;
  }
  refuse_errno(mark_, "", "the directory must be writable");
  if (file < 0) return false;
  ::close(file);
  return remove_mark();
}

// Returns false, and leaves problem() as it is: the mark is removed because of another failure.
bool CheckpointFiles::remove_mark() {
  unsaved_ = unlinkat(directory_, kUnsaved, 0) != 0 && errno != ENOENT;
  fsync(directory_);
  return false;
}

bool CheckpointFiles::void_slots() {
  for (uint32_t i = 0; i < 2; ++i)
    if (ftruncate(files_[i], 0) != 0 || fsync(files_[i]) != 0) return fail(i, "cannot be cut to length");
  return true;
}

bool CheckpointFiles::begin_anew() {
  heads_ = false;
  if (!there()) return false;
  if (unsaved_) return void_slots();
  return mark_unsaved() && (void_slots() || remove_mark());
}

// Called only after a slot holds a whole checkpoint.
bool CheckpointFiles::count_from_now() {
  if (unlinkat(directory_, kUnsaved, 0) != 0 && errno != ENOENT) return refuse_errno(mark_, "cannot be removed: ", "");
  if (fsync(directory_) != 0) return refuse_errno(mark_, "cannot be synced: ", "");
  unsaved_ = false;
  return true;
}

// Opens the slot without waiting. If it is a pipe, a plain open would wait for a writer.
bool CheckpointFiles::open_slot(int slot, Use use) {
  const char* const path = paths_[slot].c_str();
  struct stat now;
  if (stat(path, &now) == 0 && !S_ISREG(now.st_mode))
    return refuse(paths_[slot], kind(now.st_mode), "name another directory, or remove it");
  const int flags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  if (use == Use::kSave) {
    files_[slot] = ::open(path, O_RDWR | O_CREAT | O_EXCL | flags, 0666);
    made_[slot] = files_[slot] >= 0;
    if (files_[slot] < 0 && errno == EEXIST) files_[slot] = ::open(path, O_RDWR | O_CREAT | flags, 0666);
  } else {
    files_[slot] = ::open(path, O_RDONLY | flags);
  }
  if (files_[slot] < 0 && use == Use::kSave) return refuse_errno(paths_[slot], "", "the directory must be writable");
  if (files_[slot] < 0 && errno != ENOENT) return refuse_errno(paths_[slot], "", "it must be readable");
  return true;
}

// Another process that saved nothing may have removed these slots after they were opened here.
bool CheckpointFiles::require_own(int slot) {
  if (is_own(slot)) return true;
  return refuse(paths_[slot], "was replaced while it was opened",
                "try again when no other process trains with these checkpoints");
}

bool CheckpointFiles::is_own(int slot) const {
  struct stat opened, named;
  const bool both = fstat(files_[slot], &opened) == 0 && stat(paths_[slot].c_str(), &named) == 0;
  return both && opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

bool CheckpointFiles::there() {
  for (int slot = 0; slot < 2; ++slot) {
    if (is_own(slot)) continue;
    struct stat now;
    const bool other = stat(paths_[slot].c_str(), &now) == 0;
    problem_ = {paths_[slot],
                other ? "is another file now: the directory or the file was replaced while it was in use"
                      : "is no longer there: the directory or the file was removed or renamed while it was in use",
                "leave the directory in its place while it is saved to"};
    return false;
  }
  return true;
}

void CheckpointFiles::close() {
  const bool removes = made() && !saved_;
  for (int i = 0; i < 2; ++i) {
    // If the lock fails, another process saves to the slot.
    if (made_[i] && !saved_ && lock(files_[i], Use::kSave) && is_own(i)) unlink(paths_[i].c_str());
    made_[i] = false;
  }
  if (removes && unsaved_) unlinkat(directory_, kUnsaved, 0);
  for (int* file : {&files_[0], &files_[1], &directory_}) {
    if (*file >= 0) ::close(*file);
    *file = -1;
  }
}

Storage CheckpointFiles::storage(const Model& model) {
  Storage storage = {
      .context = this,
      .program_bytes = 1,
      .erase_bytes = 1,
      .bytes = 2 * kSlotBytes,
      .read = [](void* c, uint64_t at,
                 std::span<std::byte> to) { return static_cast<CheckpointFiles*>(c)->read(at, to); },
      .program = [](void* c, uint64_t at,
                    std::span<const std::byte> from) { return static_cast<CheckpointFiles*>(c)->program(at, from); },
      .erase = [](void* c, uint64_t at) { return static_cast<CheckpointFiles*>(c)->erase(at); },
      .flush = [](void* c) { return static_cast<CheckpointFiles*>(c)->flush(); },
      .filled = [](void* c, uint64_t at) { return static_cast<CheckpointFiles*>(c)->filled(at); }};
  uint64_t both_slots = 0;
  if (Checkpoint::measure(model, storage, 0, &both_slots).ok())
    plausible_bytes_ = std::max(kLeastPlausible, both_slots);
  storage.erase_bytes = kEraseBytes;
  return storage;
}

bool CheckpointFiles::fail(uint32_t slot, const char* what) {
  return refuse_errno(paths_[slot], std::string(what) + ": ", "");
}

// Reads erased bytes (0xFF) beyond the end of a file, and for a file that does not exist.
bool CheckpointFiles::read(uint64_t offset, std::span<std::byte> to) {
  const auto slot = uint32_t(offset / kSlotBytes);
  for (offset %= kSlotBytes; !to.empty();) {
    const ssize_t count = files_[slot] < 0 ? 0 : pread(files_[slot], to.data(), to.size(), off_t(offset));
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

bool CheckpointFiles::program(uint64_t offset, std::span<const std::byte> from) {
  const auto slot = uint32_t(offset / kSlotBytes);
  offset %= kSlotBytes;
  heads_ = heads_ || offset == 0;
  const off_t end = lseek(files_[slot], 0, SEEK_END);
  if (end < 0) return fail(slot, "cannot be written");
  // Skipped bytes (the header, until it is written last) must read as erased, not as a hole of zeros.
  const std::vector<std::byte> gap(uint64_t(end) < offset ? offset - uint64_t(end) : 0, std::byte{0xFF});
  return write_at(slot, uint64_t(end), gap) && write_at(slot, offset, from);
}

bool CheckpointFiles::write_at(uint32_t slot, uint64_t offset, std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t count = pwrite(files_[slot], from.data(), from.size(), off_t(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail(slot, "cannot be written");
    from = from.subspan(size_t(count));
    offset += uint64_t(count);
  }
  return true;
}

// Units are erased in order from the start of a slot, so all that comes after this one is also of the old checkpoint.
bool CheckpointFiles::erase(uint64_t offset) {
  const auto slot = uint32_t(offset / kSlotBytes);
  offset %= kSlotBytes;
  if (offset == 0 && !there()) return false;
  struct stat now;
  if (fstat(files_[slot], &now) != 0) return fail(slot, "cannot be read");
  if (uint64_t(now.st_size) <= offset) return true;
  return ftruncate(files_[slot], off_t(offset)) == 0 || fail(slot, "cannot be cut to length");
}

// A file's length is what it claims to have; its blocks are what somebody had to write.
uint64_t CheckpointFiles::filled(uint64_t offset) const {
  struct stat now;
  const int file = files_[offset / kSlotBytes];
  if (file < 0) return 0;
  if (fstat(file, &now) != 0) return kSlotBytes;  // reading will tell why
  constexpr uint64_t kBlock = 512;                // unit of st_blocks, whatever the disk's blocks are
  return std::min(uint64_t(now.st_size), std::max(plausible_bytes_, uint64_t(now.st_blocks) * kBlock));
}

bool CheckpointFiles::flush() {
  for (uint32_t slot = 0; slot < 2; ++slot)
    if (fsync(files_[slot]) != 0) return fail(slot, "cannot be synced");
  if (!heads_) return true;
  if (!there() || (unsaved_ && !count_from_now())) return false;
  saved_ = true;
  return true;
}

}  // namespace nacre
