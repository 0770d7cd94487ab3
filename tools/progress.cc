#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace nacre::tools {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(500), kInterval = std::chrono::milliseconds(100);
constexpr int kWidth = 30;

}  // namespace

Progress::Progress(const std::string& what, uint64_t total)
    : what_(what),
      total_(total),
      terminal_(isatty(STDERR_FILENO) == 1),
      next_(std::chrono::steady_clock::now() + kPatience) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void Progress::clear() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  if (shown_) next_ = std::chrono::steady_clock::now();
  shown_ = false;
}

void Progress::show(uint64_t done, const std::string& more) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kInterval;
  shown_ = true;
  const int filled = total_ == 0 ? 0 : int(double(done) / double(total_) * kWidth);
  fmt::print(stderr, "\r{} [{:=<{}}{:{}}] {} of {}{}{}\x1b[K", what_, "", filled, "", kWidth - filled, done, total_, more.empty() ? "" : "  ", more);
  std::fflush(stderr);
}

}  // namespace nacre::tools
