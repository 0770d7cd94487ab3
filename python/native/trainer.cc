// Adds Trainer to nacre._native: the training programs of a model, bound to kernels and to memory of their own.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <vector>

#include "engine/train/step_sums.h"
#include "python/native/bindings.h"
#include "python/native/errors.h"
#include "python/native/runs.h"
#include "python/native/tensors.h"
#include "tools/model/kernel_choice.h"
#include "tools/tuner/objective.h"
#include "tools/tuner/saved_state.h"
#include "tools/tuner/tuned_model.h"
#include "tools/tuner/tuner.h"

namespace nb = nanobind;

namespace nacre::python {
namespace {

using tools::Json, tools::LoadedModel, tools::LoadedTrainer;

// A trainer with the training's objective, which has the names of the data. The engine does not know these.
struct TrainerHandle {
  TrainerHandle(const LoadedModel& model, const std::string& kernels, uint32_t threads, const std::string& target)
      : objective(model, target), kernel_set(tools::name_of_ports(tools::training_ports(model, kernels, target))),
        owner(model, tools::training_ports(model, kernels, target), threads, target),
        runs(sum_runs(model.model(), {})) {
    sum_runs(model.model(), runs);
  }
  tools::Objective objective;
  std::string kernel_set;  // name of the set of kernels
  LoadedTrainer owner;
  std::vector<SumRun> runs;     // stretches of the step block whose numbers join in one way
  std::vector<std::byte> keep;  // memory for accumulate_apart
  Runs inference;

  Trainer& trainer() { return owner.trainer(); }
  const Model& model() const { return owner.loaded().model(); }
  void require(const Status& status) const { owner.loaded().require(status); }
};

ProgramView feeding(const TrainerHandle& self) { return self.model().program(self.objective.program()); }

Array input(nb::handle_t<TrainerHandle> handle, uint32_t i) {
  auto& self = nb::cast<TrainerHandle&>(handle);
  if (i >= self.trainer().input_count()) throw nb::index_error("no such input");
  return array_over(self.trainer().input(i), self.model().tensors()[feeding(self).inputs[i]], handle);
}

Array inference(nb::handle_t<TrainerHandle> handle, bool of_input, uint32_t i) {
  auto& self = nb::cast<TrainerHandle&>(handle);
  const Program& infer = self.trainer().infer();
  if (i >= (of_input ? infer.input_count() : infer.output_count())) throw nb::index_error("no such tensor");
  const uint32_t tensor = of_input ? infer.view().inputs[i] : infer.view().outputs[i];
  return array_over(infer.bytes(tensor), self.model().tensors()[tensor], handle);
}

// Accumulates each micro-batch from zero, as `nacre tune` and the ranks of MPI do.
void accumulate(TrainerHandle& self, uint32_t rows) {
  const nb::gil_scoped_release unlocked;
  Trainer& trainer = self.trainer();
  if (trainer.micro_batches() > 0 && self.keep.empty()) self.keep.resize(trainer.sums().size());
  self.require(self.keep.empty() ? trainer.accumulate(rows) : trainer.accumulate_apart(self.keep, rows));
}

using Block = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OtherBlock = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Array sums(nb::handle_t<TrainerHandle> handle) {
  const std::span<std::byte> block = nb::cast<TrainerHandle&>(handle).trainer().sums();
  const size_t shape[] = {block.size()};
  return Array(block.data(), 1, shape, handle, nullptr, nb::dtype<uint8_t>());
}

void join(const TrainerHandle& self, const Block& into, const OtherBlock& other) {
  self.require(join_sums(self.model(), std::as_writable_bytes(std::span(into.data(), into.size())),
                         std::as_bytes(std::span(other.data(), other.size()))));
}

// Joins the bytes of the step block that begin at `first`.
void join_part(TrainerHandle& self, const Block& into, const OtherBlock& other, uint64_t first) {
  const uint64_t block = self.trainer().sums().size(), bytes = into.size();
  if (other.size() != bytes || bytes > block || first > block - bytes || first % 8 != 0)
    throw nb::value_error("join_part: parts of one length, from a multiple of 8, within the step block");
  for (const SumRun& run : self.runs)
    nacre::join(run, first, bytes, reinterpret_cast<std::byte*>(into.data()),
                reinterpret_cast<const std::byte*>(other.data()));
}

nb::dict dict_of(const Trainer::Report& report) {
  nb::dict made;
  made["applied"] = report.applied;
  made["overflow_at_floor"] = report.overflow_at_floor;
  made["loss"] = report.loss;
  made["norm"] = report.norm;
  made["loss_scale"] = report.loss_scale;
  made["samples"] = report.samples;
  made["refused_in_row"] = report.refused_in_row;
  return made;
}

nb::dict commit(TrainerHandle& self, float rate) {
  Trainer::Report report;
  {
    const nb::gil_scoped_release unlocked;
    self.require(self.trainer().commit(rate, &report));
  }
  return dict_of(report);
}

nb::dict step(TrainerHandle& self, float rate, uint32_t rows) {
  Trainer::Report report;
  {
    const nb::gil_scoped_release unlocked;
    self.require(self.trainer().step(rate, &report, rows));
  }
  return dict_of(report);
}

// Describes the inputs of a micro-batch and of inference, and the tensors of the state in the order of the state
// block.
Json describe(TrainerHandle& self) {
  const LoadedModel& model = self.owner.loaded();
  const ProgramView view = feeding(self), infer = self.trainer().infer().view();
  const tools::ProgramNames names = model.program_names(self.objective.program());
  const tools::ProgramNames infer_names = model.program_names(model.infer_program(self.owner.target()));
  Json inputs = Json::array(), inferred = Json::array(), answers = Json::array(), state = Json::array();
  for (uint32_t i = 0; i < self.trainer().input_count(); ++i)
    inputs.push_back(tensor_json(model, view.inputs[i], names.inputs[i], view.batch));
  for (size_t i = 0; i < infer.inputs.size(); ++i)
    inferred.push_back(tensor_json(model, infer.inputs[i], infer_names.inputs[i], infer.batch));
  for (size_t i = 0; i < infer.outputs.size(); ++i)
    answers.push_back(tensor_json(model, infer.outputs[i], infer_names.outputs[i], infer.batch));
  for (uint32_t id = 0; id < self.model().tensors().size(); ++id) {
    const TensorRecord& r = self.model().tensors()[id];
    if (r.region != Region::kState || r.alias_of != kNoIndex) continue;
    Json entry = tensor_json(model, id, model.tensor_name(id), 0);
    entry.update({{"offset", uint64_t(r.offset)}, {"tensor", id}, {"trainable", (r.flags & kTrainable) != 0}});
    state.push_back(entry);
  }
  return {{"target", self.owner.target()},
          {"kernels", self.kernel_set},
          {"batch", view.batch},
          {"loss", self.objective.loss_name()},
          {"label", self.objective.labels().sample.name},
          {"immediate", self.trainer().immediate()},
          {"inputs", inputs},
          {"infer_batch", infer.batch},
          {"infer_inputs", inferred},
          {"infer_outputs", answers},
          {"state", state}};
}

// Returns a tensor of the state without a copy. After writing to it, call restored().
Array state_tensor(nb::handle_t<TrainerHandle> handle, uint32_t tensor) {
  auto& self = nb::cast<TrainerHandle&>(handle);
  const std::span<std::byte> state = self.owner.state();
  if (tensor >= self.model().tensors().size() || self.model().tensors()[tensor].region != Region::kState)
    throw nb::index_error("no tensor of the state");
  const TensorRecord& r = self.model().tensors()[tensor];
  return array_over(state.subspan(size_t(r.offset), size_t(r.bytes)), r, handle);
}

std::string path_of(const nb::bytes& path) { return {path.c_str(), path.size()}; }

nb::dict load(TrainerHandle& self, const nb::bytes& directory, bool any_training) {
  const tools::LoadedState loaded = tools::load_state(self.owner, path_of(directory), {.any_training = any_training});
  const Checkpoint::Report& report = loaded.report;
  nb::list warnings;
  for (const std::string& warning : loaded.warnings) warnings.append(text_of(warning));
  nb::dict made;
  made["file"] = text_of(loaded.file);
  made["where"] = text_of(loaded.where);
  made["warnings"] = warnings;
  made["taken"] = report.taken;
  made["kept"] = report.kept;
  made["same_model"] = report.same_model;
  return made;
}

nb::bytes tuned(TrainerHandle& self) {
  const std::vector<uint8_t> bytes = [&] {
    const nb::gil_scoped_release unlocked;
    return tools::tuned_model(self.owner, {{"tuned", "from a checkpoint"}});
  }();
  return nb::bytes(bytes.data(), bytes.size());
}

}  // namespace

void add_trainer(nb::module_& m) {
  using Handle = nb::handle_t<TrainerHandle>;
  nb::class_<TrainerHandle>(m, "Trainer", "The programs that train a model, with memory of their own.")
      .def(nb::init<const LoadedModel&, const std::string&, uint32_t, const std::string&>(), nb::arg("model"),
           nb::arg("kernels"), nb::arg("threads"), nb::arg("target"), nb::keep_alive<1, 2>())
      .def("describe", [](TrainerHandle& self) { return text_of(describe(self).dump()); })
      .def("input", &input, nb::arg("i"), nb::sig("def input(self, i: int) -> numpy.typing.NDArray[typing.Any]"))
      .def(
          "infer_input", [](Handle self, uint32_t i) { return inference(self, true, i); }, nb::arg("i"),
          nb::sig("def infer_input(self, i: int) -> numpy.typing.NDArray[typing.Any]"))
      .def(
          "infer_output", [](Handle self, uint32_t i) { return inference(self, false, i); }, nb::arg("i"),
          nb::sig("def infer_output(self, i: int) -> numpy.typing.NDArray[typing.Any]"))
      .def("accumulate", &accumulate, nb::arg("rows"))
      .def("commit", &commit, nb::arg("lr"), nb::sig("def commit(self, lr: float) -> dict[str, typing.Any]"))
      .def("step", &step, nb::arg("lr"), nb::arg("rows"),
           nb::sig("def step(self, lr: float, rows: int) -> dict[str, typing.Any]"))
      .def("sums", &sums, nb::sig("def sums(self) -> numpy.typing.NDArray[numpy.uint8]"))
      .def(
          "begin_at", [](TrainerHandle& self, uint32_t i) { self.require(self.trainer().begin_at(i)); }, nb::arg("i"))
      .def(
          "merged", [](TrainerHandle& self, uint32_t count) { self.require(self.trainer().merged(count)); },
          nb::arg("count"))
      .def("join", &join, nb::arg("into").noconvert(), nb::arg("other").noconvert(),
           nb::sig("def join(self, into: numpy.typing.NDArray[numpy.uint8], other: "
                   "numpy.typing.NDArray[numpy.uint8]) -> None"))
      .def("join_part", &join_part, nb::arg("into").noconvert(), nb::arg("other").noconvert(), nb::arg("first"),
           nb::sig("def join_part(self, into: numpy.typing.NDArray[numpy.uint8], other: "
                   "numpy.typing.NDArray[numpy.uint8], first: int) -> None"))
      .def("discard", [](TrainerHandle& self) { self.trainer().discard(); })
      .def("start", [](TrainerHandle& self) { self.require(self.trainer().start()); })
      .def(
          "run_all",
          [](TrainerHandle& self, const nb::list& inputs, const nb::list& outputs, uint64_t runs, uint32_t last_rows) {
            self.inference.run_all(self.owner.loaded(), self.trainer().infer(), inputs, outputs, runs, last_rows);
          },
          nb::arg("inputs"), nb::arg("outputs"), nb::arg("runs"), nb::arg("last_rows"), nb::sig(kRunAllSignature))
      .def("state_tensor", &state_tensor, nb::arg("tensor"),
           nb::sig("def state_tensor(self, tensor: int) -> numpy.typing.NDArray[typing.Any]"))
      .def("restored", [](TrainerHandle& self) { self.require(self.trainer().restored()); })
      .def(
          "save",
          [](TrainerHandle& self, const nb::bytes& directory) { tools::save_state(self.owner, path_of(directory)); },
          nb::arg("directory"))
      .def("load", &load, nb::arg("directory"), nb::arg("any_training"),
           nb::sig("def load(self, directory: bytes, any_training: bool) -> dict[str, typing.Any]"))
      .def("tuned_model", &tuned);
}

}  // namespace nacre::python
