// Adds Model to nacre._native: a model in memory and what its file says.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "python/native/bindings.h"
#include "python/native/errors.h"
#include "python/native/tensors.h"
#include "tools/files/atomic_file.h"
#include "tools/policies/policy_name.h"

namespace nb = nanobind;

namespace nacre::python {
namespace {

using tools::Json, tools::LoadedModel;

constexpr const char* kEntries[] = {"infer", "gradients", "update", "derive"};
static_assert(std::size(kEntries) == size_t(Entry::kCount));

Json program_json(const LoadedModel& model, uint32_t index) {
  const ProgramView view = model.model().program(index);
  const tools::ProgramNames names = model.program_names(index);
  Json inputs = Json::array(), outputs = Json::array();
  for (size_t i = 0; i < view.inputs.size(); ++i)
    inputs.push_back(tensor_json(model, view.inputs[i], names.inputs[i], view.batch));
  for (size_t i = 0; i < view.outputs.size(); ++i)
    outputs.push_back(tensor_json(model, view.outputs[i], names.outputs[i], view.batch));
  return {{"entry", kEntries[size_t(view.entry)]},
          {"target", names.target},
          {"batch", view.batch},
          {"steps", view.step_count},
          {"inputs", inputs},
          {"outputs", outputs}};
}

Json describe(const LoadedModel& model) {
  Json programs = Json::array(), layers = Json::array(), metadata = Json::object();
  for (uint32_t i = 0; i < model.model().program_count(); ++i) programs.push_back(program_json(model, i));
  for (uint32_t i = 0; i < model.layer_count(); ++i) {
    const tools::LayerName layer = model.layer(i);
    layers.push_back({{"name", layer.name}, {"op", layer.source_op}, {"policy", tools::policy_name(layer.policy)}});
  }
  for (const auto& [key, value] : model.metadata()) metadata[key] = value;
  return {{"programs", programs}, {"layers", layers}, {"metadata", metadata}, {"weight_bytes", model.weight_bytes()}};
}

}  // namespace

void add_model(nb::module_& m) {
  nb::class_<LoadedModel>(m, "Model", "A model file in memory, checked.")
      .def(
          "__init__",
          [](LoadedModel* self, const nb::bytes& bytes, const std::string& name) {
            const std::span<const uint8_t> view(static_cast<const uint8_t*>(bytes.data()), bytes.size());
            const nb::gil_scoped_release unlocked;
            new (self) LoadedModel(view, name, "");
          },
          nb::arg("data"), nb::arg("name"))
      .def("to_bytes",
           [](const LoadedModel& model) {
             const std::span<const std::byte> bytes = model.model().bytes();
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def("size", [](const LoadedModel& model) { return model.model().bytes().size(); })
      .def(
          "same",
          [](const LoadedModel& a, const LoadedModel& b) {
            return std::ranges::equal(a.model().bytes(), b.model().bytes());
          },
          nb::arg("other"), "Whether the files are equal to the byte.")
      .def(
          "save",
          [](const LoadedModel& model, const nb::bytes& path) {
            const std::span<const std::byte> bytes = model.model().bytes();
            tools::write_file_whole(std::string(path.c_str(), path.size()),
                                    std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
          },
          nb::arg("path"), "Writes the file whole or not at all.")
      .def("infer_program", &LoadedModel::infer_program, nb::arg("target"),
           "Index of the program that infers for a target; of \"\" the one for this machine.")
      .def(
          "describe", [](const LoadedModel& model) { return text_of(describe(model).dump()); },
          "Programs with inputs and outputs, layers with policies, and metadata, as JSON.");
  m.attr("MAGIC") = nb::bytes(kMagic, sizeof kMagic);
}

}  // namespace nacre::python
