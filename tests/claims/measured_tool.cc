#include "tests/claims/measured_tool.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace nacre::test {
namespace {

constexpr int kMostSeconds = 120;

double seconds_of(const rusage& r) {
  return double(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + 1e-6 * double(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

std::string text_of(int file) {
  std::string text(1 << 16, '\0');
  const ssize_t count = pread(file, text.data(), text.size(), 0);
  text.resize(size_t(std::max<ssize_t>(count, 0)));
  return text;
}

// Starts the tool, with standard error in a file without a name. A traced child cannot look for leaks, so it does
// not.
pid_t start(const Arguments& arguments, int error, bool traced) {
  const char* const tool = std::getenv("NACRE_TOOL");
  if (tool == nullptr) throw std::runtime_error("NACRE_TOOL must name the built nacre");
  std::vector<char*> argv = {const_cast<char*>("nacre")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  const int nothing = open("/dev/null", O_RDWR);
  if (dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0 || dup2(error, STDERR_FILENO) < 0) _exit(126);
  if (traced) setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  if (traced && ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(126);
  execv(tool, argv.data());
  _exit(126);
}

void finish(int status, const rusage& used, Measured* m) {
  if (WIFEXITED(status)) m->exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) m->signal = WTERMSIG(status);
  m->peak_bytes = uint64_t(used.ru_maxrss) * 1024;
}

volatile pid_t watched = 0;
volatile sig_atomic_t given_up = 0;

// Kills the awaited child after a time limit. A refusal that never comes is a failure, not a reason to wait.
class Watchdog {
 public:
  explicit Watchdog(pid_t child) {
    watched = child;
    given_up = 0;
    std::signal(SIGALRM, [](int) {
      given_up = 1;
      kill(watched, SIGKILL);
    });
    alarm(kMostSeconds);
  }
  ~Watchdog() { alarm(0); }
};

// Returns whether a traced child stopped at the beginning of a system call.
bool enters_call(pid_t child, uint64_t* number) {
  __ptrace_syscall_info info = {};
  if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) <= 0) return false;
  *number = info.op == PTRACE_SYSCALL_INFO_ENTRY ? info.entry.nr : 0;
  return info.op == PTRACE_SYSCALL_INFO_ENTRY;
}

}  // namespace

Measured run_measured(const Arguments& arguments) {
  const int error = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  const pid_t child = start(arguments, error, false);
  const Watchdog watchdog(child);
  Measured m;
  int status = 0;
  rusage used = {};
  while (wait4(child, &status, 0, &used) < 0 && errno == EINTR) {
  }
  finish(status, used, &m);
  m.seconds = seconds_of(used);
  m.hung = given_up != 0;
  m.error = text_of(error);
  close(error);
  return m;
}

Measured run_counted(const Arguments& arguments, uint64_t at) {
  const int error = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  const pid_t child = start(arguments, error, true);
  const Watchdog watchdog(child);
  Measured m;
  double before = 0;
  int status = 0;
  rusage used = {};
  bool first = true;
  for (;;) {
    if (wait4(child, &status, 0, &used) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    if (!WIFSTOPPED(status)) break;
    int deliver = WSTOPSIG(status);
    uint64_t number = 0;
    if (first) ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    if (first || deliver == (SIGTRAP | 0x80)) deliver = 0;
    if (!first && deliver == 0 && enters_call(child, &number)) {
      ++m.calls;
      if (at == kAtTimer && number == SYS_timer_create) at = m.calls + 6;  // the call that installs the last handler
      if (!m.sent && m.calls == at) {
        before = seconds_of(used);
        m.sent = kill(child, SIGTERM) == 0;
      }
    }
    first = false;
    // After the signal nothing is counted, because counting would slow the child down.
    ptrace(m.sent ? PTRACE_CONT : PTRACE_SYSCALL, child, nullptr, deliver);
  }
  finish(status, used, &m);
  m.seconds = seconds_of(used) - before;
  m.hung = given_up != 0;
  m.error = text_of(error);
  close(error);
  return m;
}

bool can_count_calls() { return run_counted({"--version"}, 0).calls > 0; }

bool is_one_sentence(const std::string& error) {
  const auto lines = std::ranges::count(error, '\n');
  return error.starts_with("nacre: ") && error.ends_with('\n') &&
         (lines == 1 || (lines == 2 && error.find("\n    ") != std::string::npos)) &&
         error.find("internal error") == std::string::npos && error.find("memory: this machine") == std::string::npos;
}

}  // namespace nacre::test
