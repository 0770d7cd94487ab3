#include "tools/training/file_storage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/train/state_models.h"
#include "tools/error.h"

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
    EXPECT_EQ(loaded(files.storage()), -int(Code::kNoCheckpoint));
  }
  for (uint8_t i = 1; i <= 3; ++i) {
    FileStorage files(directory_);
    ASSERT_TRUE(Checkpoint(files.storage()).save(model, state(i).bytes()).ok()) << files.problem();
    EXPECT_EQ(loaded(files.storage()), i);
    EXPECT_EQ(files.problem(), "");
  }
  // header, mark, 4 rows, state
  EXPECT_EQ(std::filesystem::file_size(directory_ / "slot0.checkpoint"), 64 + 16 + 128 + model.region_bytes(Region::kState));
  FileStorage files(directory_);
  EXPECT_EQ(loaded(files.storage()), 3);
  ASSERT_TRUE(Checkpoint(files.storage()).revert().ok());
  EXPECT_EQ(loaded(files.storage()), 2);
}

TEST_F(file_storage, confirms) {
  FileStorage files(directory_);
  Checkpoint checkpoint(files.storage());
  ASSERT_TRUE(checkpoint.save(model, state(1).bytes(), {.pending = true}).ok());
  ASSERT_TRUE(checkpoint.confirm().ok());
  Checkpoint::Report report;
  ASSERT_TRUE(checkpoint.look(&report).ok());
  EXPECT_FALSE(report.pending);
}

TEST_F(file_storage, cut_files_give_the_checkpoint_before) {
  {
    FileStorage files(directory_);
    for (uint8_t i = 1; i <= 2; ++i) ASSERT_TRUE(Checkpoint(files.storage()).save(model, state(i).bytes()).ok());
  }
  const std::string newest = directory_ / "slot1.checkpoint";
  for (uint64_t size = std::filesystem::file_size(newest); size-- > 0;) {
    std::filesystem::resize_file(newest, size);
    FileStorage files(directory_);
    ASSERT_EQ(loaded(files.storage()), 1) << size;
  }
  std::filesystem::resize_file(directory_ / "slot0.checkpoint", 100);
  std::ofstream(newest) << "not a checkpoint at all, but a file of more than sixty-four bytes, so that the header is there";
  FileStorage files(directory_);
  EXPECT_EQ(loaded(files.storage()), -int(Code::kCheckpointDamaged));
  ASSERT_TRUE(Checkpoint(files.storage()).save(model, state(5).bytes()).ok());
  EXPECT_EQ(loaded(files.storage()), 5);
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

}  // namespace
}  // namespace nacre::tools
