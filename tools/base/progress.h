// A line on the terminal for what takes long: "run  420 of 1797". Silent where standard error is no terminal, and for
// the first half second. Environment: NACRE_PROGRESS_MS=N, other milliseconds than 500; with 0 every step is shown,
// whatever it takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace nacre::tools {

class Progress {
 public:
  Progress(const std::string& what, uint64_t total);
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // With a caller (caller.h) it is told, and Interrupted is thrown where it says so.
  void show(uint64_t done, const std::string& more = "");  // `more` stands behind the bar
  void clear();  // the line, for another to be printed; what follows shows it again

 private:
  std::string what_;
  uint64_t total_;
  bool terminal_, shown_ = false;
  std::chrono::milliseconds interval_;  // between two showings
  std::chrono::steady_clock::time_point next_;
};

}  // namespace nacre::tools
