#include "engine/train/static_trainer.h"

#include <cstring>

#include "engine/train/step_numbers.h"

namespace nacre {
namespace {

template <class T>
T value(const void* bytes, size_t index = 0) {
  T v;
  std::memcpy(&v, static_cast<const std::byte*>(bytes) + index * sizeof v, sizeof v);
  return v;
}

void zero(std::span<std::byte> bytes) {
  if (!bytes.empty()) std::memset(bytes.data(), 0, bytes.size());
}

}  // namespace

Code StaticTrainer::start() {
  zero(training_->state);
  for (const StaticInitial& part : training_->initial)
    std::memcpy(training_->state.data() + part.offset, part.data, part.bytes);
  return restored();
}

Code StaticTrainer::restored() {
  zero(training_->update->stream);
  discard();
  refused_in_row_ = 0;
  started_ = true;
  return derive();
}

void StaticTrainer::discard() {
  zero(training_->step);
  accumulated_ = 0;
}

Code StaticTrainer::accumulate() {
  if (!started_) return Code::kNotBound;
  if (immediate()) {
    if (accumulated_ != 0) return Code::kOneMicroBatch;
  } else if (const Code code = feeding().run(); code != Code::kOk) {
    discard();
    return code;
  }
  if (accumulated_ != ~uint32_t{0}) ++accumulated_;
  return Code::kOk;
}

// Returns whether the loss counted no sample, because none of the labels counts.
bool StaticTrainer::counts_nothing() const {
  return !immediate() && training_->samples != nullptr && counts_none(training_->samples);
}

Code StaticTrainer::commit(float learning_rate, Report* report) {
  if (!started_) return Code::kNotBound;
  if (!is_rate(learning_rate)) return Code::kLearningRate;
  if (accumulated_ == 0 || counts_nothing()) return Code::kNothingAccumulated;
  std::memcpy(training_->update->inputs.back().data(), &learning_rate, sizeof learning_rate);
  const Code run = training_->update->run();
  Report told;
  if (run == Code::kOk) tell(&told);
  discard();
  if (run != Code::kOk) return run;
  if (report != nullptr) *report = told;
  // Some parameters may have been applied if each has a verdict of its own.
  return told.applied || immediate() ? derive() : Code::kOk;
}

// Reports the outputs of `update`: whether it was applied, amax, and the report.
void StaticTrainer::tell(Report* report) {
  const auto& outputs = training_->update->outputs;
  const auto number = [&](size_t i) { return report_number(outputs[2].data(), i, training_->wide); };
  report->applied = value<uint32_t>(outputs[0].data()) != 0;
  report->norm = number(1);
  report->loss = number(2);
  report->loss_scale = number(3);
  if (training_->samples != nullptr) report->samples = sample_count(training_->samples);
  if (training_->floor != nullptr && !report->applied)
    report->overflow_at_floor = value<uint32_t>(training_->floor, 2) != 0;
  refused_in_row_ = report->applied ? 0 : refused_in_row_ + (refused_in_row_ != ~uint32_t{0});
  report->refused_in_row = refused_in_row_;
}

StateTable StaticTrainer::table() const {
  return {training_->infer->hash,
          training_->state.size(),
          uint32_t(training_->rows.size()),
          training_,
          [](const void* context, uint32_t i, StateRow* row) {
            *row = static_cast<const StaticTraining*>(context)->rows[i];
            return true;
          },
          [](const void* context, uint32_t i) { return static_cast<const StaticTraining*>(context)->uses[i]; }};
}

int self_test(const StaticTraining& training, GoldenPairs golden, void (*print)(const char* text)) {
  StaticTrainer trainer(training);
  int failed = trainer.start() == Code::kOk ? 0 : 1;
  failed += self_test(*training.infer, golden, print);
  for (const StaticProgram* program : {training.gradients, training.update, training.derive}) {
    if (program == nullptr || table_crc(*program) == program->crc) continue;
    print("constants are not those that the PC wrote\n");
    ++failed;
  }
  return failed;
}

}  // namespace nacre
