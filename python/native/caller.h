// PythonCaller: what a command of the tool tells and asks while Python waits for it.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "python/native/errors.h"
#include "python/native/signals.h"
#include "tools/base/caller.h"

namespace nacre::python {

// Receives the calls of a command, which runs without the interpreter's lock. The first exception of a callback or of
// a signal's handler interrupts the command.
class PythonCaller : public tools::Caller {
 public:
  PythonCaller(nanobind::object progress, nanobind::object epoch, nanobind::object notice)
      : progress_(std::move(progress)), epoch_(std::move(epoch)), notice_(std::move(notice)) {}

  void print(const std::string& text) override { printed_ += text; }
  void note(const std::string& line) override { tell(line, false); }
  void warn(const std::string& sentence) override { tell(sentence, true); }

  void progress(const std::string& what, uint64_t done, uint64_t total) override {
    const Signals::Clock::time_point now = Signals::Clock::now();
    if (raised_ || progress_.is_none() || (now < next_progress_ && done != total)) return;
    next_progress_ = now + Signals::kInterval;
    const nanobind::gil_scoped_acquire lock;
    call([&] { progress_(text_of(what), done, total); });
  }

  bool epoch(const std::string& record) override {
    if (epoch_.is_none()) return !raised_;
    const nanobind::gil_scoped_acquire lock;
    bool goes_on = true;
    call([&] { goes_on = epoch_(text_of(record)).ptr() != Py_False; });
    return goes_on && !raised_;
  }

  // Names the keyword of an option as keyword_of in _commands.py does.
  std::string option(std::string_view id, std::string_view value) const override {
    std::string text(id);
    std::ranges::replace(text, '-', '_');
    if (text == "except" || text == "lambda") text += '_';
    if (!value.empty()) (text += '=') += value;
    return text;
  }

  bool interrupted() override {
    if (raised_ || !signals_.due()) return raised_.has_value();
    const nanobind::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) raised_.emplace();
    return raised_.has_value();
  }

  // Raises again the exception that interrupted the command, if there is one.
  void raise() {
    if (raised_) throw *raised_;
  }
  nanobind::str printed() const { return text_of(printed_); }

 private:
  void tell(const std::string& line, bool wrong) {
    if (raised_) return;
    const nanobind::gil_scoped_acquire lock;
    call([&] { notice_(text_of(line), wrong); });
  }

  template <class Work>
  void call(const Work& work) {
    try {
      work();
    } catch (nanobind::python_error& error) {
      raised_.emplace(std::move(error));
    }
  }

  nanobind::object progress_, epoch_, notice_;
  std::string printed_;
  std::optional<nanobind::python_error> raised_;
  Signals signals_;
  Signals::Clock::time_point next_progress_ = {};
};

}  // namespace nacre::python
