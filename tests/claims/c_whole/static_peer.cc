// Does in C++ what static.c and device.c of tools/samples/c do, with the sources that `nacre firmware` wrote.
//
//   static_peer static SAMPLES OUTPUTS
//   static_peer device SAMPLES LABELS STEPS STATE
#include <nacre/nor_flash.h>

#include <cstring>

#include "digits.h"
#include "learner.h"
#include "tests/claims/c_whole/peer.h"

namespace nacre::test {
namespace {

void require(Code code) { test::require(Status{code}); }

void run_static(char** arguments) {
  const File samples(arguments[0]);
  Output out(arguments[1]);
  const std::span<std::byte> input = digits_program.inputs[0];
  start_stream(digits_program);
  for (size_t at = 0; at + input.size() <= samples.size; at += input.size()) {
    std::memcpy(input.data(), samples.bytes().data() + at, input.size());
    require(digits_program.run());
    out.write(digits_program.outputs[0]);
  }
}

std::byte sectors[160 * 4096];

bool program_granule(uintptr_t address, const void* granule) {
  std::memcpy(sectors + (address - reinterpret_cast<uintptr_t>(sectors)), granule, 8);
  return true;
}
bool erase_sector(uintptr_t address) {
  std::memset(sectors + (address - reinterpret_cast<uintptr_t>(sectors)), 0xFF, 4096);
  return true;
}

void train(char** arguments) {
  const File samples(arguments[0]), labels(arguments[1]);
  std::memset(sectors, 0xFF, sizeof sectors);
  const NorFlash flash = {.begin = sectors,
                          .bytes = sizeof sectors,
                          .program_bytes = 8,
                          .erase_bytes = 4096,
                          .program = program_granule,
                          .erase = erase_sector};
  Checkpoint checkpoint(flash.storage());
  StaticTrainer trainer(learner_training);
  require(trainer.start());
  const size_t batches = samples.size / trainer.input(0).size();
  const auto steps = uint32_t(std::strtoul(arguments[2], nullptr, 10));
  for (uint32_t done = 0; done < steps;) {
    for (uint32_t i = 0; i < 2; ++i) {
      const std::span<std::byte> to = trainer.input(i);
      std::memcpy(to.data(), (i == 0 ? samples : labels).bytes().data() + done % batches * to.size(), to.size());
    }
    require(trainer.accumulate());
    require(trainer.commit(0.01f, nullptr));
    ++done;
    if (done % 2 == 0 || done == steps)
      test::require(checkpoint.save(trainer.table(), trainer.state(), {.note = std::as_bytes(std::span(&done, 1))}));
  }
  Output(arguments[3]).write(trainer.state());
}

}  // namespace
}  // namespace nacre::test

int main(int count, char** arguments) {
  const std::string name = count > 1 ? arguments[1] : "";
  if (name == "static" && count == 4) return nacre::test::run_static(arguments + 2), 0;
  if (name == "device" && count == 6) return nacre::test::train(arguments + 2), 0;
  return 2;
}
