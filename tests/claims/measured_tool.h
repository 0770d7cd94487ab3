// Runs the built `nacre` and measures processor time, memory and output. A run that goes on for long after it should
// have ended is killed, which the result says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nacre::test {

struct Measured {
  int exit_code = -1;  // -1: a signal ended it
  int signal = 0;
  bool hung = false;   // killed after two minutes
  bool sent = false;   // whether a signal was sent, at the named call
  double seconds = 0;  // of processor time; after the signal, if one was sent
  uint64_t peak_bytes = 0;
  uint64_t calls = 0;  // system calls, if they were counted
  std::string error;   // standard error
};

using Arguments = std::vector<std::string>;

Measured run_measured(const Arguments& arguments);

// Runs the tool as run_measured() does, counts its system calls, and sends SIGTERM at call `at` (0: never). kAtTimer
// stands for six calls after the one that makes a timer: then a training that keeps checkpoints has its handlers.
// Nothing is counted after the signal.
inline constexpr uint64_t kAtTimer = ~uint64_t{0};
Measured run_counted(const Arguments& arguments, uint64_t at);

bool can_count_calls();  // whether a process may trace its child here

// Returns whether the text is one sentence: a line, or two, that begin as every refusal does.
bool is_one_sentence(const std::string& error);

}  // namespace nacre::test
