#include "tools/base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tools/base/caller.h"
#include "tools/base/error.h"
#include "tools/base/print.h"

namespace nacre::tools {
namespace {

using std::chrono::milliseconds, std::chrono::steady_clock;

constexpr uint32_t kUsualPatience = 500;
constexpr milliseconds kInterval(100);
constexpr int kWidth = 30;
constexpr const char* kVariable = "NACRE_PROGRESS_MS";

// Returns how long the work must last before its line is shown.
milliseconds patience() {
  const char* const text = std::getenv(kVariable);
  if (text == nullptr || *text == 0) return milliseconds(kUsualPatience);
  uint32_t value = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc() || rest != end)
    throw Error(kUsage, kVariable, fmt::format("'{}' is no number of milliseconds", text));
  return milliseconds(value);
}

}  // namespace

Progress::Progress(const std::string& what, uint64_t total)
    : what_(what), total_(total), terminal_(caller() == nullptr && isatty(STDERR_FILENO) == 1) {
  const milliseconds wait = patience();
  interval_ = std::min(wait, kInterval);
  next_ = steady_clock::now() + wait;
}

Progress::~Progress() {
  if (shown_) complain("\r\x1b[K");
}

void Progress::clear() {
  if (shown_) complain("\r\x1b[K");
  if (shown_) next_ = steady_clock::now();
  shown_ = false;
}

void Progress::show(uint64_t done, const std::string& more) {
  if (Caller* const to = caller()) {
    to->progress(what_, done, total_);
    return require_not_interrupted();
  }
  if (!terminal_) return;
  const auto now = steady_clock::now();
  if (now < next_) return;
  next_ = now + interval_;
  shown_ = true;
  const int filled = total_ == 0 ? 0 : int(double(done) / double(total_) * kWidth);
  complain(fmt::format("\r{} [{:=<{}}{:{}}] {} of {}{}{}\x1b[K", escaped(what_), "", filled, "", kWidth - filled, done,
                       total_, more.empty() ? "" : "  ", escaped(more)));
}

}  // namespace nacre::tools
