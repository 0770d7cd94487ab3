#include "tools/commands/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "engine/numeric/small_float.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/print.h"
#include "tools/base/progress.h"
#include "tools/base/table.h"
#include "tools/commands/bench/profile_table.h"
#include "tools/commands/run/top_scores.h"
#include "tools/files/convert_elements.h"
#include "tools/files/npy.h"
#include "tools/files/output_files.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/tensor_dump.h"

namespace nacre::tools {
namespace {

// One output of the model, for all samples.
struct Output {
  std::string name;
  ElementType type;
  std::vector<int64_t> dims;
  std::vector<uint8_t> data;
  std::optional<Scales> scales;
  std::string file;  // its file, "" if none was written
};

using Clock = std::chrono::steady_clock;

constexpr uint32_t kLeastProfiled = 20;  // enough runs for a meaningful median

struct RunTimes {  // statistics of the times of single runs, in microseconds
  double median_us, p99_us;
};

std::vector<Output> make_outputs(const BoundProgram& bound, const ProgramView& view, uint32_t program,
                                 const RunInputs& inputs) {
  const LoadedModel& model = bound.loaded();
  const std::vector<std::string> names = model.program_names(program).outputs;
  std::vector<Output> outputs;
  for (size_t i = 0; i < view.outputs.size(); ++i) {
    const TensorRecord& r = model.model().tensors()[view.outputs[i]];
    Output output = {.name = names[i],
                     .type = r.element,
                     .dims = {r.dims, r.dims + r.rank},
                     .data = {},
                     .scales = model.scales(view.outputs[i]),
                     .file = ""};
    if (has_rows(r, view.batch)) {
      output.dims[0] = int64_t(inputs.rows());
    } else if (inputs.runs > 1) {
      output.dims.insert(output.dims.begin(), int64_t(inputs.runs));
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

void write_inputs(const Program& program, const RunInputs& inputs, uint64_t run) {
  for (uint32_t i = 0; i < program.input_count(); ++i) {
    const std::span<std::byte> input = program.input(i);
    const std::span<const uint8_t> sample = inputs.sample(i, run, input.size());
    std::memcpy(input.data(), sample.data(), sample.size());
  }
}

// Begins a stream (what the model keeps from run to run is zero again) and writes the inputs of the first run.
void begin(const BoundProgram& bound, const RunInputs& inputs) {
  bound.loaded().require(bound.program().start());
  write_inputs(bound.program(), inputs, 0);
}

void keep_outputs(const Program& program, const ProgramView& view, uint32_t rows, std::vector<Output>& outputs) {
  for (uint32_t i = 0; i < program.output_count(); ++i) {
    const std::span<const std::byte> output = program.output(i);
    const size_t bytes = rows == 0 ? output.size() : output.size() / view.batch * rows;
    const auto* data = reinterpret_cast<const uint8_t*>(output.data());
    outputs[i].data.insert(outputs[i].data.end(), data, data + bytes);
  }
}

// Runs all samples one after the other, `repeat` times, and keeps the outputs of the first time. Returns how many
// microseconds each run took. A stream begins with the first run and again after each `of_stream` runs.
std::vector<double> run_all(const BoundProgram& bound, const RunInputs& inputs, const RunOptions& options,
                            std::vector<Output>& outputs) {
  const Program& program = bound.program();
  Progress progress("run", inputs.runs * options.repeat);
  std::vector<double> times;
  for (uint64_t i = 0; i < inputs.runs * options.repeat; ++i) {
    const uint64_t run = i % inputs.runs;
    const uint32_t rows = run + 1 == inputs.runs ? inputs.last_rows : 0;
    if (run == 0 || (options.of_stream != 0 && run % options.of_stream == 0)) bound.loaded().require(program.start());
    write_inputs(program, inputs, run);  // again for each run, because a run may reuse an input's memory
    const Clock::time_point start = Clock::now();
    const Status status = rows == 0 ? program.run() : program.run_rows(rows);
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    bound.loaded().require(status);
    progress.show(i + 1);
    if (i == run) keep_outputs(program, program.view(), rows, outputs);
  }
  return times;
}

// Returns whether the program's target is this machine or a GPU. Otherwise times measured here would mean nothing.
bool is_for_host(const LoadedModel& model, uint32_t program) {
  const std::string target = model.program_names(program).target;
  return target == "host" || is_gpu_target(target) || (port_for_target(target) != nullptr && !is_emulated(target));
}

void refuse_timing(const LoadedModel& model, uint32_t program) {
  throw Error(kUsage, model.path(),
              fmt::format("its program is for {}, and --repeat times runs on this machine",
                          model.program_names(program).target),
              "leave --repeat out, or convert the network with --target host");
}

// Returns median and p99, the smallest time that at least 99 of 100 runs do not exceed.
RunTimes summarise(std::vector<double> times) {
  std::ranges::sort(times);
  const size_t n = times.size();
  const auto p99 = size_t(std::ceil(0.99 * double(n))) - 1;
  return {.median_us = (times[(n - 1) / 2] + times[n / 2]) / 2, .p99_us = times[p99]};
}

void dequantize(std::vector<Output>& outputs) {
  for (Output& output : outputs) {
    if (!is_code_of_reals(output.type) || !output.scales) continue;
    output.data = dequantize_elements(output.data, output.type, output.scales->scale[0], output.scales->zero[0]);
    output.type = ElementType::kFloat32;
    output.scales.reset();
  }
}

// Returns element i for reports, a float with the digits that distinguish it; null if not finite or of another type.
Json number_at(const Output& output, size_t i) {
  const auto at = [&]<class T>(T value) -> Json {
    std::memcpy(&value, output.data.data() + i * sizeof value, sizeof value);
    if constexpr (std::is_same_v<T, float>)
      return std::isfinite(value) ? Json(std::stod(fmt::format("{}", value))) : Json();
    else if constexpr (requires { value.bits; })
      return std::isfinite(float(value)) ? Json(std::stod(fmt::format("{}", float(value)))) : Json();
    else return value;
  };
  switch (output.type) {
    case ElementType::kFloat16: return at(Float16());
    case ElementType::kBfloat16: return at(Bfloat16());
    case ElementType::kFloat32: return at(float());
    case ElementType::kFloat64: return at(double());
    case ElementType::kInt8: return at(int8_t());
    case ElementType::kUint8:
    case ElementType::kBool: return at(uint8_t());
    case ElementType::kInt16: return at(int16_t());
    case ElementType::kInt32: return at(int32_t());
    case ElementType::kUint32: return at(uint32_t());
    case ElementType::kInt64: return at(int64_t());
    default: return nullptr;
  }
}

std::vector<NamedOutput> named(const std::vector<Output>& outputs) {
  std::vector<NamedOutput> list;
  for (const Output& o : outputs) list.push_back({o.name, {o.type, o.dims, o.data, o.scales}});
  return list;
}

size_t element_count(const Output& output) {
  size_t count = 1;
  for (const int64_t d : output.dims) count *= size_t(d);
  return count;
}

void print_text(const RunOptions& options, const std::vector<Output>& outputs, const RunInputs& inputs,
                const std::vector<double>& times, const BoundProgram& bound, const std::optional<TopScores>& top) {
  constexpr size_t kShown = 16;
  for (const Output& output : outputs) {
    print(fmt::format("{}  {} {}", output.name, name_of(output.type), dims_text(output.dims)));
    if (output.scales) print("  " + quantizer_text(output.scales->scale[0], output.scales->zero[0]));
    print(output.file.empty() ? "\n" : fmt::format("  -> {}\n", escaped(output.file)));
    if (!output.file.empty() || element_count(output) > kShown) continue;
    for (size_t i = 0; i < element_count(output); ++i)
      print(fmt::format("{}{}", i == 0 ? "    " : " ", number_at(output, i).dump()));
    print("\n");
  }
  if (top) print(top_text(bound.loaded(), *top));
  if (!options.all_tensors.empty()) print(fmt::format("all tensors -> {}\n", escaped(options.all_tensors)));
  if (times.empty()) return;
  const RunTimes t = summarise(times);
  print(fmt::format("{}, {}: median {:.1f} us, p99 {:.1f} us per run{}; kernels {}\n", counted(inputs.rows(), "sample"),
                    counted(times.size(), "run"), t.median_us, t.p99_us,
                    inputs.batch > 1 ? fmt::format(" of {} rows", inputs.batch) : "", ran_by(bound).text()));
}

void print_as_json(const RunOptions& options, const BoundProgram& bound, const std::vector<Output>& outputs,
                   const RunInputs& inputs, const std::vector<double>& times, const std::optional<Profile>& steps,
                   const std::optional<TopScores>& top) {
  constexpr size_t kShown = 1024;
  Json list = Json::array();
  for (const Output& output : outputs) {
    Json entry = {{"name", output.name}, {"type", name_of(output.type)}, {"shape", output.dims}};
    if (output.scales) entry.update({{"scale", output.scales->scale[0]}, {"zero_point", output.scales->zero[0]}});
    if (!output.file.empty()) entry["file"] = output.file;
    if (output.file.empty() && element_count(output) <= kShown) {
      Json values = Json::array();
      for (size_t i = 0; i < element_count(output); ++i) values.push_back(number_at(output, i));
      entry["values"] = values;
    }
    list.push_back(std::move(entry));
  }
  Json report = {
      {"model", options.model}, {"samples", inputs.rows()}, {"runs", inputs.runs * options.repeat}, {"outputs", list}};
  if (!times.empty()) report.update({{"median_us", summarise(times).median_us}, {"p99_us", summarise(times).p99_us}});
  if (!options.all_tensors.empty()) report["all_tensors"] = options.all_tensors;
  if (top) report["top"] = top_json(bound.loaded(), *top);
  ran_by(bound).add_to(report);
  if (steps) report["profile"] = profile_json(bound.loaded(), bound.loaded().infer_program(options.target), *steps);
  print_json(report);
}

void add_files(const RunOptions& options, std::vector<Output>& outputs, OutputFiles& files) {
  for (Output& output : outputs) {
    const std::string name = files.add(file_name_of(output.name) + ".npy",
                                       npy_bytes(in_numpy_type({output.type, output.dims, output.data})));
    output.file = fmt::format("{}{}{}", options.output, options.output.ends_with('/') ? "" : "/", name);
  }
}

void require_no_input(const CommandFiles& given, const std::string& option, const std::optional<OutputFiles>& files) {
  if (!files) return;
  for (const std::string& path : files->paths()) given.require_no_input(option, path);
}

// Refuses --stream for a model without stream state: the option would do nothing.
void require_stream(const RunOptions& options, const LoadedModel& model) {
  if (options.of_stream != 0 && model.model().region_bytes(Region::kStream) == 0)
    throw Error(kUsage, "--stream", "the model keeps nothing from run to run", "leave it out, or convert --state");
}

void require_codes(const RunOptions& options, const std::vector<Output>& outputs) {
  const auto coded = [](const Output& output) { return is_code_of_reals(output.type) && output.scales; };
  if (options.dequantize_outputs && std::ranges::none_of(outputs, coded))
    throw Error(kUsage, "--dequantize-outputs", "no output of the model is int8 or int16 codes", "leave it out");
}

// Warns if weights are damaged or not finite. The run goes on all the same.
void warn_of_weights(const LoadedModel& model) {
  if (const Status status = model.model().check_weights(); !status.ok())
    warn(fmt::format("{}: {}: {}; nacre check says more", model.path(), model.place(status), sentence(status.code)));
}

void warn_of_nan(const LoadedModel& model, uint32_t program, const RunInputs& inputs) {
  const ProgramView view = model.model().program(program);
  for (uint32_t i = 0; i < view.inputs.size(); ++i) {
    const ElementType type = model.model().tensors()[view.inputs[i]].element;
    std::optional<size_t> bad;
    each_part(inputs.data[i], std::max<size_t>(1, element_bits(type) / 8), [&](auto part, size_t first) {
      if (const std::optional<size_t> at = bad ? std::nullopt : first_not_finite(part, type)) bad = first + *at;
    });
    if (bad) warn(fmt::format("input {}: element {} is NaN or infinite", model.program_names(program).inputs[i], *bad));
  }
}

}  // namespace

void run(const RunOptions& options, const CommandFiles& given) {
  const LoadedModel model(options.model);
  const uint32_t program = model.infer_program(options.target);
  const bool timed = is_for_host(model, program);
  if (!timed && options.repeat > 1) refuse_timing(model, program);
  require_stream(options, model);
  warn_of_weights(model);
  BoundProgram bound = bind_to_run(model, program, options.running);
  const RunInputs inputs = read_inputs(model, program, options.inputs);
  warn_of_nan(model, program, inputs);
  if (!options.all_tensors.empty() && (inputs.runs > 1 || inputs.last_rows > 0))
    throw Error(kUsage, "--all-tensors",
                fmt::format("keeps the tensors of one run, but {} samples are given", inputs.rows()),
                "give one sample");
  // constructed before the runs, because the constructor refuses a path that cannot be a directory
  std::optional<OutputFiles> tensor_files, output_files;
  if (!options.all_tensors.empty()) tensor_files.emplace(options.all_tensors);
  if (!options.output.empty()) output_files.emplace(options.output);

  std::vector<Output> outputs = make_outputs(bound, bound.program().view(), program, inputs);
  require_codes(options, outputs);
  std::vector<double> times = run_all(bound, inputs, options, outputs);
  if (!timed) times.clear();
  std::optional<Profile> steps;
  if (options.profile) steps = profile(bound, std::max(options.repeat, kLeastProfiled), [&] { begin(bound, inputs); });
  const std::optional<TopScores> top = top_scores(model, named(outputs), inputs.rows(), options.top);
  if (options.dequantize_outputs) dequantize(outputs);
  if (tensor_files) {
    begin(bound, inputs);
    dump_tensors(bound, *tensor_files);
  }
  if (output_files) add_files(options, outputs, *output_files);
  require_no_input(given, "--all-tensors", tensor_files);
  require_no_input(given, "--output", output_files);
  std::vector<OutputFiles*> written;
  for (auto* files : {&tensor_files, &output_files})
    if (*files) written.push_back(&**files);
  write_together(written);
  if (options.json) return print_as_json(options, bound, outputs, inputs, times, steps, top);
  print_text(options, outputs, inputs, times, bound, top);
  if (steps) print("\n" + profile_text(model, program, *steps, terminal_width()));
}

}  // namespace nacre::tools
