// The executor of claims that uses the engine: it plans, writes a model file, opens and binds it, and runs step by
// step.
#include <cstring>

#include "engine/kernels/training.h"
#include "engine/nacre.h"
#include "tests/claims/executor.h"
#include "tools/base/error.h"
#include "tools/model/loaded_model.h"
#include "tools/model/writer.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

void require(const char* what, const Status& status) {
  if (!status.ok()) throw Error(kFailed, what, sentence(status.code));
}

// A bound model, with the names of its tensors.
struct Bound {
  AlignedBytes file, memory;
  Model model;
  Program program;
  std::vector<std::string> names;
};

void bind(const std::vector<uint8_t>& bytes, Bound* bound) {
  bound->file.resize(bytes.size());
  std::memcpy(bound->file.bytes().data(), bytes.data(), bytes.size());
  const KernelSet* const kernels[] = {&reference::kernels(), &reference::training_kernels()};
  Sizes sizes;
  Memory memory;
  require("open", bound->model.open(bound->file.bytes()));
  require("check_weights", bound->model.check_weights());
  require("measure", Program::measure(bound->model, 0, kernels, &sizes));
  bound->memory.resize(size_t(sizes.total()));
  require("cut", Memory::cut(bound->memory.bytes(), sizes, &memory));
  require("bind", bound->program.bind(bound->model, 0, kernels, memory));
}

}  // namespace

std::map<std::string, Bytes> execute(const Graph& graph, const std::vector<Bytes>& inputs) {
  Graph planned = graph;
  const Target target;
  schedule(planned, target);
  plan_memory(planned, target);
  check(planned);
  const ProgramSource source = {.graph = &planned};
  const std::vector<uint8_t> bytes = write_model({&source, 1});
  Bound bound;
  bind(bytes, &bound);
  const LoadedModel names(bytes, "claim", "");

  std::map<std::string, Bytes> tensors;
  const auto keep = [&](uint32_t id) {
    const std::span<const std::byte> data = bound.program.bytes(id);
    const auto* first = reinterpret_cast<const uint8_t*>(data.data());
    tensors[names.tensor_name(id)] = Bytes(first, first + data.size());
  };
  const ProgramView& view = bound.program.view();
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    std::memcpy(bound.program.input(i).data(), inputs[i].data(), inputs[i].size());
    keep(view.inputs[i]);
  }
  // A tensor is kept after the step that writes it, and again while it lives, because a concatenation is complete
  // only after its last part. It is not kept after its last step, where an output may have taken its place.
  for (uint32_t step = 0; step < view.step_count; ++step) {
    require("run", bound.program.run(step, step + 1, 0));
    for (uint32_t i = 0; i < view.tensor_count; ++i) {
      const uint32_t id = view.first_tensor + i;
      const TensorRecord& r = bound.model.tensors()[id];
      if (r.first_step <= step && step <= r.last_step && (r.flags & kInput) == 0 &&
          (step < r.last_step || !tensors.contains(names.tensor_name(id))))
        keep(id);
    }
  }
  for (const uint32_t id : view.outputs) keep(id);  // complete only now, if the last step writes a part
  return tensors;
}

const char* executor_name() { return "engine"; }

}  // namespace nacre::tools
