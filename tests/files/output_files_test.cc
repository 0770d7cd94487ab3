#include "tools/files/output_files.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "tests/run_tool.h"
#include "tools/base/error.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;

TEST(output_files, appear_together_in_a_new_directory) {
  const TemporaryDirectory directory;
  OutputFiles files(directory / "out");
  files.add("a", {1, 2});
  files.add("b", {3});
  files.stage();
  EXPECT_FALSE(fs::exists(directory / "out"));
  files.commit();
  EXPECT_EQ(read_bytes(directory / "out/a"), (std::vector<uint8_t>{1, 2}));
  EXPECT_EQ(read_bytes(directory / "out/b"), (std::vector<uint8_t>{3}));
  EXPECT_EQ(directory.entries(), 1u);
}

TEST(output_files, make_what_leads_to_their_directory_when_they_are_written) {
  const TemporaryDirectory directory;
  OutputFiles inner(directory / "a/b/c"), outer(directory / "a/b");
  EXPECT_EQ(directory.entries(), 0u);
  inner.add("x", {1});
  outer.add("y", {2});
  for (OutputFiles* files : {&inner, &outer}) files->stage();
  EXPECT_FALSE(fs::exists(directory / "a"));
  for (OutputFiles* files : {&inner, &outer}) files->commit();
  EXPECT_EQ(read_bytes(directory / "a/b/c/x"), (std::vector<uint8_t>{1}));
  EXPECT_EQ(read_bytes(directory / "a/b/y"), (std::vector<uint8_t>{2}));
}

TEST(output_files, replace_their_own_in_an_old_directory_and_nothing_else) {
  const TemporaryDirectory directory;
  write_bytes(directory / "a", {9});
  write_bytes(directory / "other", {9});
  {
    OutputFiles files(directory.path().string() + "/");
    files.add("a", {1});
    files.stage();
    EXPECT_EQ(read_bytes(directory / "a"), (std::vector<uint8_t>{9}));
    files.commit();
  }
  EXPECT_EQ(read_bytes(directory / "a"), (std::vector<uint8_t>{1}));
  EXPECT_EQ(read_bytes(directory / "other"), (std::vector<uint8_t>{9}));
  EXPECT_EQ(directory.entries(), 2u);
}

TEST(output_files, leave_nothing_when_they_are_not_committed) {
  const TemporaryDirectory directory;
  {
    OutputFiles files(directory / "out");
    files.add("a", {1});
    files.stage();
  }
  EXPECT_EQ(directory.entries(), 0u);
}

TEST(output_files, equal_names_are_numbered) {
  const TemporaryDirectory directory;
  OutputFiles files(directory / "out");
  EXPECT_EQ(files.add("x.npy", {}), "x.npy");
  EXPECT_EQ(files.add("x.npy", {}), "x_2.npy");
  EXPECT_EQ(files.add("x.npy", {}), "x_3.npy");
}

TEST(output_files, refuse_what_cannot_be_their_directory) {
  const TemporaryDirectory directory;
  write_bytes(directory / "file", {1});
  EXPECT_THROW(OutputFiles(directory / "file"), Error);
  EXPECT_THROW(OutputFiles(directory / "file/in/it"), Error);
  fs::create_directory(directory / "out");
  fs::create_directory(directory / "out/a");
  OutputFiles files(directory / "out");
  files.add("a", {1});
  EXPECT_THROW(files.stage(), Error);
}

TEST(output_files, have_the_permissions_of_any_new_directory) {
  const TemporaryDirectory directory;
  OutputFiles files(directory / "out");
  files.add("a", {1});
  files.stage();
  files.commit();
  fs::create_directory(directory / "plain");
  EXPECT_EQ(fs::status(directory / "out").permissions(), fs::status(directory / "plain").permissions());
}

// A signal during the writing of files ends the process with all of the files or none, and without staged files.
TEST(held_signals, end_the_process_between_two_files_with_nothing_left) {
  const TemporaryDirectory directory;
  const auto interrupted = [&] {
    OutputFiles one(directory / "one"), two(directory / "two");
    one.add("a", {1});
    two.add("b", {2});
    const HeldSignals held;
    std::raise(SIGINT);
    OutputFiles* const both[] = {&one, &two};
    try {
      write_together(both);
    } catch (const Error& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
  };
  EXPECT_EXIT(interrupted(), testing::KilledBySignal(SIGINT), "a signal came");
  EXPECT_EQ(directory.entries(), 0u);
}

TEST(held_signals, wait_until_the_files_are_there) {
  const TemporaryDirectory directory;
  const auto interrupted = [&] {
    OutputFiles files(directory / "out");
    files.add("a", {1});
    files.stage();
    const HeldSignals held;
    std::raise(SIGINT);
    files.commit();
  };
  EXPECT_EXIT(interrupted(), testing::KilledBySignal(SIGINT), "");
  EXPECT_TRUE(fs::exists(directory / "out/a"));
}

}  // namespace
}  // namespace nacre::tools
