// Caller: a program that runs commands in its own process, for example the Python package. It receives the command's
// output in place of the terminal and decides whether the work goes on. Each thread has its own caller. A thread
// without a caller uses the terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nacre::tools {

class Caller {
 public:
  virtual ~Caller() = default;
  virtual void print(const std::string& text) = 0;  // text for standard output
  virtual void note(const std::string& line) = 0;   // a notice, without the end of its line
  // Tells that something is wrong, such as a damaged slot, while the command goes on.
  virtual void warn(const std::string& sentence) = 0;
  virtual void progress(const std::string& what, uint64_t done, uint64_t total) = 0;
  // Reports the end of a training epoch; `record` is its JSON. If the result is false, the training ends here.
  virtual bool epoch(const std::string& record) = 0;
  // Returns the option as the caller spells it.
  virtual std::string option(std::string_view id, std::string_view value) const = 0;
  virtual bool interrupted() = 0;  // true: the work ends once nothing is lost
};

Caller* caller();  // the caller of this thread, or null

// While a CallerScope lives, commands of this thread belong to `caller`.
class CallerScope {
 public:
  explicit CallerScope(Caller& caller);
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

 private:
  Caller* before_;
};

// Thrown when the caller has interrupted the work. It is not derived from Error, so handlers of Error do not catch it.
struct Interrupted {};
void require_not_interrupted();

}  // namespace nacre::tools
