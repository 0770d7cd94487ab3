#include "tools/files/file_storage.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/train/state_models.h"
#include "tools/base/error.h"

// This program's calls of the system, counted down: the one that reaches 0 fails as on a damaged disk.
static int cuts_until_failure = -1, syncs_until_failure = -1;

static bool fails_now(int* until) {
  if (*until < 0 || --*until >= 0) return false;
  errno = EIO;
  return true;
}

int ftruncate(int file, off_t bytes) noexcept {
  if (fails_now(&cuts_until_failure)) return -1;
  return truncate(("/proc/self/fd/" + std::to_string(file)).c_str(), bytes);
}

int fsync(int file) { return fails_now(&syncs_until_failure) ? -1 : int(syscall(SYS_fsync, file)); }

namespace nacre::tools {
namespace {

using test::Buffer;

class file_storage : public testing::Test {
 protected:
  file_storage() : directory_(std::filesystem::temp_directory_path() / ("nacre_slots_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(directory_);
    EXPECT_TRUE(model.open(file.bytes()).ok());
  }
  ~file_storage() override { std::filesystem::remove_all(directory_); }

  Buffer state(uint8_t fill) const { return Buffer(model.region_bytes(Region::kState), std::byte(fill)); }
  int loaded(const Storage& storage) const {
    Buffer s = state(0);
    const Status status = Checkpoint(storage).load(model, s.bytes());
    return status.ok() ? int(s.bytes()[0]) : -int(status.code);
  }

  std::filesystem::path directory_;
  Buffer file = test::pack(test::learner(3, "sgd"));
  Model model;
};

TEST_F(file_storage, keeps_checkpoints_from_process_to_process) {
  {
    FileStorage files(directory_);
    EXPECT_EQ(loaded(files.storage(model)), -int(Code::kNoCheckpoint));
  }
  for (uint8_t i = 1; i <= 3; ++i) {
    FileStorage files(directory_);
    ASSERT_TRUE(Checkpoint(files.storage(model)).save(model, state(i).bytes()).ok()) << files.problem();
    EXPECT_EQ(loaded(files.storage(model)), i);
    EXPECT_EQ(files.problem(), "");
  }
  // The file holds header, mark, 4 rows and state.
  EXPECT_EQ(std::filesystem::file_size(directory_ / "slot0.checkpoint"),
            64 + 16 + 128 + model.region_bytes(Region::kState));
  FileStorage files(directory_);
  EXPECT_EQ(loaded(files.storage(model)), 3);
  ASSERT_TRUE(Checkpoint(files.storage(model)).revert().ok());
  EXPECT_EQ(loaded(files.storage(model)), 2);
}

// The file holds header and mark only. The mark is not written before confirm.
TEST_F(file_storage, keeps_a_checkpoint_that_has_no_state) {
  const Buffer stateless = test::pack(test::dense_int8());
  Model inference;
  ASSERT_TRUE(inference.open(stateless.bytes()).ok());
  FileStorage files(directory_);
  const Storage storage = files.storage(inference);
  ASSERT_TRUE(Checkpoint(storage).save(inference, {}).ok());
  Checkpoint::Report report;
  ASSERT_TRUE(Checkpoint(storage).look(&report).ok());
  EXPECT_EQ(report.generation, 1u);
  EXPECT_FALSE(report.pending);
}

// A null pointer with a size is refused as memory.
TEST_F(file_storage, neither_saves_nor_loads_a_state_at_null) {
  FileStorage files(directory_);
  const Storage storage = files.storage(model);
  ASSERT_TRUE(Checkpoint(storage).save(model, state(1).bytes()).ok());
  const std::span<std::byte> nowhere(static_cast<std::byte*>(nullptr), model.region_bytes(Region::kState));
  EXPECT_EQ(Checkpoint(storage).save(model, nowhere).code, Code::kMemorySize);
  EXPECT_EQ(Checkpoint(storage).load(model, nowhere).code, Code::kMemorySize);
}

TEST_F(file_storage, confirms) {
  FileStorage files(directory_);
  Checkpoint checkpoint(files.storage(model));
  ASSERT_TRUE(checkpoint.save(model, state(1).bytes(), {.pending = true}).ok());
  ASSERT_TRUE(checkpoint.confirm().ok());
  Checkpoint::Report report;
  ASSERT_TRUE(checkpoint.look(&report).ok());
  EXPECT_FALSE(report.pending);
}

TEST_F(file_storage, cut_files_give_the_checkpoint_before) {
  {
    FileStorage files(directory_);
    for (uint8_t i = 1; i <= 2; ++i) ASSERT_TRUE(Checkpoint(files.storage(model)).save(model, state(i).bytes()).ok());
  }
  const std::string newest = directory_ / "slot1.checkpoint";
  for (uint64_t size = std::filesystem::file_size(newest); size-- > 0;) {
    std::filesystem::resize_file(newest, size);
    FileStorage files(directory_);
    ASSERT_EQ(loaded(files.storage(model)), 1) << size;
  }
  std::filesystem::resize_file(directory_ / "slot0.checkpoint", 100);
  std::ofstream(newest)
      << "not a checkpoint at all, but a file of more than sixty-four bytes, so that the header is there";
  FileStorage files(directory_);
  EXPECT_EQ(loaded(files.storage(model)), -int(Code::kCheckpointDamaged));
  ASSERT_TRUE(Checkpoint(files.storage(model)).save(model, state(5).bytes()).ok());
  EXPECT_EQ(loaded(files.storage(model)), 5);
}

TEST_F(file_storage, one_process_at_a_time_and_only_directories) {
  FileStorage files(directory_);
  try {
    FileStorage second(directory_);
    FAIL() << "a second one was let in";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("another process"), std::string::npos) << e.what();
  }
  std::ofstream(directory_ / "plain") << "x";
  EXPECT_THROW(FileStorage(directory_ / "plain"), Error);
  EXPECT_THROW(FileStorage("/proc/nothing/here"), Error);
}

TEST_F(file_storage, what_was_made_for_nothing_is_removed) {
  const auto exists = [](const std::filesystem::path& path) { return std::filesystem::exists(path); };
  { FileStorage files(directory_ / "a" / "b"); }
  EXPECT_FALSE(exists(directory_));
  std::filesystem::create_directories(directory_ / "a");
  { FileStorage files(directory_ / "a" / "b"); }
  EXPECT_TRUE(exists(directory_ / "a")) << "was there before";
  EXPECT_FALSE(exists(directory_ / "a" / "b"));
  ASSERT_EQ(mkfifo((directory_ / "a" / "slot1.checkpoint").c_str(), 0666), 0);
  EXPECT_THROW(FileStorage(directory_ / "a"), Error);
  EXPECT_FALSE(exists(directory_ / "a" / "slot0.checkpoint")) << "made before slot 1 was refused";
  EXPECT_THROW(FileStorage(directory_ / "none" / ".." / "b"), Error);
  EXPECT_FALSE(exists(directory_ / "none"));
  {
    FileStorage files(directory_ / "c");
    ASSERT_TRUE(Checkpoint(files.storage(model)).save(model, state(5).bytes()).ok());
  }
  { FileStorage files(directory_ / "c"); }
  EXPECT_TRUE(exists(directory_ / "c" / "slot0.checkpoint")) << "holds a checkpoint";
}

TEST_F(file_storage, a_refused_second_process_leaves_the_slots_of_the_first) {
  FileStorage files(directory_);
  EXPECT_THROW(FileStorage{directory_}, Error);
  ASSERT_TRUE(Checkpoint(files.storage(model)).save(model, state(6).bytes()).ok());
  EXPECT_TRUE(std::filesystem::exists(directory_ / "slot0.checkpoint"));
}

// Reading works on a read-only medium: the directory keeps its names and times.
TEST_F(file_storage, reads_without_making_or_writing_anything) {
  EXPECT_THROW(FileStorage(directory_, FileStorage::Use::kRead), Error) << "there is none";
  EXPECT_FALSE(std::filesystem::exists(directory_));
  {
    FileStorage files(directory_);
    ASSERT_TRUE(Checkpoint(files.storage(model)).save(model, state(4).bytes()).ok());
  }
  std::filesystem::remove(directory_ / "slot1.checkpoint");
  std::filesystem::permissions(directory_ / "slot0.checkpoint", std::filesystem::perms::owner_read);
  std::filesystem::permissions(directory_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const auto time = std::filesystem::last_write_time(directory_);
  {
    FileStorage files(directory_, FileStorage::Use::kRead), other(directory_, FileStorage::Use::kRead);
    EXPECT_EQ(loaded(files.storage(model)), 4);
    EXPECT_EQ(loaded(other.storage(model)), 4) << "two may read";
    EXPECT_EQ(Checkpoint(files.storage(model)).save(model, state(5).bytes()).code, Code::kStorageFailed);
    EXPECT_FALSE(std::filesystem::exists(directory_ / "slot1.checkpoint"));
    EXPECT_EQ(std::filesystem::last_write_time(directory_), time);
  }
  std::filesystem::permissions(directory_, std::filesystem::perms::owner_all);
  FileStorage saves(directory_);
  EXPECT_THROW(FileStorage(directory_, FileStorage::Use::kRead), Error) << "while another saves";
}

// After a power cut the file `unsaved` is left. Then the slots count as empty, whatever they hold.
TEST_F(file_storage, begun_anew_it_holds_nothing_until_a_checkpoint_is_whole) {
  const std::filesystem::path unsaved = directory_ / "unsaved";
  {
    FileStorage files(directory_);
    EXPECT_TRUE(files.unsaved() && files.made() && std::filesystem::exists(unsaved));
    ASSERT_TRUE(Checkpoint(files.storage(model)).save(model, state(1).bytes()).ok());
    EXPECT_FALSE(files.unsaved() || std::filesystem::exists(unsaved));
    files.begin_anew();
    EXPECT_TRUE(files.unsaved() && std::filesystem::exists(unsaved));
    EXPECT_EQ(loaded(files.storage(model)), -int(Code::kNoCheckpoint));
  }
  EXPECT_THROW(FileStorage(directory_, FileStorage::Use::kRead), Error);
  {
    FileStorage files(directory_);
    EXPECT_FALSE(files.made());
    ASSERT_TRUE(Checkpoint(files.storage(model)).save(model, state(2).bytes()).ok());
  }
  EXPECT_EQ(loaded(FileStorage(directory_, FileStorage::Use::kRead).storage(model)), 2);
  std::ofstream(unsaved) << "";
  EXPECT_THROW(FileStorage(directory_, FileStorage::Use::kRead), Error);
  FileStorage files(directory_);
  EXPECT_EQ(loaded(files.storage(model)), -int(Code::kNoCheckpoint));
}

// Each call of begin_anew that cuts or syncs fails in turn: every slot that was not cut holds its checkpoint.
TEST_F(file_storage, begun_anew_in_vain_it_keeps_the_slots_that_were_not_cut) {
  const struct {
    int* until;
    int calls, keeps;  // the calls of begin_anew, and the first of them after which slot 0 is cut
  } kinds[] = {{&cuts_until_failure, 2, 1}, {&syncs_until_failure, 4, 2}};
  for (const auto& kind : kinds) {
    for (int nth = 0; nth <= kind.calls; ++nth) {
      std::filesystem::remove_all(directory_);
      FileStorage files(directory_);
      for (uint8_t i = 1; i <= 2; ++i) ASSERT_TRUE(Checkpoint(files.storage(model)).save(model, state(i).bytes()).ok());
      *kind.until = nth;
      if (nth == kind.calls) {
        EXPECT_NO_THROW(files.begin_anew());
        EXPECT_EQ(*kind.until, 0) << "more calls than are tried";
        *kind.until = -1;
        continue;
      }
      EXPECT_THROW(files.begin_anew(), Error) << nth;
      EXPECT_NE(files.problem().find("Input/output error"), std::string::npos) << files.problem();
      EXPECT_FALSE(files.unsaved() || std::filesystem::exists(directory_ / "unsaved")) << nth;
      EXPECT_EQ(std::filesystem::file_size(directory_ / "slot0.checkpoint") == 0, nth >= kind.keeps) << nth;
      // The second checkpoint is in slot 1, which only a failure to sync it may find cut.
      EXPECT_EQ(loaded(files.storage(model)), nth == 3 ? -int(Code::kNoCheckpoint) : 2) << nth;
      EXPECT_NO_THROW(files.begin_anew()) << "tried again";
      EXPECT_EQ(loaded(files.storage(model)), -int(Code::kNoCheckpoint));
    }
  }
}

TEST_F(file_storage, a_directory_that_is_removed_renamed_or_replaced_fails_the_save) {
  const std::filesystem::path elsewhere = directory_.string() + "_elsewhere";
  for (const char* how : {"removed", "renamed", "replaced", "slot replaced"}) {
    std::filesystem::remove_all(directory_);
    FileStorage files(directory_);
    const Storage storage = files.storage(model);
    ASSERT_TRUE(Checkpoint(storage).save(model, state(1).bytes()).ok());
    if (how == std::string("removed")) {
      std::filesystem::remove_all(directory_);
    } else if (how == std::string("slot replaced")) {
      std::filesystem::copy(directory_ / "slot0.checkpoint", directory_ / "copy");
      std::filesystem::rename(directory_ / "copy", directory_ / "slot0.checkpoint");
    } else {
      std::filesystem::rename(directory_, elsewhere);
      if (how == std::string("replaced")) std::filesystem::copy(elsewhere, directory_);
    }
    EXPECT_EQ(Checkpoint(storage).save(model, state(2).bytes()).code, Code::kStorageFailed) << how;
    EXPECT_FALSE(files.there()) << how;
    EXPECT_NE(files.problem().find("while it was in use"), std::string::npos) << files.problem();
    std::filesystem::remove_all(elsewhere);
  }
}

TEST_F(file_storage, slots_are_two_regular_files) {
  const std::filesystem::path slot0 = directory_ / "slot0.checkpoint", slot1 = directory_ / "slot1.checkpoint";
  const auto refusal = [&](FileStorage::Use use) -> std::string {
    try {
      FileStorage files(directory_, use);
      return "accepted";
    } catch (const Error& e) {
      return e.what();
    }
  };
  const auto expect = [&](const char* words) {
    for (const auto use : {FileStorage::Use::kSave, FileStorage::Use::kRead})
      EXPECT_NE(refusal(use).find(words), std::string::npos) << refusal(use);
  };
  std::filesystem::create_directories(slot0);
  expect("is a directory");
  std::filesystem::remove(slot0);
  ASSERT_EQ(mkfifo(slot0.c_str(), 0666), 0);
  expect("is a pipe");  // at once: nobody writes to it
  std::filesystem::remove(slot0);
  std::filesystem::create_symlink("/dev/zero", slot0);
  expect("is a device");
  std::filesystem::remove(slot0);
  std::ofstream(slot0) << "x";
  std::filesystem::create_hard_link(slot0, slot1);
  expect("is slot0.checkpoint itself");
}

}  // namespace
}  // namespace nacre::tools
