#include "tools/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "tools/error.h"
#include "tools/format.h"
#include "tools/graph/graph.h"
#include "tools/graph/names.h"
#include "tools/progress.h"
#include "tools/run_inputs.h"

namespace nacre::tools {
namespace {

// For each name of `a` its index in `b`: by name where all are there, else by position.
std::vector<size_t> pair_names(const std::vector<std::string>& a, const std::vector<std::string>& b,
                               const char* what, const std::string& place) {
  if (a.size() != b.size())
    throw Error(kBadInput, place,
                fmt::format("has {} {}s, the reference has {}", b.size(), what, a.size()),
                "compare two models of one network");
  std::vector<size_t> partner;
  for (const std::string& name : a)
    partner.push_back(size_t(std::ranges::find(b, name) - b.begin()));
  if (std::ranges::find(partner, b.size()) != partner.end())
    for (size_t i = 0; i < partner.size(); ++i) partner[i] = i;
  return partner;
}

std::string binding_text(const ProgramReport& report, uint32_t tensor) {
  return fmt::format("{} {} in {}", name_of(report.tensor(tensor).element),
                     report.shape_text(tensor), report.loaded().path());
}

bool same_dims(const TensorRecord& a, const TensorRecord& b) {
  return a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims);
}

// One program that runs step by step and gives out its tensors as real numbers.
class Runner {
 public:
  Runner(const ProgramReport& report, RunInputs inputs)
      : report_(report), bound_(report.loaded(), report.program()), inputs_(std::move(inputs)) {}

  uint64_t runs() const { return inputs_.runs; }
  uint64_t samples() const { return inputs_.rows(); }

  // wanted[step]: tensors to keep when that step is done. The result by tensor.
  std::map<uint32_t, std::vector<float>> run(
      uint64_t run, const std::map<uint32_t, std::vector<uint32_t>>& wanted) {
    const Program& program = bound_.program();
    for (uint32_t i = 0; i < program.input_count(); ++i) {
      const std::span<std::byte> input = program.input(i);
      const std::span<const uint8_t> sample = inputs_.sample(i, run, input.size());
      std::memcpy(input.data(), sample.data(), sample.size());
    }
    rows_ = run + 1 == inputs_.runs ? inputs_.last_rows : 0;
    std::map<uint32_t, std::vector<float>> kept;
    for (uint32_t step = 0; step < report_.view().step_count; ++step) {
      report_.loaded().require(program.run(step, step + 1, rows_));
      if (const auto found = wanted.find(step); found != wanted.end())
        for (const uint32_t tensor : found->second) kept[tensor] = values(tensor);
    }
    for (const uint32_t output : report_.view().outputs) kept[output] = values(output);
    return kept;
  }

 private:
  std::vector<float> values(uint32_t id) const {
    const TensorRecord& r = report_.tensor(id);
    uint64_t bytes = r.bytes;
    Value value;
    value.name = report_.loaded().tensor_name(id);
    value.dims.assign(r.dims, r.dims + r.rank);
    if (rows_ > 0 && (r.flags & kBatched) != 0) {
      bytes = r.bytes / report_.view().batch * rows_;
      value.dims[0] = rows_;
    }
    value.stored = r.element;
    if (const std::optional<Scales> scales = report_.loaded().scales(id);
        scales && r.element != ElementType::kFloat32)
      value.quantizer = Quantizer{
          r.element, scales->scale, {scales->zero.begin(), scales->zero.end()}, scales->axis};
    const auto* data = reinterpret_cast<const uint8_t*>(bound_.program().bytes(id).data());
    value.data = std::make_shared<const std::vector<uint8_t>>(data, data + bytes);
    return reals(value);
  }

  const ProgramReport& report_;
  BoundProgram bound_;
  RunInputs inputs_;
  uint32_t rows_ = 0;
};

// The arrays in the order of A's inputs.
std::vector<NpyArray> arrays_of(const ProgramReport& a, const NpzArrays& data,
                                std::vector<std::string>& notes) {
  const std::vector<std::string>& names = a.names().inputs;
  if (names.size() == 1 && data.size() == 1) return {data[0].second};
  std::vector<NpyArray> arrays;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(data, name, &std::pair<std::string, NpyArray>::first);
    if (found == data.end())
      throw Error(kBadInput, data.empty() ? "--data" : data[0].second.place,
                  fmt::format("holds no array for the input {}", name),
                  "give a .npz with one array per input, named as the input");
    arrays.push_back(found->second);
  }
  for (const auto& [name, array] : data)
    if (std::ranges::find(names, name) == names.end())
      notes.push_back(fmt::format("{} is no input: not used", name));
  return arrays;
}

// Inputs of B, each with the array of its partner in A. Refuses types that could only be compared
// by a silent conversion.
std::vector<NpyArray> arrays_of_b(const ProgramReport& a, const ProgramReport& b,
                                  const std::vector<NpyArray>& arrays,
                                  std::vector<std::string>& notes) {
  const std::vector<size_t> partner =
      pair_names(a.names().inputs, b.names().inputs, "input", b.loaded().path());
  std::vector<NpyArray> result(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    const uint32_t in_a = a.view().inputs[i], in_b = b.view().inputs[partner[i]];
    const TensorRecord &x = a.tensor(in_a), &y = b.tensor(in_b);
    const std::string place = fmt::format("input {}", a.names().inputs[i]);
    if (!same_dims(x, y))
      throw Error(kBadInput, place,
                  fmt::format("is {}, but {}", binding_text(a, in_a), binding_text(b, in_b)),
                  "convert both with the same --batch and --io-layout");
    const std::optional<Scales> scales = b.loaded().scales(in_b);
    const bool quantized =
        x.element == ElementType::kFloat32 && y.element == ElementType::kInt8 && scales;
    if (x.element != y.element && !quantized)
      throw Error(kUnsupported, place,
                  fmt::format("is {}, but {}", binding_text(a, in_a), binding_text(b, in_b)),
                  "inputs must be alike, or float32 in A and int8 with a scale in B");
    if (quantized)
      notes.push_back(fmt::format("input {}: quantized for B, code = round(x / {}) {:+}",
                                  a.names().inputs[i], scales->scale[0], scales->zero[0]));
    result[partner[i]] = arrays[i];
  }
  return result;
}

std::vector<ComparedOutput> pair_outputs(const ProgramReport& a, const ProgramReport& b) {
  const std::vector<size_t> partner =
      pair_names(a.names().outputs, b.names().outputs, "output", b.loaded().path());
  std::vector<ComparedOutput> outputs;
  for (size_t i = 0; i < partner.size(); ++i) {
    const uint32_t in_a = a.view().outputs[i], in_b = b.view().outputs[partner[i]];
    if (!same_dims(a.tensor(in_a), b.tensor(in_b)))
      throw Error(kBadInput, fmt::format("output {}", a.names().outputs[i]),
                  fmt::format("is {}, but {}", binding_text(a, in_a), binding_text(b, in_b)),
                  "convert both with the same --batch and --io-layout");
    outputs.push_back({.a = uint32_t(i), .b = uint32_t(partner[i]), .error = {}});
  }
  return outputs;
}

void count_best(const TensorRecord& record, std::span<const float> a, std::span<const float> b,
                ComparedOutput& output) {
  const size_t width = record.rank == 0 ? 1 : size_t(record.dims[record.rank - 1]);
  if (width < 2) return;
  for (size_t at = 0; at + width <= a.size(); at += width, ++output.rows) {
    const auto best = [&](std::span<const float> v) {
      return std::ranges::max_element(v.subspan(at, width)) - v.subspan(at, width).begin();
    };
    output.same_best += best(a) == best(b) ? 1 : 0;
  }
}

}  // namespace

Comparison compare_programs(const ProgramReport& a, const ProgramReport& b, const NpzArrays& data) {
  Comparison result;
  const std::vector<NpyArray> arrays = arrays_of(a, data, result.notes);
  const std::vector<NpyArray> arrays_b = arrays_of_b(a, b, arrays, result.notes);
  result.outputs = pair_outputs(a, b);
  TensorMatch match = match_tensors(a, b);
  for (Unmatched& u : match.unmatched) {  // outputs have partners of their own
    const std::span<const uint32_t> outputs = (u.in_a ? a : b).view().outputs;
    if (std::ranges::find(outputs, u.tensor) == outputs.end())
      result.unmatched.push_back(std::move(u));
  }
  std::map<uint32_t, std::vector<uint32_t>> wanted_a, wanted_b;
  for (const TensorPair& pair : match.pairs) {
    result.tensors.push_back({pair.a, pair.b, pair.step_a, {}});
    wanted_a[pair.step_a].push_back(pair.a);
    wanted_b[pair.step_b].push_back(pair.b);
  }
  Runner runner_a(a, stack_inputs(a.loaded(), a.program(), arrays, false));
  Runner runner_b(b, stack_inputs(b.loaded(), b.program(), arrays_b, true));
  result.samples = runner_a.samples();
  Progress progress("compare", runner_a.runs());
  for (uint64_t run = 0; run < runner_a.runs(); ++run) {
    const std::map<uint32_t, std::vector<float>> of_a = runner_a.run(run, wanted_a),
                                                 of_b = runner_b.run(run, wanted_b);
    for (ComparedTensor& t : result.tensors) t.error.add(of_a.at(t.a), of_b.at(t.b));
    for (ComparedOutput& o : result.outputs) {
      const uint32_t in_a = a.view().outputs[o.a];
      const std::vector<float>&x = of_a.at(in_a), &y = of_b.at(b.view().outputs[o.b]);
      o.error.add(x, y);
      count_best(a.tensor(in_a), x, y, o);
    }
    progress.show(run + 1);
  }
  return result;
}

}  // namespace nacre::tools
