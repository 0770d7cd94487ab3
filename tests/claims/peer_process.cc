#include "tests/claims/peer_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>

namespace nacre::test {

bool PeerProcess::start(const std::string& command, double limit_seconds) {
  end();
  int input[2], output[2];
  if (pipe2(input, O_CLOEXEC) != 0) return sentence_ = "no pipe", false;
  if (pipe2(output, O_CLOEXEC) != 0) return close(input[0]), close(input[1]), sentence_ = "no pipe", false;
  std::signal(SIGPIPE, SIG_IGN);  // a peer may have ended; then run() says so
  process_ = fork();
  if (process_ == 0) {
    setpgid(0, 0);
    dup2(input[0], STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  if (process_ > 0) setpgid(process_, process_);  // processes that the shell starts end with it
  close(input[0]), close(output[1]);
  to_ = input[1], from_ = output[0];
  std::string line;
  if (process_ < 0 || !read_line(&line, limit_seconds)) {
    end();
    return sentence_ = command + " says nothing", false;
  }
  const size_t tab = line.find('\t');
  about_ = line.substr(0, tab);
  std::istringstream words(tab == std::string::npos ? "" : line.substr(tab));
  for (std::string word; words >> word;) names_.push_back(word);
  if (!names_.empty()) return true;
  end();
  return sentence_ = line, false;
}

void PeerProcess::end() {
  for (int* const at : {&to_, &from_}) {
    if (*at >= 0) close(*at);
    *at = -1;
  }
  if (process_ > 0) {
    kill(-process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  process_ = 0;
  read_.clear(), names_.clear();
}

double PeerProcess::run(const std::string& name, int count, double limit_seconds) {
  const std::string request = "run " + name + " " + std::to_string(count) + "\n";
  std::string line;
  if (process_ <= 0) return -1;
  if (write(to_, request.data(), request.size()) != ssize_t(request.size()) || !read_line(&line, limit_seconds)) {
    end();
    return sentence_ = name + ": it ended, or took longer than the time that was left", -1;
  }
  char* rest = nullptr;
  const double nanoseconds = std::strtod(line.c_str(), &rest);
  if (rest != line.c_str() && *rest == 0 && nanoseconds >= 0) return nanoseconds * 1e-9;
  return sentence_ = name + ": " + line, -1;
}

bool PeerProcess::read_line(std::string* line, double limit_seconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::microseconds(int64_t(limit_seconds * 1e6));
  for (;;) {
    if (const size_t at = read_.find('\n'); at != std::string::npos) {
      *line = read_.substr(0, at);
      read_.erase(0, at + 1);
      return true;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd ready = {from_, POLLIN, 0};
    if (left <= 0 || poll(&ready, 1, int(std::min<int64_t>(left, 1'000'000))) <= 0) return false;
    char bytes[4096];
    const ssize_t count = read(from_, bytes, sizeof bytes);
    if (count <= 0) return false;
    read_.append(bytes, size_t(count));
  }
}

}  // namespace nacre::test
