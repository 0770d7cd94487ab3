// The fine-tuning image's loop on this machine, for tests/firmware.sh: the same data, the same steps, no checkpoints.
//
//   finetune_host MODEL DATA TEST LEARNING_RATE_MILLIONTHS EPOCHS STATE
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "engine/kernels/training.h"
#include "ports/firmware/finetune.h"
#include "tools/error.h"
#include "tools/loaded_model.h"
#include "tools/npy.h"

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
  const KernelSet* const kernels[] = {&reference::kernels(), &reference::training_kernels()};
  Sizes sizes;
  model.require(Trainer::measure(model.model(), nullptr, kernels, &sizes));
  tools::AlignedBytes block;
  block.resize(size_t(sizes.total()));
  Memory memory;
  model.require(Memory::cut(block.bytes(), sizes, &memory));
  Trainer trainer;
  model.require(trainer.bind(model.model(), nullptr, kernels, memory));
  firmware::FineTune tune = {.read_data = read_data,
                             .read_test = read_test,
                             .committed = nullptr,
                             .trainer = &trainer,
                             .storage = {},
                             .learning_rate = float(std::atoi(a[4])) * 1e-6f,
                             .epochs = uint32_t(std::atoi(a[5])),
                             .save_every = 0};
  model.require(trainer.start());
  uint32_t right = 0, samples = 0;
  model.require(tune.evaluate(&right, &samples));
  std::printf("right_before %u\nsamples %u\n", right, samples);
  model.require(tune.train(model.model()));
  model.require(tune.evaluate(&right, &samples));
  std::printf("right_after %u\nmicro_batches %u\nrefused_steps %u\n", right, tune.seen, tune.refused);
  std::ofstream(a[6], std::ios::binary).write(reinterpret_cast<const char*>(trainer.state().data()), std::streamsize(trainer.state().size()));
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) {
    std::fprintf(stderr, "finetune_host MODEL DATA TEST LEARNING_RATE_MILLIONTHS EPOCHS STATE\n");
    return 2;
  }
  try {
    return run(arguments);
  } catch (const nacre::tools::Error& error) {
    std::fprintf(stderr, "finetune_host: %s\n", error.what());
    return 1;
  }
}
