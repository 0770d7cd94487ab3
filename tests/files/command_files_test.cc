// Tests which paths are one file, so that a command never overwrites its inputs.
#include "tools/files/command_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "tests/run_tool.h"
#include "tools/base/error.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;

class command_files : public testing::Test {
 protected:
  command_files() {
    write_bytes(directory_ / "data", {1});
    fs::create_directories(directory_ / "folder");
    write_bytes(directory_ / "folder/x.npy", {1});
    write_bytes(directory_ / "folder/x.txt", {1});
  }

  // Returns whether the second path is refused beside the first.
  bool refused(const std::string& first, const std::string& second, bool input = false) const {
    CommandFiles files;
    input ? files.add_input("--first", first) : files.add_output("--first", first);
    try {
      files.add_output("--second", second);
    } catch (const Error& error) {
      EXPECT_EQ(error.code, kUsage);
      EXPECT_EQ(error.what(),
                second + ": is what --first names: it would be overwritten\n    name another with --second");
      return true;
    }
    return false;
  }

  TemporaryDirectory directory_;
};

TEST_F(command_files, an_input_is_refused_by_every_path_that_leads_to_it) {
  const std::string data = directory_ / "data";
  fs::create_symlink(data, directory_ / "link");
  fs::create_symlink("link", directory_ / "link_to_link");
  fs::create_hard_link(data, directory_ / "hard");
  fs::create_directory_symlink(directory_.path(), directory_ / "way");
  for (const char* path :
       {"data", "./data", "folder/../data", "link", "link_to_link", "hard", "way/data", "way/way/hard"})
    EXPECT_TRUE(refused(data, directory_ / path, true)) << path;
  fs::copy_file(data, directory_ / "copy");
  EXPECT_FALSE(refused(data, directory_ / "copy", true));
  EXPECT_FALSE(refused(directory_ / "missing", directory_ / "missing", true)) << "what is not there is read by nobody";
}

TEST_F(command_files, of_a_folder_the_arrays_are_inputs) {
  EXPECT_TRUE(refused(directory_ / "folder", directory_ / "folder/x.npy", true));
  EXPECT_TRUE(refused(directory_ / "folder", directory_ / "folder", true));
  EXPECT_FALSE(refused(directory_ / "folder", directory_ / "folder/x.txt", true));
  EXPECT_FALSE(refused(directory_ / "folder", directory_ / "folder/y.npy", true));
}

TEST_F(command_files, outputs_that_are_not_there_yet_are_told_by_their_place) {
  fs::create_symlink(directory_ / "new", directory_ / "to_nothing");
  fs::create_directory_symlink(directory_.path(), directory_ / "way");
  for (const char* path : {"new", "./new", "folder/../new", "way/new", "to_nothing", "new/"})
    EXPECT_TRUE(refused(directory_ / "new", directory_ / path)) << path;
  EXPECT_TRUE(refused(directory_ / "no/such/new", directory_ / "no/./such/new"));
  EXPECT_FALSE(refused(directory_ / "new", directory_ / "newer"));
  EXPECT_FALSE(refused(directory_ / "new", directory_ / "new/inside"));
}

// Redirects standard output to a file during its lifetime.
class StandardOutput {
 public:
  explicit StandardOutput(const std::string& path) : before_(dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    const int file = open(path.c_str(), O_WRONLY | O_CREAT, 0666);
    dup2(file, STDOUT_FILENO);
    close(file);
  }
  ~StandardOutput() {
    std::fflush(stdout);
    dup2(before_, STDOUT_FILENO);
    close(before_);
  }

 private:
  int before_;
};

TEST_F(command_files, no_output_is_standard_output) {
  const auto refused_beside = [&](const std::string& printed, const std::string& output) {
    const StandardOutput to(printed);
    CommandFiles files;
    try {
      files.add_output("-o", output);
    } catch (const Error& error) {
      return std::string(error.what()) == output +
                                              ": is standard output, where this command prints what it did\n    name a "
                                              "file with -o, or - for standard output";
    }
    return false;
  };
  EXPECT_TRUE(refused_beside(directory_ / "printed", directory_ / "printed"));
  EXPECT_TRUE(refused_beside(directory_ / "printed", "/dev/stdout"));
  EXPECT_FALSE(refused_beside(directory_ / "printed", directory_ / "other"));
  EXPECT_FALSE(refused_beside("/dev/null", "/dev/null"));
  EXPECT_FALSE(refused_beside("/dev/null", "/dev/stdout"));
}

TEST_F(command_files, devices_are_never_overwritten) {
  EXPECT_FALSE(refused("/dev/null", "/dev/null"));
  EXPECT_FALSE(refused("/dev/null", "/dev/null", true));
}

}  // namespace
}  // namespace nacre::tools
