#include "tools/model/tensor_dump.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/print.h"
#include "tools/files/convert_elements.h"
#include "tools/files/npy.h"
#include "tools/graph/layouts.h"

namespace nacre::tools {
namespace {

constexpr int kInputStep = -1;  // complete before the first step

Json index_entry(const LoadedModel& loaded, const ProgramView& view, uint32_t id, int step, const std::string& file) {
  const TensorRecord& r = loaded.model().tensors()[id];
  Json entry = {{"file", file},
                {"tensor", id},
                {"name", loaded.tensor_name(id)},
                {"type", name_of(r.element)},
                {"shape", std::vector<int32_t>(r.dims, r.dims + r.rank)}};
  if (const ElementType held = numpy_type(r.element); held != r.element) entry["stored_as"] = name_of(held);
  if (step != kInputStep) {
    const StepRecord& record = loaded.model().steps()[view.first_step + uint32_t(step)];
    const OpRule* rule = find_rule(record.op);
    entry["step"] = step;
    entry["op"] = rule != nullptr ? rule->name : "unknown";
    entry["layer"] = loaded.step_name(view.first_step + uint32_t(step));
  }
  if (const std::optional<Scales> scales = loaded.scales(id)) {
    entry["scale"] = scales->scale[0];
    entry["zero_point"] = scales->zero[0];
  }
  return entry;
}

}  // namespace

std::vector<int> completing_steps(const Model& model, const ProgramView& view) {
  std::vector<int> steps(view.tensor_count, kInputStep);
  std::vector<bool> written(view.tensor_count, false);
  const auto tensor = [&](uint32_t i) -> const TensorRecord& { return model.tensors()[view.first_tensor + i]; };
  for (uint32_t s = 0; s < view.step_count; ++s) {
    const StepRecord& step = model.steps()[view.first_step + s];
    for (uint32_t i = 0; i < step.operand_count; ++i) {
      const uint32_t word = model.operands(step)[i], id = word & kOperandIdMask;
      if (Role(word >> 30) == Role::kIn || id == kNoOperand || id < view.first_tensor) continue;
      steps[id - view.first_tensor] = int(s);
      written[id - view.first_tensor] = true;
    }
  }
  for (uint32_t i = 0; i < view.tensor_count; ++i) {
    if (!written[i] || tensor(i).alias_of == kNoIndex) continue;
    const uint32_t target = tensor(i).alias_of - view.first_tensor;
    if (!written[target]) steps[target] = std::max(steps[target], steps[i]);
  }
  for (uint32_t i = 0; i < view.tensor_count; ++i)
    if (!written[i] && tensor(i).alias_of != kNoIndex) steps[i] = steps[tensor(i).alias_of - view.first_tensor];
  return steps;
}

void run_and_take(const BoundProgram& bound, const std::function<void(uint32_t tensor, int step)>& take) {
  const ProgramView& view = bound.program().view();
  const std::vector<int> complete = completing_steps(bound.loaded().model(), view);
  for (int step = kInputStep; step < int(view.step_count); ++step) {
    if (step != kInputStep) bound.loaded().require(bound.program().run(uint32_t(step), uint32_t(step) + 1, 0));
    for (uint32_t i = 0; i < view.tensor_count; ++i)
      if (complete[i] == step) take(view.first_tensor + i, step);
  }
}

void dump_tensors(const BoundProgram& bound, OutputFiles& files) {
  const LoadedModel& loaded = bound.loaded();
  const ProgramView& view = bound.program().view();
  const size_t digits = std::to_string(view.step_count).size();
  Json index = Json::array();
  run_and_take(bound, [&](uint32_t id, int step) {
    const TensorRecord& r = loaded.model().tensors()[id];
    const std::string prefix = step == kInputStep ? "input" : fmt::format("{:0{}}", step, digits);
    const NpyArray array =
        in_numpy_type({r.element, {r.dims, r.dims + r.rank}, row_major_bytes(r, bound.program().bytes(id).data())});
    const std::string file =
        files.add(fmt::format("{}_{}.npy", prefix, file_name_of(loaded.tensor_name(id))), npy_bytes(array));
    index.push_back(index_entry(loaded, view, id, step, file));
  });
  const std::string text = Json{{"model", loaded.path()}, {"tensors", index}}.dump(1) + "\n";
  files.add("index.json", {text.begin(), text.end()});
}

}  // namespace nacre::tools
