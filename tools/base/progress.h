// Shows the progress of long work in a line on the terminal: "run [===    ] 420 of 1797". Shows nothing if standard
// error is no terminal, nor in the first half second. NACRE_PROGRESS_MS=N in the environment sets another time than
// 500 ms. With N = 0 every call of show() is shown.
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

  // If there is a caller (caller.h), it gets the numbers, no line is shown, and Interrupted is thrown if it interrupts.
  void show(uint64_t done, const std::string& more = "");  // `more` stands after the bar
  void clear();  // clears the line, so that another can be printed; the next show() shows it again

 private:
  std::string what_;
  uint64_t total_;
  bool terminal_, shown_ = false;
  std::chrono::milliseconds interval_;  // between two showings
  std::chrono::steady_clock::time_point next_;
};

}  // namespace nacre::tools
