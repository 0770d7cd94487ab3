#include "tools/files/side_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/run_tool.h"
#include "tools/files/atomic_file.h"

namespace nacre::tools {
namespace {

std::string refusal_of(const SideFiles& files) {
  try {
    files.require_written("t.nacre is written");
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, kIo);
    return error.what();
  }
}

TEST(side_files, one_that_fails_is_told_once_and_refused_at_the_end) {
  SideFiles files;
  const Error* const first = files.write("/dev/full", "a");
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(has(first->what(), "/dev/full: cannot be written: No space left on device"));
  EXPECT_EQ(files.write("/dev/full", "b"), nullptr);
  EXPECT_EQ(files.write("/dev/full", "c", true), nullptr);
  EXPECT_TRUE(has(refusal_of(files), "; t.nacre is written")) << refusal_of(files);
}

TEST(side_files, one_that_can_be_written_again_at_the_end_is_no_failure) {
  const TemporaryDirectory directory;
  const std::string path = directory / "folder/log";
  SideFiles files;
  EXPECT_NE(files.write(path, "a"), nullptr);
  std::filesystem::create_directory(directory / "folder");
  EXPECT_EQ(files.write(path, "b"), nullptr);
  EXPECT_FALSE(std::filesystem::exists(path));  // not before the last
  EXPECT_EQ(files.write(path, "c", true), nullptr);
  EXPECT_EQ(read_bytes(path), (std::vector<uint8_t>{'c'}));
  EXPECT_EQ(refusal_of(files), "");
}

TEST(side_files, a_pipe_that_nobody_reads_is_refused_without_waiting_for_long) {
  const TemporaryDirectory directory;
  ASSERT_EQ(mkfifo((directory / "pipe").c_str(), 0666), 0);
  SideFiles files;
  const Error* const error = files.write(directory / "pipe", "a");
  ASSERT_NE(error, nullptr);
  EXPECT_TRUE(has(error->what(), "nobody reads the pipe")) << error->what();
}

TEST(side_files, a_pipe_whose_reader_ends_is_refused_and_no_signal_comes) {
  const TemporaryDirectory directory;
  ASSERT_EQ(mkfifo((directory / "pipe").c_str(), 0666), 0);
  SideFiles files;
  std::thread reader([&] {
    std::FILE* const pipe = std::fopen((directory / "pipe").c_str(), "rb");
    std::fgetc(pipe);
    std::fclose(pipe);
  });
  const Error* const error = files.write(directory / "pipe", std::string(1 << 20, 'x'));
  reader.join();
  ASSERT_NE(error, nullptr);
  EXPECT_TRUE(has(error->what(), "the reader of the pipe ended")) << error->what();
  sigset_t waiting;
  sigpending(&waiting);
  EXPECT_EQ(sigismember(&waiting, SIGPIPE), 0);
}

TEST(side_files, a_pipe_whose_reader_takes_nothing_is_refused_without_waiting_for_long) {
  const TemporaryDirectory directory;
  const std::string path = directory / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  SideFiles files;
  const Error* const error = files.write(path, std::string(1 << 20, 'x'));
  ASSERT_NE(error, nullptr);
  EXPECT_TRUE(has(error->what(), "the reader of the pipe takes nothing")) << error->what();
  close(reader);
}

TEST(side_files, a_link_to_itself_is_refused) {
  const TemporaryDirectory directory;
  std::filesystem::create_symlink("x", directory / "x");
  try {
    write_file_whole(directory / "x", "a");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_TRUE(has(error.what(), "its links lead in a circle")) << error.what();
  }
  EXPECT_TRUE(std::filesystem::is_symlink(directory / "x"));
  EXPECT_THROW(require_directory_of(directory / "x"), Error);
}

}  // namespace
}  // namespace nacre::tools
