// Adds Program to nacre._native: a program of a model, bound to kernels and to memory of its own.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "python/native/bindings.h"
#include "python/native/errors.h"
#include "python/native/program_handle.h"
#include "python/native/tensors.h"
#include "tools/base/names.h"
#include "tools/files/convert_elements.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/running.h"

namespace nb = nanobind;

namespace nacre::python {
namespace {

using tools::LoadedModel;

Array array_of(nb::handle_t<ProgramHandle> self, bool input, uint32_t i) {
  const auto& handle = nb::cast<const ProgramHandle&>(self);
  const Program& program = handle.program();
  if (i >= (input ? program.input_count() : program.output_count()))
    throw nb::index_error(input ? "no such input" : "no such output");
  const uint32_t tensor = input ? program.view().inputs[i] : program.view().outputs[i];
  return array_over(program.bytes(tensor), handle.loaded().model().tensors()[tensor], self);
}

}  // namespace

void add_program(nb::module_& m) {
  nb::class_<ProgramHandle> program(m, "Program", "A program with memory of its own.");
  program
      .def(
          "__init__",
          [](ProgramHandle* self, const LoadedModel& model, uint32_t index, const std::string& kernels,
             uint32_t threads) {
            const nb::gil_scoped_release unlocked;
            new (self) ProgramHandle{tools::bind_to_run(model, index, {.kernels = kernels, .threads = threads}), {}};
          },
          nb::arg("model"), nb::arg("index"), nb::arg("kernels"), nb::arg("threads"), nb::keep_alive<1, 2>())
      .def(
          "input", [](nb::handle_t<ProgramHandle> self, uint32_t i) { return array_of(self, true, i); }, nb::arg("i"),
          nb::sig("def input(self, i: int) -> numpy.typing.NDArray[typing.Any]"))
      .def(
          "output", [](nb::handle_t<ProgramHandle> self, uint32_t i) { return array_of(self, false, i); }, nb::arg("i"),
          nb::sig("def output(self, i: int) -> numpy.typing.NDArray[typing.Any]"))
      .def(
          "run", [](ProgramHandle& self, uint32_t rows) { self.runs.run(self.loaded(), self.program(), rows); },
          nb::arg("rows"), "Runs on what stands in the inputs; of rows 0: the compiled batch.")
      .def(
          "run_all",
          [](ProgramHandle& self, const nb::list& inputs, const nb::list& outputs, uint64_t runs, uint32_t last_rows) {
            self.runs.run_all(self.loaded(), self.program(), inputs, outputs, runs, last_rows);
          },
          nb::arg("inputs"), nb::arg("outputs"), nb::arg("runs"), nb::arg("last_rows"), nb::sig(kRunAllSignature))
      .def("start", [](const ProgramHandle& self) { self.loaded().require(self.program().start()); })
      .def("kernels", [](const ProgramHandle& self) { return text_of(tools::ran_by(self.bound).kernels); });
  add_details(program);
  m.def(
      "from_float32",
      [](const nb::bytes& x, const std::string& dtype, float scale, int32_t zero, const std::string& name) {
        const std::span<const uint8_t> numbers(static_cast<const uint8_t*>(x.data()), x.size());
        const auto type = tools::find_name<ElementType>(dtype).value_or(ElementType::kNone);
        const std::vector<uint8_t> made = tools::is_code_of_reals(type)
                                              ? tools::quantize_elements(numbers, type, scale, zero, name)
                                              : tools::round_elements(numbers, type, name);
        return nb::bytes(made.data(), made.size());
      },
      nb::arg("x"), nb::arg("dtype"), nb::arg("scale"), nb::arg("zero"), nb::arg("name"),
      "float32 as codes of int8 or int16, or rounded to another float type, as nacre run --quantize-inputs.");
  m.def(
      "to_float32",
      [](const nb::bytes& codes, const std::string& dtype, float scale, int32_t zero) {
        const std::span<const uint8_t> data(static_cast<const uint8_t*>(codes.data()), codes.size());
        const auto type = tools::find_name<ElementType>(dtype).value_or(ElementType::kNone);
        const std::vector<uint8_t> made = tools::dequantize_elements(data, type, scale, zero);
        return nb::bytes(made.data(), made.size());
      },
      nb::arg("codes"), nb::arg("dtype"), nb::arg("scale"), nb::arg("zero"),
      "Codes of int8 or int16 as float32, as nacre run --dequantize-outputs.");
  m.def("codes_of", &codes_of, nb::arg("array"),
        nb::sig("def codes_of(array: object) -> numpy.typing.NDArray[typing.Any]"),
        "The same memory as unsigned integers: of types that DLPack has and NumPy lacks.");
  m.def(
      "kernel_choices",
      [] {
        nb::list names;
        for (const std::string& name : tools::kernel_choices()) names.append(text_of(name));
        return names;
      },
      nb::sig("def kernel_choices() -> list[str]"));
}

}  // namespace nacre::python
