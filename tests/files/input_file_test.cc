#include "tools/files/input_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/run_tool.h"
#include "tools/base/error.h"
#include "tools/files/npy.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;

void put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
std::string get(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path);
  return {bytes.begin(), bytes.end()};
}

// These functions change a file after it was read.
void remove_file(const std::string& path) { fs::remove(path); }
void replace_file(const std::string& path) {
  put(path + ".new", "another");
  fs::rename(path + ".new", path);
}
void cut_file(const std::string& path) { fs::resize_file(path, 2); }
void overwrite_file(const std::string& path) { put(path, "changed"); }
void link_elsewhere(const std::string& path) {
  put(path + ".other", "another");
  fs::remove(path);
  fs::create_symlink(path + ".other", path);
}

TEST(command_inputs, give_the_bytes_of_the_start_whatever_happens_to_the_file) {
  const TemporaryDirectory directory;
  const std::string path = directory / "in";
  for (void (*happens)(const std::string&) : {remove_file, replace_file, cut_file, overwrite_file, link_elsewhere}) {
    fs::remove(path);
    put(path, "as it was");
    CommandInputs inputs;
    inputs.hold(path);
    happens(path);
    EXPECT_EQ(get(path), "as it was");
    EXPECT_EQ(InputFile(path).size(), 9u);
  }
}

TEST(command_inputs, hold_a_file_from_when_it_is_first_read) {
  const TemporaryDirectory directory;
  put(directory / "in", "first");
  const CommandInputs inputs;
  EXPECT_EQ(get(directory / "in"), "first");
  put(directory / "in", "second");
  EXPECT_EQ(get(directory / "in"), "first");
}

TEST(command_inputs, of_one_command_are_not_those_of_the_next) {
  const TemporaryDirectory directory;
  put(directory / "in", "first");
  {
    CommandInputs inputs;
    inputs.hold(directory / "in");
  }
  put(directory / "in", "second");
  EXPECT_EQ(get(directory / "in"), "second");
  const CommandInputs inputs;
  EXPECT_EQ(get(directory / "in"), "second");
}

// The file is larger than what is kept in memory. It stays open, and a change of its content is refused.
TEST(command_inputs, of_a_large_file_a_change_is_refused_and_a_removal_does_not_matter) {
  const TemporaryDirectory directory;
  const std::string path = directory / "large";
  put(path, "head");
  fs::resize_file(path, CommandInputs::kHeldBytes + 1);
  CommandInputs inputs;
  inputs.hold(path);
  uint8_t head[4] = {};
  fs::rename(path, path + ".away");
  EXPECT_EQ(InputFile(path).read(0, head), 4u);
  fs::resize_file(path + ".away", 100);
  try {
    InputFile(path).read(0, head);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, kIo);
    EXPECT_TRUE(has(error.what(), "was changed while it was read")) << error.what();
  }
}

TEST(command_inputs, of_a_folder_are_its_arrays) {
  const TemporaryDirectory directory;
  put(directory / "a.npy", "a");
  put(directory / "a.txt", "t");
  CommandInputs inputs;
  inputs.hold(directory.path().string());
  put(directory / "a.npy", "b");
  put(directory / "b.npy", "b");
  put(directory / "a.txt", "u");
  EXPECT_EQ(npy_files(directory.path().string()), std::vector<std::string>{directory / "a.npy"});
  fs::remove(directory / "a.npy");
  EXPECT_EQ(npy_files(directory.path().string()), std::vector<std::string>{directory / "a.npy"});
  EXPECT_EQ(get(directory / "a.npy"), "a");
  EXPECT_EQ(get(directory / "a.txt"), "u");
}

TEST(command_inputs, that_are_not_there_are_refused_where_they_are_read) {
  const TemporaryDirectory directory;
  CommandInputs inputs;
  inputs.hold(directory / "none");
  inputs.hold(kStandardStream);
  EXPECT_THROW(read_file(directory / "none"), Error);
}

TEST(command_inputs, archives_of_arrays_are_read_as_they_were) {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.npz";
  NpyArray array = {ElementType::kInt8, {3}, std::vector<uint8_t>{1, 2, 3}};
  write_npz(path, {{"a", array}});
  CommandInputs inputs;
  inputs.hold(path);
  overwrite_file(path);
  const NpzArrays read = read_npz(path);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].second.data.size(), 3u);
}

}  // namespace
}  // namespace nacre::tools
