#include "tools/files/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tools/base/error.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;

// Each test has a directory of its own.
class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "nacre_atomic_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string path(const char* name = "model.nacre") const { return (directory_ / name).string(); }
  size_t files(const fs::path& directory) const {
    return size_t(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
  }
  size_t files() const { return files(directory_); }

  static std::string content(const std::string& name) {
    std::ifstream file(name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path directory_;
};

using atomic_file = AtomicFileTest;

std::string write_refusal(auto function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, kIo);
    return error.what();
  }
  return "accepted";
}

TEST_F(atomic_file, a_committed_file_has_all_that_was_written) {
  AtomicFile file(path());
  file.write("one ");
  file.write("two");
  EXPECT_FALSE(fs::exists(path()));
  file.commit();
  EXPECT_EQ(content(path()), "one two");
  EXPECT_EQ(files(), 1u);
}

TEST_F(atomic_file, without_commit_the_old_file_stays_and_nothing_else) {
  write_file_whole(path(), "old");
  {
    AtomicFile file(path());
    file.write("new");
    EXPECT_EQ(files(), 2u);
  }
  EXPECT_EQ(content(path()), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(atomic_file, an_existing_file_is_replaced_and_keeps_its_permissions) {
  write_file_whole(path(), "old and long");
  fs::permissions(path(), fs::perms(0640));
  write_file_whole(path(), "new");
  EXPECT_EQ(content(path()), "new");
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms(0640));
}

TEST_F(atomic_file, a_link_stays_a_link) {
  write_file_whole(path("real"), "old");
  fs::create_symlink("real", path("link"));
  write_file_whole(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(content(path("real")), "new");
}

TEST_F(atomic_file, a_missing_directory_and_a_directory_are_refused) {
  const std::string missing = path("missing/model.nacre");
  EXPECT_EQ(write_refusal([&] { write_file_whole(missing, "x"); }),
            missing +
                ": no file can be made in its directory: No such file or directory\n    make the directory first, or "
                "name another");
  EXPECT_EQ(write_refusal([&] { write_file_whole(directory_.string(), "x"); }),
            directory_.string() + ": cannot be written: Is a directory\n    name a file");
  EXPECT_NE(write_refusal([&] { write_file_whole("", "x"); }), "accepted");
  EXPECT_NE(write_refusal([&] { write_file_whole(path(std::string(300, 'n').c_str()), "x"); }), "accepted");
  EXPECT_EQ(files(), 0u);
}

TEST_F(atomic_file, a_device_is_written_and_never_replaced) {
  write_file_whole("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(write_refusal([] { write_file_whole("/dev/full", "x"); }),
            "/dev/full: cannot be written: No space left on device\n    free some space, or name another disk");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(atomic_file, a_full_disk_leaves_the_old_file_and_nothing_else) {
  const fs::path disk = directory_ / "disk";
  fs::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0) GTEST_SKIP() << "mounting a small disk needs root";
  const std::string file = (disk / "model.nacre").string();
  write_file_whole(file, "old");
  const std::string why = write_refusal([&] { write_file_whole(file, std::string(200'000, 'x')); });
  const std::string kept = content(file);
  const size_t left = files(disk);
  EXPECT_EQ(umount(disk.c_str()), 0);
  EXPECT_EQ(why, file + ": cannot be written: No space left on device\n    free some space, or name another disk");
  EXPECT_EQ(kept, "old");
  EXPECT_EQ(left, 1u);
}

// Runs `function` in a process of its own and returns its status.
int child(auto function) {
  const pid_t pid = fork();
  if (pid == 0) {
    function();
    _exit(99);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

TEST_F(atomic_file, a_limit_on_the_size_of_files_is_an_error_and_no_signal) {
  const int status = child([&] {
    const rlimit limit = {4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_file_whole(path(), std::string(10'000, 'x'));
    } catch (const Error& error) {
      _exit(std::string(error.what()).find("File too large\n    raise the limit") != std::string::npos ? 0 : 1);
    }
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(files(), 0u);
}

// nohup ignores SIGHUP, and files respect the handling with which the process began.
const auto ignored_before = std::signal(SIGHUP, SIG_DFL);

TEST_F(atomic_file, signals_end_the_process_and_leave_nothing) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    write_file_whole(path(), "old");
    const int status = child([&] {
      AtomicFile file(path()), other(path("other"));
      file.write("new");
      other.write("new");
      raise(signal);
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_EQ(content(path()), "old");
    EXPECT_EQ(files(), 1u);
  }
}

TEST_F(atomic_file, more_files_at_once_than_can_be_kept_in_mind_are_refused) {
  std::vector<std::unique_ptr<AtomicFile>> open;
  const std::string why = write_refusal([&] {
    for (int i = 0; i < 100; ++i) open.push_back(std::make_unique<AtomicFile>(path()));
  });
  EXPECT_NE(why, "accepted");
  open.clear();
  EXPECT_EQ(files(), 0u);
  write_file_whole(path(), "x");  // now there is room again
}

TEST_F(atomic_file, every_failure_has_a_remedy) {
  for (const int error : {ENOSPC, EDQUOT, EFBIG, EACCES, EPERM, EROFS, ENOENT, ENOTDIR, EISDIR, ENAMETOOLONG, EMFILE,
                          ENFILE, EPIPE, EIO, 9999})
    EXPECT_NE(remedy_of_write(error), "") << error;
}

TEST_F(atomic_file, several_are_all_there_or_none) {
  const std::vector<uint8_t> one = {1}, two = {2, 2};
  const auto all = [&](const std::string& second) {
    return std::vector<WholeFile>{{path("one"), one}, {second, two}, {path("three"), one}};
  };
  EXPECT_NE(write_refusal([&] { write_files_whole(all(path("missing/two"))); }), "accepted");
  EXPECT_NE(write_refusal([&] { write_files_whole(all("/dev/full")); }), "accepted");
  EXPECT_EQ(files(), 0u);
  write_files_whole(all(path("two")));
  EXPECT_EQ(files(), 3u);
  EXPECT_EQ(content(path("two")).size(), 2u);
}

TEST_F(AtomicFileTest, follows_a_link_to_a_file_that_is_not_there_yet) {
  fs::create_directory(directory_ / "folder");
  fs::create_symlink("folder/target", path("link"));
  write_file_whole(path("link"), std::string_view("new"));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_TRUE(fs::is_regular_file(directory_ / "folder/target"));
}

}  // namespace
}  // namespace nacre::tools
