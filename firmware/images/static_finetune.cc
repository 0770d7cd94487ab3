// The fine-tuning image (finetune_run.h) of static programs that `nacre firmware --train` wrote. It holds only
// these parts of the engine: their kernels, StaticTrainer and Checkpoint.
#include NACRE_STATIC_HEADER

#include "firmware/images/finetune_run.h"

namespace nacre::firmware {
namespace {

constexpr Status status_of(Code code) { return {code, Table::kProgram}; }

struct StaticLearner : StaticTrainer {
  constexpr StaticLearner() : StaticTrainer(model_training) {}

  Status start() { return status_of(StaticTrainer::start()); }
  Status restored() { return status_of(StaticTrainer::restored()); }
  Status accumulate() { return status_of(StaticTrainer::accumulate()); }
  Status commit(float rate, Trainer::Report* report) { return status_of(StaticTrainer::commit(rate, report)); }

  // Returns the rows of the compiled batch. Each row has an int32 label.
  size_t rows() const { return input(input_count() - 1).size() / sizeof(int32_t); }
  // Returns the memory of the first row of the inference batch. The other rows keep their values.
  std::span<std::byte> sample() const { return model_program.inputs[0].first(model_program.inputs[0].size() / rows()); }
  Status infer(uint32_t*) const { return status_of(model_program.run()); }
  std::span<const std::byte> scores() const {
    return model_program.outputs[0].first(model_program.outputs[0].size() / rows());
  }
  static constexpr bool codes() { return MODEL_OUTPUT_0_TYPE == int(ElementType::kInt8); }
};

constinit StaticLearner g_learner;
constinit FineTune<StaticLearner> g_tune = {};

Status prepare(bool* data_are_samples) {
  const int failed = model_self_test(print);
  report("failed", failed);
  report("trainer_object", sizeof(StaticTrainer));
  report("state", model_training.state.size());
  *data_are_samples = g_learner.rows() == 1;
  return failed == 0 ? Status() : status_of(Code::kCrc);
}

}  // namespace
}  // namespace nacre::firmware

int app_main() {
  using namespace nacre::firmware;
  return fine_tune_main(g_tune, g_learner, prepare);
}
