// Adds to Program what looks into a run: every tensor of it, the time of each step, and the values of its stream.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <utility>
#include <vector>

#include "python/native/caller.h"
#include "python/native/errors.h"
#include "python/native/program_handle.h"
#include "python/native/tensors.h"
#include "tools/commands/bench/profile_table.h"
#include "tools/graph/layouts.h"
#include "tools/model/profile.h"
#include "tools/model/tensor_dump.h"

namespace nb = nanobind;

namespace nacre::python {
namespace {

using tools::Json;

// Returns a pair for each tensor of one run, in the order in which they are complete: what it is as JSON, its bytes.
nb::list tensors_of_run(const ProgramHandle& self) {
  std::vector<std::pair<uint32_t, std::vector<uint8_t>>> made;
  {
    const nb::gil_scoped_release unlocked;
    Signals signals;
    tools::run_and_take(self.bound, [&](uint32_t tensor, int) {
      const TensorRecord& record = self.loaded().model().tensors()[tensor];
      made.emplace_back(tensor, tools::row_major_bytes(record, self.program().bytes(tensor).data()));
      signals.check();
    });
  }
  nb::list list;
  for (const auto& [tensor, bytes] : made) {
    const Json what =
        tensor_json(self.loaded(), tensor, self.loaded().tensor_name(tensor), self.program().view().batch);
    list.append(nb::make_tuple(text_of(what.dump()), nb::bytes(bytes.data(), bytes.size())));
  }
  return list;
}

nb::str profile(const ProgramHandle& self, uint32_t index, const nb::list& inputs, uint64_t runs, nb::object progress,
                nb::object notice) {
  const InputBytes from(inputs);
  if (from.count() != self.program().input_count()) throw nb::value_error("profile: one array for each input");
  PythonCaller caller(std::move(progress), nb::none(), std::move(notice));
  Json made;
  try {
    const nb::gil_scoped_release unlocked;
    const tools::CallerScope scope(caller);
    const tools::Profile times = tools::profile(self.bound, runs, [&] { write_inputs(self.program(), from); });
    made = tools::profile_json(self.loaded(), index, times);
  } catch (const tools::Interrupted&) {
  }
  caller.raise();
  return text_of(made.dump());
}

// Describes the tensors that keep values from run to run, each with its number.
nb::str stream_tensors(const ProgramHandle& self) {
  const std::span<const TensorRecord> tensors = self.loaded().model().tensors();
  Json made = Json::array();
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].region != Region::kStream) continue;
    made.push_back(tensor_json(self.loaded(), i, self.loaded().tensor_name(i), self.program().view().batch));
    made.back()["tensor"] = i;
  }
  return text_of(made.dump());
}

Array stream_tensor(nb::handle_t<ProgramHandle> handle, uint32_t tensor) {
  const auto& self = nb::cast<const ProgramHandle&>(handle);
  const std::span<const TensorRecord> tensors = self.loaded().model().tensors();
  if (tensor >= tensors.size() || tensors[tensor].region != Region::kStream) throw nb::index_error("no such tensor");
  return array_over(self.program().bytes(tensor), tensors[tensor], handle);
}

}  // namespace

void add_details(nb::class_<ProgramHandle>& program) {
  program
      .def("tensors_of_run", &tensors_of_run, nb::sig("def tensors_of_run(self) -> list[tuple[str, bytes]]"),
           "Runs on what stands in the inputs. Gives every tensor: what it is as JSON, and its bytes.")
      .def(
          "profile", &profile, nb::arg("index"), nb::arg("inputs"), nb::arg("runs"), nb::arg("progress").none(),
          nb::arg("notice"),
          nb::sig("def profile(self, index: int, inputs: list[numpy.typing.NDArray[numpy.uint8]], runs: int, progress: "
                  "collections.abc.Callable[[str, int, int], object] | None, notice: "
                  "collections.abc.Callable[[str, bool], object]) -> str"),
          "The times of the steps, as `nacre bench --profile --json` prints them.")
      .def("stream_tensors", &stream_tensors, "The tensors that keep values from run to run, as JSON.")
      .def("stream_tensor", &stream_tensor, nb::arg("tensor"),
           nb::sig("def stream_tensor(self, tensor: int) -> numpy.typing.NDArray[typing.Any]"));
}

}  // namespace nacre::python
