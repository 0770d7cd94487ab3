// Runs the commands of the tool in this process: one call takes the words that a user would type.
#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "python/native/bindings.h"
#include "python/native/caller.h"
#include "python/native/errors.h"
#include "tools/cli/tool.h"

namespace nb = nanobind;

namespace nacre::python {
namespace {

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
