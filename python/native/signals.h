// Signals: lets Python's handlers of signals run during long work that does not hold the interpreter's lock.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>

namespace nacre::python {

class Signals {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kInterval = std::chrono::milliseconds(50);  // between two checks

  // Returns whether the last check, or the construction, is kInterval ago.
  bool due() {
    const Clock::time_point now = Clock::now();
    if (now < next_) return false;
    next_ = now + kInterval;
    return true;
  }

  // Runs the handlers of pending signals if a check is due. Throws the exception of a handler. The caller does not hold
  // the interpreter's lock.
  void check() {
    if (!due()) return;
    const nanobind::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  }

 private:
  Clock::time_point next_ = Clock::now() + kInterval;
};

}  // namespace nacre::python
