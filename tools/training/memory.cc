#include "tools/training/memory.h"

#include <algorithm>

#include "tools/passes/placement.h"
#include "tools/training/differentiate.h"

namespace nacre::tools {
namespace {

constexpr const char* kMoments[] = {"/velocity", "/first_moment", "/second_moment", "/mean_square", "/square_sum"};

bool is_moment(const std::string& name) {
  return std::ranges::any_of(kMoments, [&](const char* suffix) { return name.ends_with(suffix); });
}

// What the backward pass reads of the forward pass: arena tensors that hold their value across the loss step.
uint64_t activations(const Model& model, const ProgramView& view, uint32_t loss) {
  uint64_t bytes = 0;
  for (uint32_t id = view.first_tensor; id < view.first_tensor + view.tensor_count; ++id) {
    const TensorRecord& r = model.tensors()[id];
    if (r.alias_of == kNoIndex && r.first_step < loss && r.last_step > loss) bytes += r.bytes;
  }
  return bytes;
}

// Ids of losses and of their gradients alternate.
bool is_loss(Op op) { return op >= Op::kSoftmaxCrossEntropy && op <= Op::kHuber && (int(op) - int(Op::kSoftmaxCrossEntropy)) % 2 == 0; }

}  // namespace

bool trains(const LoadedModel& model) {
  uint32_t index = 0;
  return model.model().find(Entry::kUpdate, nullptr, &index).ok();
}

TrainingMemory training_memory(const LoadedModel& loaded, const TargetMachine& machine) {
  const Model& model = loaded.model();
  TrainingMemory m;
  m.weights = loaded.weight_bytes();
  m.stream = model.region_bytes(Region::kStream);
  m.derived = model.region_bytes(Region::kDerived);
  m.objects = machine.model_bytes + machine.trainer_bytes;
  for (uint32_t id = 0; id < model.tensors().size(); ++id) {
    const TensorRecord& r = model.tensors()[id];
    if (r.alias_of != kNoIndex) continue;
    const std::string name = loaded.tensor_name(id);
    if (r.region == Region::kStep && name == kGradientsName) m.gradients = r.bytes;
    if (r.region != Region::kState) continue;
    if ((r.flags & kTrainable) != 0) m.parameters += r.bytes;
    else if (is_moment(name)) m.moments += r.bytes;
  }
  m.statistics = model.region_bytes(Region::kState) - m.parameters - m.moments;  // the gaps of alignment with it
  m.sums = model.region_bytes(Region::kStep) - m.gradients;
  for (uint32_t i = 0; i < model.program_count(); ++i) {
    const ProgramView view = model.program(i);
    const Sizes sizes = measure(loaded, i, {.pointer_bytes = machine.pointer_bytes, .workers = 1});
    uint64_t arena = 0;
    for (uint32_t block = kArena; block < kBlockCount; ++block) arena += sizes.bytes[block];
    m.calls += aligned(sizes.bytes[kCalls]) + aligned(sizes.bytes[kPrepared]);  // one after the other
    m.scratch = std::max(m.scratch, sizes.bytes[kScratch]);
    if (arena > m.arena) m.arena = arena, m.bound = loaded.program_names(i).liveness_bound;
    for (uint32_t step = 0; step < view.step_count; ++step)
      if (is_loss(model.steps()[view.first_step + step].op)) m.activations = activations(model, view, step);
  }
  return m;
}

}  // namespace nacre::tools
