// The fine-tuning image. A training model is in flash, its state and all other memory in .bss. Data, and an emulated
// flash for checkpoints, are files of the host (finetune_run.h).
#include "engine/nacre.h"
#include "firmware/images/file_learner.h"
#include "firmware/images/finetune_run.h"
#include "firmware/images/model_image.h"

#define NACRE_DEFINE_MODEL_KERNELS
#include NACRE_MODEL_KERNELS

namespace nacre::firmware {
namespace {

alignas(kAlignment) constinit std::byte g_memory[NACRE_MEMORY_BYTES];
constinit Model g_model;
constinit Trainer g_trainer;
constinit Sizes g_sizes;
constinit Memory g_blocks;
constinit FileLearner g_learner;
constinit FineTune<FileLearner> g_tune = {};

Status prepare(bool* data_are_samples) {
  const KernelSet* const kernels[] = {&model_kernels};
  NACRE_TRY(g_model.open(model_image()));
  NACRE_TRY(Trainer::measure(g_model, nullptr, kernels, &g_sizes));
  NACRE_TRY(Memory::cut(g_memory, g_sizes, &g_blocks));
  NACRE_TRY(g_trainer.bind(g_model, nullptr, kernels, g_blocks));
  g_learner.take(g_trainer, g_model);
  *data_are_samples = g_trainer.infer().view().batch == 1;
  report("model_object", sizeof g_model);
  report("trainer_object", sizeof g_trainer);
  report("calls", g_sizes.bytes[kCalls]);
  report("state", g_sizes.bytes[kState]);
  report("step_block", g_sizes.bytes[kStepSums]);
  report("derived", g_sizes.bytes[kDerived]);
  report("arena", g_sizes.bytes[kArena]);
  report("scratch", g_sizes.bytes[kScratch]);
  report("total", g_sizes.total());
  return {};
}

}  // namespace
}  // namespace nacre::firmware

int app_main() {
  using namespace nacre::firmware;
  return fine_tune_main(g_tune, g_learner, prepare);
}
