#include "python/native/runs.h"

#include <cstring>

#include "tools/model/profile.h"

namespace nb = nanobind;

namespace nacre::python {
namespace {

// Longest run of the compiled batch that is not cut. A run of this length delays a signal less than Signals does.
constexpr auto kLongestWhole = std::chrono::milliseconds(20);

bool on_gpu(const Program& program) {
  const std::vector<bool> steps = tools::steps_on_gpu(program);
  return std::ranges::find(steps, true) != steps.end();
}

void read_outputs(const Program& program, const OutputBytes& outputs, uint64_t run) {
  for (uint32_t i = 0; i < program.output_count(); ++i) {
    const std::span<const std::byte> output = program.output(i);
    const std::span<uint8_t> to = outputs.part(i, run, output.size());
    std::memcpy(to.data(), output.data(), to.size());
  }
}

// Throws unless an array of `given` bytes has a part of `bytes` for each run. The last run may have fewer rows.
void require_parts(uint64_t given, uint64_t bytes, uint64_t runs, uint32_t last_rows) {
  if (last_rows == 0 ? given != runs * bytes : given > runs * bytes || given <= (runs - 1) * bytes)
    throw nb::value_error("run_all: an array has another size than these runs take");
}

}  // namespace

void write_inputs(const Program& program, const InputBytes& inputs, uint64_t run) {
  for (uint32_t i = 0; i < program.input_count(); ++i) {
    const std::span<std::byte> input = program.input(i);
    const std::span<const uint8_t> from = inputs.part(i, run, input.size());
    std::memmove(input.data(), from.data(), from.size());  // the array may be the program's own memory
  }
}

void Runs::run(const tools::LoadedModel& model, const Program& program, uint32_t rows, Signals& signals) {
  const ProgramView& view = program.view();
  if (whole_ || view.step_count == 0) return model.require(rows == 0 ? program.run() : program.run_rows(rows));
  const Signals::Clock::time_point start = Signals::Clock::now();
  for (uint32_t step = 0; step < view.step_count; ++step) {
    model.require(program.run(step, step + 1, rows));
    signals.check();
  }
  // time of the compiled batch = time of these rows * batch / rows
  whole_ = (Signals::Clock::now() - start) * view.batch < kLongestWhole * (rows == 0 ? view.batch : rows);
}

void Runs::run(const tools::LoadedModel& model, const Program& program, uint32_t rows) {
  const nb::gil_scoped_release unlocked;
  if (whole_) return model.require(rows == 0 ? program.run() : program.run_rows(rows));  // without reading a clock
  Signals signals;
  if (on_gpu(program)) whole_ = true;
  run(model, program, rows, signals);
}

void Runs::run_all(const tools::LoadedModel& model, const Program& program, const nb::list& inputs,
                   const nb::list& outputs, uint64_t runs, uint32_t last_rows) {
  const InputBytes from(inputs);
  const OutputBytes to(outputs);
  if (from.count() != program.input_count() || to.count() != program.output_count())
    throw nb::value_error("run_all: one array for each input and output");
  for (uint32_t i = 0; i < program.input_count(); ++i)
    require_parts(from.size(i), program.input(i).size(), runs, last_rows);
  for (uint32_t i = 0; i < program.output_count(); ++i)
    require_parts(to.size(i), program.output(i).size(), runs, last_rows);
  const nb::gil_scoped_release unlocked;
  Signals signals;
  if (!whole_) whole_ = on_gpu(program);
  for (uint64_t i = 0; i < runs; ++i) {
    write_inputs(program, from, i);
    run(model, program, i + 1 == runs ? last_rows : 0, signals);
    read_outputs(program, to, i);
    signals.check();
  }
}

}  // namespace nacre::python
