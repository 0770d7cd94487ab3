// A program that runs commands in its own process, as the Python package does. It receives the command's output in
// place of the terminal and decides whether the work goes on. Each thread has its own caller. A thread without one uses
// the terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nacre::tools {

class Caller {
 public:
  virtual ~Caller() = default;
  virtual void print(const std::string& text) = 0;  // what is printed to standard output
  virtual void note(const std::string& line) = 0;   // a warning, without the end of its line
  virtual void progress(const std::string& what, uint64_t done, uint64_t total) = 0;
  // `record`: JSON of the epoch that a training has ended. False: the training ends with it.
  virtual bool epoch(const std::string& record) = 0;
  virtual std::string option(std::string_view id, std::string_view value) const = 0;  // how it writes one
  virtual bool interrupted() = 0;  // true: the work ends as soon as nothing is lost by it
};

Caller* caller();  // of this thread; null: none

// From here to its end commands of this thread belong to `caller`.
class CallerScope {
 public:
  explicit CallerScope(Caller& caller);
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

 private:
  Caller* before_;
};

// Thrown where the caller has interrupted the work. It is no Error, so that nothing that mends errors goes on.
struct Interrupted {};
void require_not_interrupted();

}  // namespace nacre::tools
