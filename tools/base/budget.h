// Budget: limits how much memory the tools take because a file declares a size. A few bytes can declare gigabytes. So
// code asks first before it makes something whose size a file declares and whose bytes the file does not hold: a
// constant, a random input, a golden pair (an input and its output), the memory of a trial run.
#pragma once

#include <cstdint>
#include <string>

namespace nacre::tools {

class Budget {
 public:
  static constexpr uint64_t kBytes = uint64_t{256} << 20, kTimes = 64;

  Budget() = default;
  explicit Budget(uint64_t file_bytes) : limit_(kBytes + kTimes * file_bytes) {}  // a large file may declare more

  bool has(uint64_t bytes) const { return bytes <= limit_ - spent_; }
  void spend(uint64_t bytes) { spent_ += bytes; }  // after has()

  // Spends the bytes if has() allows it. Else throws an Error: "`place`: `what` would take 12 bytes, the limit is 8".
  void take(uint64_t bytes, const std::string& place, const std::string& what, const std::string& remedy);

 private:
  uint64_t limit_ = kBytes, spent_ = 0;
};

}  // namespace nacre::tools
