#include "tests/model/networks.h"
#include "tests/project_path.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace nacre::test {
namespace {

namespace fs = std::filesystem;

fs::path environment(const char* name, const fs::path& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : fs::path(value);
}

// Returns a folder that is deleted when the process ends.
const fs::path& folder() {
  static const struct Folder {
    fs::path path = fs::temp_directory_path() / ("nacre_test_" + std::to_string(getpid()));
    Folder() { fs::create_directories(path); }
    ~Folder() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } kFolder;
  return kFolder.path;
}

std::string quoted(const fs::path& path) {
  std::string result = "'";
  for (const char c : path.string()) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace

bool read_file(const std::string& path, Buffer* file) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) return false;
  *file = Buffer(size_t(stream.tellg()));
  stream.seekg(0);
  return bool(stream.read(reinterpret_cast<char*>(file->data()), std::streamsize(file->size())));
}

bool convert(const Network& network, Buffer* model, std::string* why, const std::string& options) {
  const fs::path tool = environment("NACRE_TOOL", "");
  const fs::path source = network.sample ? tools::project_path(network.file) : tools::shared_path(network.file);
  if (!fs::exists(source)) return *why = "no " + source.string(), false;
  if (tool.empty() || !fs::exists(tool)) return *why = "no converter: NACRE_TOOL must name it", false;
  const fs::path out = folder() / (std::string(network.name) + ".nacre"), log = folder() / "log";
  const std::string command =
      quoted(tool) + " convert " + quoted(source) + " -o " + quoted(out) + " " + options + " >" + quoted(log) + " 2>&1";
  if (std::system(command.c_str()) != 0) {
    std::ifstream text(log);
    std::getline(text, *why);
    return false;
  }
  return read_file(out.string(), model) || (*why = "no " + out.string(), false);
}

}  // namespace nacre::test
