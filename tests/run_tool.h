// Runs the built `nacre` (environment NACRE_TOOL) as a user does: arguments in, exit code and text out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/project_path.h"

namespace nacre::tools {

struct ToolRun {
  int exit_code = -1;  // -1 if a signal ended it
  int signal = 0;
  std::string out, err;
  long peak_kib = 0;  // of memory in use
};

struct ToolOptions {
  std::string out_path = {};      // standard output goes to this file; "": into ToolRun::out
  std::string directory = {};     // working directory; "": the test's
  bool interrupt = false;         // SIGINT is sent when the first progress is shown: standard error is a terminal then
  uint64_t file_limit_bytes = 0;  // largest size of a file, as on a full disk; 0: no limit
};

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

ToolRun run_tool(const std::vector<std::string>& arguments, const ToolOptions& options = {});

// A folder that is removed with its content at the end of its life.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }
  size_t entries() const;  // files and folders directly in it

 private:
  std::filesystem::path path_;
};

std::vector<uint8_t> read_bytes(const std::string& path);
void write_bytes(const std::string& path, const std::vector<uint8_t>& bytes);

}  // namespace nacre::tools
