// All GoogleTest suites in one program: unit_tests [--folder NAME] [GoogleTest's options]. --folder runs only
// tests/NAME.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace {

// Returns GoogleTest's filter for the suites of the folder, or "" if it has none.
std::string filter_of(const std::string& folder) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::string filter;
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (std::string(test.file()).find("tests/" + folder + "/") != std::string::npos)
        filter += std::string(suite.name()) + "." + test.name() + ":";
    }
  }
  return filter;
}

}  // namespace

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  if (count == 1) return RUN_ALL_TESTS();
  const std::string filter = count == 3 && std::strcmp(arguments[1], "--folder") == 0 ? filter_of(arguments[2]) : "";
  if (filter.empty()) {
    std::printf("unit_tests [--folder NAME] [GoogleTest's options]: no such folder of tests\n");
    return 2;
  }
  if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, filter);
  return RUN_ALL_TESTS();
}
