#include "tools/evaluate/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/option_id.h"
#include "tools/base/progress.h"
#include "tools/evaluate/decode.h"
#include "tools/evaluate/sample_data.h"
#include "tools/files/convert_elements.h"
#include "tools/model/run_inputs.h"

namespace nacre::tools {
namespace {

// Returns for each name of `a` its index in `b`: by name if all names are there, else by position.
std::vector<size_t> pair_names(const std::vector<std::string>& a, const std::vector<std::string>& b, const char* what,
                               const std::string& place) {
  if (a.size() != b.size())
    throw Error(kBadInput, place, fmt::format("has {} {}s, the reference has {}", b.size(), what, a.size()),
                "compare two models of one network");
  std::vector<size_t> partner;
  for (const std::string& name : a) partner.push_back(size_t(std::ranges::find(b, name) - b.begin()));
  if (std::ranges::find(partner, b.size()) != partner.end())
    for (size_t i = 0; i < partner.size(); ++i) partner[i] = i;
  return partner;
}

std::string binding_text(const ProgramReport& report, uint32_t tensor) {
  return fmt::format("{} {} in {}", name_of(report.tensor(tensor).element), report.shape_text(tensor),
                     report.loaded().path());
}

bool same_dims(const TensorRecord& a, const TensorRecord& b) {
  return a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims);
}

struct Values {  // the elements of a tensor after a run
  std::vector<double> reals;
  uint64_t saturated;
};

// Runs a program step by step and returns its tensors as real numbers.
class Runner {
 public:
  using Wanted = std::map<uint32_t, std::vector<uint32_t>>;  // step -> tensors to keep after it

  Runner(const ProgramReport& report, RunInputs inputs, const Running& running)
      : report_(report), bound_(bind_to_run(report.loaded(), report.program(), running)), inputs_(std::move(inputs)) {}

  RanBy by() const { return ran_by(bound_); }
  uint64_t runs() const { return inputs_.runs; }
  uint64_t samples() const { return inputs_.rows(); }

  // Returns the values by tensor: those of `wanted`, and those of the program's outputs.
  std::map<uint32_t, Values> run(uint64_t run, const Wanted& wanted) {
    const Program& program = bound_.program();
    for (uint32_t i = 0; i < program.input_count(); ++i) {
      const std::span<std::byte> input = program.input(i);
      const std::span<const uint8_t> sample = inputs_.sample(i, run, input.size());
      std::memcpy(input.data(), sample.data(), sample.size());
    }
    rows_ = run + 1 == inputs_.runs ? inputs_.last_rows : 0;
    std::map<uint32_t, Values> kept;
    for (uint32_t step = 0; step < report_.view().step_count; ++step) {
      report_.loaded().require(program.run(step, step + 1, rows_));
      if (const auto found = wanted.find(step); found != wanted.end())
        for (const uint32_t tensor : found->second) kept[tensor] = values(tensor);
    }
    for (const uint32_t output : report_.view().outputs) kept[output] = values(output);
    return kept;
  }

 private:
  Values values(uint32_t id) {
    const TensorRecord& r = report_.tensor(id);
    StoredElements elements = {.type = r.element, .dims = {r.dims, r.dims + r.rank}, .bytes = {}};
    uint64_t bytes = r.bytes;
    if (rows_ > 0 && (r.flags & kBatched) != 0) {
      bytes = r.bytes / report_.view().batch * rows_;
      elements.dims[0] = rows_;
    }
    elements.scales = meaning_of(id);
    elements.bytes = {reinterpret_cast<const uint8_t*>(bound_.program().bytes(id).data()), size_t(bytes)};
    return {decode(elements), saturated(elements)};
  }

  const std::optional<Scales>& meaning_of(uint32_t id) {
    const auto [found, first] = meanings_.try_emplace(id);
    if (first) found->second = nacre::tools::meaning_of(report_, id);
    return found->second;
  }

  const ProgramReport& report_;
  BoundProgram bound_;
  RunInputs inputs_;
  std::map<uint32_t, std::optional<Scales>> meanings_;
  uint32_t rows_ = 0;
};

// Returns the scales of an input of the reference that takes codes. For a float input of B they decode the same data.
std::optional<Scales> codes_of(const ProgramReport& a, uint32_t input) {
  return is_code_of_reals(a.tensor(input).element) ? a.loaded().scales(input) : std::nullopt;
}

struct Inputs {
  RunInputs a, b;
};

Inputs fit_inputs(const ProgramReport& a, const ProgramReport& b, const NpzArrays& data, bool cast,
                  std::vector<std::string>& notes) {
  const std::vector<NpyArray> arrays = arrays_for(a.names().inputs, data, notes);
  const std::vector<size_t> partner = pair_names(a.names().inputs, b.names().inputs, "input", b.loaded().path());
  std::vector<NpyArray> of_a(arrays.size()), of_b(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::string& name = a.names().inputs[i];
    const uint32_t in_a = a.view().inputs[i], in_b = b.view().inputs[partner[i]];
    if (!same_dims(a.tensor(in_a), b.tensor(in_b)))
      throw Error(kBadInput, "input " + name,
                  fmt::format("is {}, but {}", binding_text(a, in_a), binding_text(b, in_b)),
                  "convert both with the same " + option("batch") + " and " + option("io-layout"));
    const InputFit fit = {.cast = cast, .codes = codes_of(a, in_a)};
    of_a[i] = fit_input(a.loaded(), in_a, name, arrays[i], fit, notes);
    of_b[partner[i]] = fit_input(b.loaded(), in_b, name, arrays[i], fit, notes);
  }
  return {stack_inputs(a.loaded(), a.program(), of_a, false), stack_inputs(b.loaded(), b.program(), of_b, false)};
}

std::vector<ComparedOutput> pair_outputs(const ProgramReport& a, const ProgramReport& b) {
  const std::vector<size_t> partner = pair_names(a.names().outputs, b.names().outputs, "output", b.loaded().path());
  std::vector<ComparedOutput> outputs;
  for (size_t i = 0; i < partner.size(); ++i) {
    const uint32_t in_a = a.view().outputs[i], in_b = b.view().outputs[partner[i]];
    if (!same_dims(a.tensor(in_a), b.tensor(in_b)))
      throw Error(kBadInput, fmt::format("output {}", a.names().outputs[i]),
                  fmt::format("is {}, but {}", binding_text(a, in_a), binding_text(b, in_b)),
                  "convert both with the same " + option("batch") + " and " + option("io-layout"));
    outputs.push_back({.a = uint32_t(i), .b = uint32_t(partner[i]), .error = {}});
  }
  return outputs;
}

void count_best(const TensorRecord& record, std::span<const double> a, std::span<const double> b,
                ComparedOutput& output) {
  const size_t width = record.rank == 0 ? 1 : size_t(record.dims[record.rank - 1]);
  if (width < 2) return;
  for (size_t at = 0; at + width <= a.size(); at += width, ++output.rows) {
    const auto best = [&](std::span<const double> v) {
      return std::ranges::max_element(v.subspan(at, width)) - v.subspan(at, width).begin();
    };
    output.same_best += best(a) == best(b) ? 1 : 0;
  }
}

// Keeps unmatched tensors that are no outputs: outputs are paired separately.
void keep_unmatched(const ProgramReport& a, const ProgramReport& b, TensorMatch& match, Comparison& result) {
  for (Unmatched& u : match.unmatched) {
    const std::span<const uint32_t> outputs = (u.in_a ? a : b).view().outputs;
    if (std::ranges::find(outputs, u.tensor) == outputs.end()) result.unmatched.push_back(std::move(u));
  }
}

void add_run(const ProgramReport& a, const ProgramReport& b, const std::map<uint32_t, Values>& of_a,
             const std::map<uint32_t, Values>& of_b, Comparison& result) {
  for (ComparedTensor& t : result.tensors) {
    t.error.add(of_a.at(t.a).reals, of_b.at(t.b).reals);
    t.saturated += of_b.at(t.b).saturated;
  }
  for (ComparedOutput& o : result.outputs) {
    const uint32_t in_a = a.view().outputs[o.a];
    const Values &x = of_a.at(in_a), &y = of_b.at(b.view().outputs[o.b]);
    o.error.add(x.reals, y.reals);
    o.saturated += y.saturated;
    count_best(a.tensor(in_a), x.reals, y.reals, o);
  }
}

}  // namespace

void sort_by_damage(Comparison& comparison) {
  std::ranges::stable_sort(comparison.tensors, [](const ComparedTensor& x, const ComparedTensor& y) {
    return std::pair(x.error.sqnr_db(), -x.error.relative()) < std::pair(y.error.sqnr_db(), -y.error.relative());
  });
}

Comparison compare_programs(const ProgramReport& a, const ProgramReport& b, const NpzArrays& data, bool cast,
                            const Running& running) {
  Comparison result;
  Inputs inputs = fit_inputs(a, b, data, cast, result.notes);
  result.outputs = pair_outputs(a, b);
  TensorMatch match = match_tensors(a, b);
  keep_unmatched(a, b, match, result);
  Runner::Wanted wanted_a, wanted_b;
  for (const TensorPair& pair : match.pairs) {
    result.tensors.push_back({.a = pair.a, .b = pair.b, .step = pair.step_a, .step_b = pair.step_b, .error = {}});
    wanted_a[pair.step_a].push_back(pair.a);
    wanted_b[pair.step_b].push_back(pair.b);
  }
  Runner runner_a(a, std::move(inputs.a), running), runner_b(b, std::move(inputs.b), running);
  result.by_a = runner_a.by();
  result.by_b = runner_b.by();
  result.samples = runner_a.samples();
  Progress progress("compare", runner_a.runs());
  for (uint64_t run = 0; run < runner_a.runs(); ++run) {
    add_run(a, b, runner_a.run(run, wanted_a), runner_b.run(run, wanted_b), result);
    progress.show(run + 1);
  }
  return result;
}

}  // namespace nacre::tools
