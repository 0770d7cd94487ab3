#include "tools/evaluate/training_memory.h"

#include <algorithm>
#include <set>

#include "tools/passes/memory/placement.h"

namespace nacre::tools {
namespace {

bool is_optimizer(Op op) { return op >= Op::kSgd && op <= Op::kAdagrad; }

// Sets the bytes of the moments that optimizers' steps update, and of the gradients that a verdict step checks for
// infinity and NaN. Finds these tensors by the steps that use them, because names may be stripped.
void add_optimizer(const Model& model, TrainingMemory* m) {
  std::set<uint32_t> moments;
  uint32_t update = 0, program = 0;
  const bool sums = model.find(Entry::kUpdate, nullptr, &update).ok() &&
                    // A model without such programs consumes each gradient where it is made.
                    model.find_beside(update, Entry::kGradients, &program).ok();
  for (const StepRecord& step : model.steps()) {
    const uint32_t* operands = model.operands(step);
    const auto tensor = [&](uint32_t i) -> const TensorRecord& {
      return model.tensors()[operands[i] & kOperandIdMask];
    };
    if (sums && (step.op == Op::kVerdict || step.op == Op::kVerdictCodes)) m->gradients = tensor(0).bytes;
    if (!is_optimizer(step.op)) continue;
    for (uint32_t i = 0; i < step.operand_count; ++i)
      if (Role(operands[i] >> 30) == Role::kUpdate && (tensor(i).flags & kTrainable) == 0)
        moments.insert(operands[i] & kOperandIdMask);
  }
  for (const uint32_t id : moments) m->moments += model.tensors()[id].bytes;
}

// Returns the bytes that the backward pass reads from the forward pass: arena tensors alive across the loss step.
uint64_t activations(const Model& model, const ProgramView& view, uint32_t loss) {
  uint64_t bytes = 0;
  for (uint32_t id = view.first_tensor; id < view.first_tensor + view.tensor_count; ++id) {
    const TensorRecord& r = model.tensors()[id];
    if (r.alias_of == kNoIndex && r.first_step < loss && r.last_step > loss) bytes += r.bytes;
  }
  return bytes;
}

// Returns whether the op is a loss. Ids of losses and of their gradients alternate.
bool is_loss(Op op) {
  if (op == Op::kInt8CrossEntropy) return true;
  return op >= Op::kSoftmaxCrossEntropy && op <= Op::kHuber && (int(op) - int(Op::kSoftmaxCrossEntropy)) % 2 == 0;
}

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
    if (r.region == Region::kState && (r.flags & kTrainable) != 0) m.parameters += r.bytes;
  }
  add_optimizer(model, &m);
  std::set<uint32_t> codes;  // int8/full: stored beside their masters, in a program for each target
  for (const StepRecord& step : model.steps())
    if (step.op == Op::kWriteCodes) codes.insert(model.operands(step)[2] & kOperandIdMask);
  for (const uint32_t id : codes) m.parameters += model.tensors()[id].bytes;
  m.statistics = model.region_bytes(Region::kState) - m.parameters - m.moments;  // includes gaps for alignment
  m.sums = model.region_bytes(Region::kStep) - m.gradients;
  uint32_t update = 0;  // of one target: the machine's, if it has programs
  if (!model.find(Entry::kUpdate, machine.name, &update).ok()) update = loaded.find_program(Entry::kUpdate);
  for (uint32_t i = 0; i < model.program_count(); ++i) {
    const ProgramView view = model.program(i);
    if (loaded.program_names(i).target != loaded.program_names(update).target) continue;
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
