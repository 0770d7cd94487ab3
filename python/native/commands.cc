// Runs the commands of the tool in this process: one call takes the words that a user would type.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "python/native/bindings.h"
#include "python/native/errors.h"
#include "tools/base/caller.h"
#include "tools/cli/tool.h"

namespace nb = nanobind;

namespace nacre::python {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kInterval = std::chrono::milliseconds(50);  // between two checks of signals, and two calls of progress

// Receives the calls of a command, which runs without the interpreter's lock. The first exception of a callback or of
// a signal's handler interrupts the command.
class PythonCaller : public tools::Caller {
 public:
  PythonCaller(nb::object progress, nb::object epoch, nb::object notice)
      : progress_(std::move(progress)), epoch_(std::move(epoch)), notice_(std::move(notice)) {}

  void print(const std::string& text) override { printed_ += text; }
  void note(const std::string& line) override { tell(line, false); }
  void warn(const std::string& sentence) override { tell(sentence, true); }

  void progress(const std::string& what, uint64_t done, uint64_t total) override {
    const Clock::time_point now = Clock::now();
    if (raised_ || progress_.is_none() || (now < next_progress_ && done != total)) return;
    next_progress_ = now + kInterval;
    const nb::gil_scoped_acquire lock;
    call([&] { progress_(text_of(what), done, total); });
  }

  bool epoch(const std::string& record) override {
    if (epoch_.is_none()) return !raised_;
    const nb::gil_scoped_acquire lock;
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
    const Clock::time_point now = Clock::now();
    if (raised_ || now < next_look_) return raised_.has_value();
    next_look_ = now + kInterval;
    const nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) raised_.emplace();
    return raised_.has_value();
  }

  // Raises again the exception that interrupted the command, if there is one.
  void raise() {
    if (raised_) throw *raised_;
  }
  nb::str printed() const { return text_of(printed_); }

 private:
  void tell(const std::string& line, bool wrong) {
    if (raised_) return;
    const nb::gil_scoped_acquire lock;
    call([&] { notice_(text_of(line), wrong); });
  }

  template <class Work>
  void call(const Work& work) {
    try {
      work();
    } catch (nb::python_error& error) {
      raised_.emplace(std::move(error));
    }
  }

  nb::object progress_, epoch_, notice_;
  std::string printed_;
  std::optional<nb::python_error> raised_;
  Clock::time_point next_progress_ = {}, next_look_ = {};
};

nb::str run(const nb::list& words, nb::object progress, nb::object epoch, nb::object notice) {
  std::vector<std::string> typed;
  for (nb::handle word : words) {
    const auto bytes = nb::cast<nb::bytes>(word);
    typed.emplace_back(bytes.c_str(), bytes.size());
  }
  PythonCaller caller(std::move(progress), std::move(epoch), std::move(notice));
  try {
    const nb::gil_scoped_release unlocked;
    const tools::CallerScope scope(caller);
    tools::run_command(std::move(typed));
  } catch (const tools::Interrupted&) {
  }
  caller.raise();
  return caller.printed();
}

}  // namespace

void add_commands(nb::module_& m) {
  m.def("run", &run, nb::arg("words"), nb::arg("progress").none(), nb::arg("epoch").none(), nb::arg("notice"),
        nb::sig("def run(words: list[bytes], progress: collections.abc.Callable[[str, int, int], object] | None, "
                "epoch: collections.abc.Callable[[str], object] | None, "
                "notice: collections.abc.Callable[[str, bool], object]) -> str"),
        "Runs one command and returns the text that it printed. Calls notice(line, wrong) for each notice.");
  m.def("commands", [] { return text_of(tools::command_table().dump()); }, "All commands with their options, as JSON.");
}

}  // namespace nacre::python
