// The fine-tuning image's loop on this machine, for tests/firmware.sh: the same data, the same steps, no checkpoints.
//
//   finetune_host MODEL DATA TEST LEARNING_RATE_MILLIONTHS EPOCHS MICRO_BATCHES STATE
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "engine/kernels/training.h"
#include "ports/cortex_m/cortex_m.h"
#include "ports/firmware/file_learner.h"
#include "ports/firmware/finetune.h"
#include "tools/base/error.h"
#include "tools/files/npy.h"
#include "tools/model/loaded_model.h"

namespace {

std::vector<uint8_t> g_data, g_test;

bool read_from(const std::vector<uint8_t>& from, uint64_t offset, std::span<std::byte> bytes) {
  if (offset + bytes.size() > from.size()) return false;
  std::memcpy(bytes.data(), from.data() + offset, bytes.size());
  return true;
}
bool read_data(uint64_t offset, std::span<std::byte> bytes) { return read_from(g_data, offset, bytes); }
bool read_test(uint64_t offset, std::span<std::byte> bytes) { return read_from(g_test, offset, bytes); }

int run(char** a) {
  using namespace nacre;
  const tools::LoadedModel model(a[1]);
  g_data = tools::read_file(a[2]);
  g_test = tools::read_file(a[3]);
  const KernelSet* const kernels[] = {&cortex_m::kernels(), &reference::kernels(), &reference::training_kernels()};
  Sizes sizes;
  model.require(Trainer::measure(model.model(), nullptr, kernels, &sizes));
  tools::AlignedBytes block;
  block.resize(size_t(sizes.total()));
  Memory memory;
  model.require(Memory::cut(block.bytes(), sizes, &memory));
  Trainer trainer;
  model.require(trainer.bind(model.model(), nullptr, kernels, memory));
  firmware::FileLearner learner;
  learner.take(trainer, model.model());
  firmware::FineTune<firmware::FileLearner> tune = {
      .read_data = read_data,
      .read_test = read_test,
      .committed = nullptr,
      .learner = &learner,
      .storage = {},
      .learning_rate = firmware::rate_of_millionths(uint32_t(std::atoi(a[4]))),
      .epochs = uint32_t(std::atoi(a[5])),
      .micro_batches = uint32_t(std::atoi(a[6])),
      .save_every = 0};
  model.require(trainer.start());
  decltype(tune)::Evaluation before, after, trained;
  model.require(tune.evaluate(read_test, &before));
  model.require(tune.train());
  model.require(tune.evaluate(read_test, &after));
  std::printf("right_before %u\nsamples %u\nright_after %u\nfrozen_crc_test %u\n", before.right, before.samples,
              after.right, after.frozen_crc);
  if (trainer.infer().view().batch == 1) {
    model.require(tune.evaluate(read_data, &trained));
    std::printf("right_of_data %u\ndata_samples %u\nfrozen_crc_data %u\n", trained.right, trained.samples,
                trained.frozen_crc);
  }
  std::printf("micro_batches %u\nsteps %u\nrefused_steps %u\n", tune.seen, tune.steps, tune.refused);
  std::ofstream(a[7], std::ios::binary)
      .write(reinterpret_cast<const char*>(trainer.state().data()), std::streamsize(trainer.state().size()));
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 8) {
    std::fprintf(stderr, "finetune_host MODEL DATA TEST LEARNING_RATE_MILLIONTHS EPOCHS MICRO_BATCHES STATE\n");
    return 2;
  }
  try {
    return run(arguments);
  } catch (const nacre::tools::Error& error) {
    std::fprintf(stderr, "finetune_host: %s\n", error.what());
    return 1;
  }
}
