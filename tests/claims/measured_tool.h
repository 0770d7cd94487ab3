// Runs the built `nacre` and measures what it took: processor time, memory, what it said. A run that goes on for long
// after it should have ended is killed, and says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nacre::test {

struct Measured {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  bool hung = false;   // killed after two minutes
  bool sent = false;   // a signal, at the call that was named
  double seconds = 0;  // of the processor; where a signal was sent, since then
  uint64_t peak_bytes = 0;
  uint64_t calls = 0;  // of the system, where they were counted
  std::string error;   // standard error
};

using Arguments = std::vector<std::string>;

Measured run_measured(const Arguments& arguments);

// Runs the tool as run_measured() does, counts its system calls, and sends SIGTERM at the `at`-th of them (0: never).
// kAtTimer: six calls after the one that makes a timer, when a training that keeps checkpoints has its handlers.
// After the signal nothing is counted any more.
inline constexpr uint64_t kAtTimer = ~uint64_t{0};
Measured run_counted(const Arguments& arguments, uint64_t at);

bool can_count_calls();  // whether this machine lets a process trace its child

// One sentence: a line, or two, that begin as every refusal does.
bool is_one_sentence(const std::string& error);

}  // namespace nacre::test
