#include "tests/tools/run_tool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;

struct Pipe {
  int ends[2];
  Pipe() {
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  }
  ~Pipe() {
    for (const int end : ends)
      if (end >= 0) close(end);
  }
  void close_end(int i) {
    close(ends[i]);
    ends[i] = -1;
  }
};

std::string tool_path() {
  const char* path = std::getenv("NACRE_TOOL");
  if (path == nullptr) throw std::runtime_error("NACRE_TOOL must name the built nacre");
  return fs::absolute(path).string();
}

// In the child. Returns only if something fails.
void become_tool(const std::vector<std::string>& arguments, const ToolOptions& options, int out, int err) {
  const std::string tool = tool_path();
  std::vector<char*> argv = {const_cast<char*>("nacre")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  if (!options.out_path.empty()) out = open(options.out_path.c_str(), O_WRONLY);
  if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) return;
  if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) return;
  if (options.file_limit_bytes > 0) {
    const rlimit limit = {options.file_limit_bytes, options.file_limit_bytes};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return;
  }
  std::signal(SIGINT, SIG_DFL);
  execv(tool.c_str(), argv.data());
}

// Reads both pipes to their ends; sends SIGINT when its time has come.
void collect(const Pipe& out, const Pipe& err, pid_t child, int interrupt_after_ms, ToolRun* run) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point interrupt = Clock::now() + std::chrono::milliseconds(interrupt_after_ms);
  bool waiting = interrupt_after_ms > 0;
  pollfd polled[] = {{out.ends[0], POLLIN, 0}, {err.ends[0], POLLIN, 0}};
  std::string* texts[] = {&run->out, &run->err};
  for (int open_ends = 2; open_ends > 0;) {
    poll(polled, 2, waiting ? 10 : -1);
    if (waiting && Clock::now() >= interrupt) {
      kill(child, SIGINT);
      waiting = false;
    }
    for (int i = 0; i < 2; ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t count = read(polled[i].fd, buffer, sizeof buffer);
      if (count > 0) {
        texts[i]->append(buffer, size_t(count));
      } else {
        polled[i].fd = -1;
        --open_ends;
      }
    }
  }
}

std::string from_environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

}  // namespace

ToolRun run_tool(const std::vector<std::string>& arguments, const ToolOptions& options) {
  tool_path();
  Pipe out, err;
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) {
    become_tool(arguments, options, out.ends[1], err.ends[1]);
    _exit(126);
  }
  out.close_end(1);
  err.close_end(1);
  ToolRun run;
  collect(out, err, child, options.interrupt_after_ms, &run);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) run.signal = WTERMSIG(status);
  return run;
}

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (fs::temp_directory_path() / "nacre-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

size_t TemporaryDirectory::entries() const {
  return size_t(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
}

std::string project_path(const std::string& path) { return from_environment("NACRE_ROOT", NACRE_ROOT) + "/" + path; }

std::string shared_path(const std::string& path) {
  return from_environment("NACRE_SHARED", project_path("../shared")) + "/" + path;
}

std::vector<uint8_t> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + " cannot be read");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_bytes(const std::string& path, const std::vector<uint8_t>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
}

}  // namespace nacre::tools
