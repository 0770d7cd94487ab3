// Tests elements in memory or, beyond 64 MiB, in a temporary file: the bytes are the same, and shared until changed.
#include "tools/files/element_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "tests/run_tool.h"
#include "tools/base/error.h"

namespace nacre::tools {
namespace {

constexpr size_t kAtOnce = size_t{1} << 20;

std::vector<uint8_t> a_mebibyte() {
  std::vector<uint8_t> part(kAtOnce);
  for (size_t i = 0; i < part.size(); ++i) part[i] = uint8_t(i * 2654435761u >> 13);
  return part;
}

ElementBytes filled(size_t mebibytes) {
  const std::vector<uint8_t> part = a_mebibyte();
  ElementBytes bytes;
  for (size_t i = 0; i < mebibytes; ++i) bytes.append(part);
  return bytes;
}

bool is_filled(const ElementBytes& bytes, size_t mebibytes) {
  const std::vector<uint8_t> part = a_mebibyte();
  bool same = bytes.size() == mebibytes * kAtOnce;
  each_part(bytes, 1, [&](std::span<const uint8_t> seen, size_t first) {
    for (size_t i = 0; same && i < seen.size();) {
      const size_t at = (first + i) % part.size(), count = std::min(part.size() - at, seen.size() - i);
      same = std::memcmp(&seen[i], &part[at], count) == 0;
      i += count;
    }
  });
  return same;
}

TEST(element_bytes, go_into_a_file_beyond_their_limit) {
  const ElementBytes held = filled(64), moved = filled(65);
  EXPECT_FALSE(held.in_file());
  EXPECT_TRUE(moved.in_file());
  EXPECT_TRUE(is_filled(held, 64));
  EXPECT_TRUE(is_filled(moved, 65));
}

TEST(element_bytes, are_shared_until_they_are_changed) {
  for (const size_t mebibytes : {1, 70}) {
    const ElementBytes first = filled(mebibytes);
    ElementBytes copy = first;
    EXPECT_EQ(std::as_const(copy).data(), first.data());
    copy[5] = uint8_t(copy[5] + 1);
    EXPECT_NE(std::as_const(copy).data(), first.data());
    EXPECT_TRUE(is_filled(first, mebibytes));
    EXPECT_FALSE(is_filled(copy, mebibytes));
    copy[5] = first[5];
    EXPECT_TRUE(is_filled(copy, mebibytes));
  }
}

TEST(element_bytes, that_are_new_are_0) {
  ElementBytes bytes = filled(80);
  bytes.resize(70 * kAtOnce);
  bytes.resize(90 * kAtOnce);
  EXPECT_EQ(bytes[70 * kAtOnce - 1], a_mebibyte().back());
  EXPECT_TRUE(std::all_of(bytes.begin() + 70 * kAtOnce, bytes.end(), [](uint8_t b) { return b == 0; }));
}

TEST(element_bytes, are_converted_in_parts_with_the_numbers_of_their_elements) {
  const ElementBytes x = filled(70);
  std::vector<size_t> firsts;
  const ElementBytes y = in_parts(x, 8, [&](std::span<const uint8_t> part, size_t first) {
    firsts.push_back(first);
    return std::vector<uint8_t>(part.begin(), part.end());
  });
  EXPECT_TRUE(is_filled(y, 70));
  ASSERT_EQ(firsts.size(), 18u);
  EXPECT_EQ(firsts[1], ElementBytes::kPartBytes / 8);
}

TEST(element_bytes, say_where_no_temporary_file_can_be_made) {
  const TemporaryDirectory folder;
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", (folder / "nowhere").c_str(), 1);
  try {
    filled(65);
    ADD_FAILURE() << "a file was made in a directory that is not there";
  } catch (const Error& error) {
    EXPECT_TRUE(has(error.what(), folder / "nowhere")) << error.what();
    EXPECT_TRUE(has(error.what(), "TMPDIR")) << error.what();
  }
  setenv("TMPDIR", folder.path().c_str(), 1);
  EXPECT_TRUE(is_filled(filled(65), 65));
  EXPECT_EQ(folder.entries(), 0u);  // without a name
  if (before == nullptr) unsetenv("TMPDIR");
  else setenv("TMPDIR", kept.c_str(), 1);
}

}  // namespace
}  // namespace nacre::tools
