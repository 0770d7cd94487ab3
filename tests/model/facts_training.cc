// False facts that a training model can state.
#include <bit>
#include <limits>

#include "tests/model/facts.h"

namespace nacre::test {
namespace {

// The draft `training` has the programs infer, gradients, update and derive. Tensors 2 to 13 are w, b, velocity,
// steps, scale, counters, copy, sums, loss, count, dw and db. Its steps are:
constexpr uint32_t kInferDense = 0, kForward = 2, kLoss = 3, kSlope = 4, kDw = 5, kVerdict = 7, kMomentum = 8,
                   kCount = 10, kAdjust = 11, kDerive = 12;
constexpr uint32_t kW = 2, kVelocity = 4, kSteps = 5, kScale = 6, kCounters = 7, kCopy = 8, kSums = 9, kLossSum = 10,
                   kDwAlias = 12, kDbAlias = 13;
constexpr uint32_t kOut = 1u << 30, kUpdate = 2u << 30;

void the_roles(Facts& f) {
  const auto operand = [&](const char* text, uint32_t step, uint32_t at, uint32_t word, Code code,
                           Stage stage = Stage::kOpen) {
    f.draft(39, text, training, [=](Draft& d) { d.operands[d.steps[step].first_operand + at] = word; },
            {code, Table::kStep, step, stage});
  };
  operand("infer updates the step block", kInferDense, 2, kSums | kUpdate, Code::kRole);
  operand("infer updates derived", kInferDense, 1, kCopy | kUpdate, Code::kRole);
  operand("gradients updates state", kDw, 2, kW | kUpdate, Code::kRole);
  operand("gradients writes state", kForward, 3, kVelocity | kOut, Code::kRole);
  operand("gradients updates derived", kDw, 2, kCopy | kUpdate, Code::kRole);
  operand("gradients writes the step block, instead of adding to it", kForward, 3, kSums | kOut, Code::kRole);
  operand("gradients updates weights", kDw, 2, 0 | kUpdate, Code::kRole);
  operand("update writes state, instead of updating it", kMomentum, 3, kW | kOut, Code::kRole);
  operand("update updates derived", kMomentum, 3, kCopy | kUpdate, Code::kRole);
  operand("derive updates derived", kDerive, 1, kCopy | kUpdate, Code::kRole);
  operand("derive writes the step block", kDerive, 1, kSums | kOut, Code::kRole);
  f.draft(39, "update updates the learning rate", training,
          [](Draft& d) { d.operands[d.steps[kMomentum].first_operand + 3] = d.programs[2].inputs[0] | kUpdate; },
          {Code::kRole, Table::kStep, kMomentum});
  f.draft(19, "gradients reads the learning rate of update", training,
          [](Draft& d) { d.operands[d.steps[kSlope].first_operand + 2] = d.programs[2].inputs[0]; },
          {Code::kOperandId, Table::kStep, kSlope});
}

void the_guards(Facts& f) {
  const auto guard = [&](int number, const char* text, uint32_t step, uint32_t (*id)(const Draft&), Code code) {
    f.draft(number, text, training, [=](Draft& d) { d.steps[step].guard = id(d); }, {code, Table::kStep, step});
  };
  using D = const Draft;
  guard(18, "guard of three uint32", kMomentum, [](D&) { return kCounters; }, Code::kGuard);
  guard(18, "guard that is float32", kMomentum, [](D&) { return kScale; }, Code::kGuard);
  guard(
      39, "verdict guarded by itself", kVerdict, [](D& d) { return d.programs[2].outputs[0]; }, Code::kReadBeforeWrite);
  guard(19, "guard that only update has", kDw, [](D& d) { return d.programs[2].outputs[0]; }, Code::kOperandId);
  f.draft(39, "guard that lives too short", training,
          [](Draft& d) {
            TensorRecord& apply = d.tensors[d.programs[2].outputs[0]];
            apply.last_step = 2, apply.flags = 0;
            auto& p = d.programs[2];
            p.outputs.erase(p.outputs.begin()), p.output_names.erase(p.output_names.begin());
            p.output_layouts.erase(p.output_layouts.begin());
          },
          {Code::kNotLive, Table::kStep, kCount});
}

void the_records(Facts& f) {
  const auto record = [&](int number, const char* text, uint32_t id, void (*edit)(TensorRecord&), Code code) {
    f.draft(number, text, training, [=](Draft& d) { edit(d.tensors[id]); }, {code, Table::kTensor, id});
  };
  using R = TensorRecord;
  record(0, "initial value of another size", kW, [](R& r) { r.initial = 1; }, Code::kInitial);
  record(0, "initial value in the step block", kSums, [](R& r) { r.initial = 0; }, Code::kInitial);
  record(0, "derived tensor with an initial value", kCopy, [](R& r) { r.initial = 0; }, Code::kInitial);
  record(0, "gradient marked as trainable", kSums, [](R& r) { r.flags = kTrainable; }, Code::kFlags);
  record(0, "derived tensor marked as trainable", kCopy, [](R& r) { r.flags = kTrainable; }, Code::kFlags);
  record(0, "state marked as output", kW, [](R& r) { r.flags = kOutput; }, Code::kFlags);
  record(0, "batched gradient", kSums, [](R& r) { r.flags = kBatched; }, Code::kFlags);
  record(29, "two state records share bytes", kVelocity, [](R& r) { r.offset -= 16; }, Code::kOverlap);
  record(29, "state out of order", kVelocity, [](R& r) { r.offset = 0; }, Code::kOrder);
  record(29, "state beyond its block", kCounters, [](R& r) { r.offset += 16; }, Code::kBounds);
  record(29, "gradient beyond the step block", kSums, [](R& r) { r.offset = ~uint64_t{3}; }, Code::kBounds);
  record(29, "part of the gradients beyond them", kDbAlias, [](R& r) { r.offset += 4; }, Code::kAliasBounds);
  record(29, "part of the gradients in the state", kDwAlias, [](R& r) { r.alias_of = kW; }, Code::kAliasTarget);
  record(28, "part of the gradients at 2 of 4", kDbAlias, [](R& r) { r.offset -= 2; }, Code::kOffsetAlignment);
  f.draft(29, "step block shorter than its records", training, [](Draft& d) { d.region_bytes[3] = 4; },
          {Code::kBounds, Table::kTensor, kSums});
  f.draft(38, "step block near 2^64: sizes would wrap", training, [](Draft& d) { d.region_bytes[3] = ~uint64_t{15}; },
          {Code::kOverflow, Table::kRoot, uint32_t(Region::kStep)});
  f.draft(0, "two programs `update` for one target", training,
          [](Draft& d) { d.programs[3].entry = uint8_t(Entry::kUpdate); }, {Code::kEntry, Table::kProgram, 3});
}

// False facts about optimizers, verdict and loss, which measure finds.
void the_steps(Facts& f) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto word = [&](const char* text, uint32_t step, uint32_t at, uint32_t value) {
    f.draft(43, text, training, [=](Draft& d) { d.words[d.steps[step].first_word + at] = value; },
            {Code::kAttribute, Table::kStep, step, Stage::kMeasure});
  };
  word("momentum that is NaN", kMomentum, 2, std::bit_cast<uint32_t>(nan));
  word("momentum of 2", kMomentum, 2, std::bit_cast<uint32_t>(2.0f));
  word("weight decay that is NaN", kMomentum, 1, std::bit_cast<uint32_t>(nan));
  word("label smoothing of 2", kLoss, 0, std::bit_cast<uint32_t>(2.0f));
  word("loss scale that grows by NaN", kAdjust, 4, std::bit_cast<uint32_t>(nan));
  word("loss scale that grows by 3: no power of two", kAdjust, 4, std::bit_cast<uint32_t>(3.0f));
  word("loss scale that never grows: period 0", kAdjust, 3, 0);
  word("loss scale with its floor above its ceiling", kAdjust, 5, std::bit_cast<uint32_t>(8192.0f));
  word("unknown rule of loss scaling", kAdjust, 0, 99);
  const auto operand = [&](int number, const char* text, uint32_t step, uint32_t at, uint32_t id, Code code) {
    f.draft(number, text, training, [=](Draft& d) { d.operands[d.steps[step].first_operand + at] = id; },
            {code, Table::kStep, step, Stage::kMeasure});
  };
  operand(0, "a moment of another size than its parameter", kMomentum, 4, kScale | kUpdate, Code::kShapeWeights);
  operand(0, "a parameter of another size than its gradient", kMomentum, 3, 3 | kUpdate, Code::kShapeWeights);
  operand(0, "a parameter that is its own moment", kMomentum, 4, kW | kUpdate, Code::kInPlace);
  operand(0, "loss and count in one place", kLoss, 3, kLossSum | kUpdate, Code::kInPlace);
  operand(0, "a loss that is no scalar", kLoss, 2, kSums | kUpdate, Code::kShapeOutput);
  operand(16, "a step count in float32", kCount, 0, kScale | kUpdate, Code::kNoKernel);
  operand(16, "a parameter in uint32", kMomentum, 3, kSteps | kUpdate, Code::kNoKernel);
}

}  // namespace

void training_facts(Facts& facts) {
  the_roles(facts);
  the_guards(facts);
  the_records(facts);
  the_steps(facts);
}

}  // namespace nacre::test
