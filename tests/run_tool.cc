#include "tests/run_tool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;

struct Pipe {
  int ends[2];  // the read end and the write end
  Pipe() {
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  }
  Pipe(int read_end, int write_end) : ends{read_end, write_end} {}
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  // Makes a pipe whose writer finds itself on a terminal.
  static Pipe terminal() {
    const int read_end = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (read_end < 0 || grantpt(read_end) != 0 || unlockpt(read_end) != 0) throw std::runtime_error("posix_openpt");
    const int write_end = open(ptsname(read_end), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (write_end < 0) throw std::runtime_error("a pseudo terminal");
    return {read_end, write_end};
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

// Runs in the child process. Returns only if something fails.
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
  if (options.interrupt && setenv("NACRE_PROGRESS_MS", "0", 1) != 0) return;
  std::signal(SIGINT, SIG_DFL);
  execv(tool.c_str(), argv.data());
}

// Appends the bytes that are ready to `text`, and returns false at the end. If a terminal's other side is closed,
// read() ends with an error.
bool read_some(int file, std::string* text) {
  char buffer[4096];
  const ssize_t count = read(file, buffer, sizeof buffer);
  if (count > 0) text->append(buffer, size_t(count));
  return count > 0;
}

// Reads `out` and `err` to their ends. With `interrupt`, sends SIGINT to the child when it first writes to `err`.
void collect(int out, int err, pid_t child, bool interrupt, ToolRun* run) {
  pollfd polled[] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  std::string* texts[] = {&run->out, &run->err};
  for (int open_ends = 2; open_ends > 0;) {
    poll(polled, 2, -1);
    if (interrupt && polled[1].revents != 0) {
      kill(child, SIGINT);
      interrupt = false;
    }
    for (int i = 0; i < 2; ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0 || read_some(polled[i].fd, texts[i])) continue;
      polled[i].fd = -1;
      --open_ends;
    }
  }
}

}  // namespace

ToolRun run_tool(const std::vector<std::string>& arguments, const ToolOptions& options) {
  tool_path();
  Pipe out, err = options.interrupt ? Pipe::terminal() : Pipe();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) {
    become_tool(arguments, options, out.ends[1], err.ends[1]);
    _exit(126);
  }
  out.close_end(1);
  err.close_end(1);
  ToolRun run;
  collect(out.ends[0], err.ends[0], child, options.interrupt, &run);
  int status = 0;
  rusage usage = {};
  wait4(child, &status, 0, &usage);
  run.peak_kib = usage.ru_maxrss;
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
