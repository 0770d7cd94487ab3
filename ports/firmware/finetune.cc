// The fine-tuning image: a training model in flash, its state and everything else in .bss, data and an emulated flash
// for checkpoints as files of the host.
//
//   finetune DATA TEST FLASH LEARNING_RATE_MILLIONTHS EPOCHS MICRO_BATCHES SAVE_EVERY [STATE]
//
// DATA, TEST: finetune.h; an empty TEST is not run. FLASH: a file of the emulated flash's size; what is programmed or
// erased is written through to it at once, so that the machine may be stopped at any moment and started again with the
// same file. MICRO_BATCHES: of a step. SAVE_EVERY: steps between two checkpoints. STATE: where the state block goes at
// the end.
#include "ports/firmware/finetune.h"
#include "engine/nacre.h"
#include "ports/firmware/host.h"
#include "ports/firmware/instruction_count.h"
#include "ports/firmware/model_image.h"
#include "ports/firmware/semihosting.h"
#include "ports/firmware/stack_use.h"

#define NACRE_DEFINE_MODEL_KERNELS
#include NACRE_MODEL_KERNELS

namespace nacre::firmware {
namespace {

alignas(kAlignment) constinit std::byte g_memory[NACRE_MEMORY_BYTES];
constinit Model g_model;
constinit Trainer g_trainer;
constinit Sizes g_sizes;
constinit Memory g_blocks;
constinit FineTune g_tune = {};
constinit int g_data = -1, g_test = -1, g_flash = -1;

constexpr uint32_t kProgramBytes = 8, kEraseBytes = 2048;  // as the STM32L4's flash

bool read_data(uint64_t offset, std::span<std::byte> bytes) { return read_at(g_data, offset, bytes); }
bool read_test(uint64_t offset, std::span<std::byte> bytes) { return read_at(g_test, offset, bytes); }

bool flash_read(void*, uint64_t offset, std::span<std::byte> to) { return read_at(g_flash, offset, to); }
bool flash_program(void*, uint64_t offset, std::span<const std::byte> from) { return write_at(g_flash, offset, from); }
bool flash_erase(void*, uint64_t offset) {
  std::byte erased[64];
  for (std::byte& b : erased) b = std::byte{0xFF};
  for (uint32_t at = 0; at < kEraseBytes; at += sizeof erased)
    if (!write_at(g_flash, offset + at, erased)) return false;
  return true;
}

// The first steps, told apart: what one micro-batch and its commit cost.
void committed(uint32_t step, const Trainer::Report& r) {
  const uint32_t now = instructions(read_ticks());
  if (step <= 3) report("instructions_step", now);
  if (step <= 3) report("applied", r.applied ? 1 : 0);
  start_ticks();
}

Status prepare() {
  const KernelSet* const kernels[] = {&model_kernels};
  TRY(g_model.open(model_image()));
  TRY(Trainer::measure(g_model, nullptr, kernels, &g_sizes));
  TRY(Memory::cut(g_memory, g_sizes, &g_blocks));
  return g_trainer.bind(g_model, nullptr, kernels, g_blocks);
}

uint32_t number(const char* text) {
  uint32_t value = 0;
  for (; text != nullptr && *text >= '0' && *text <= '9'; ++text) value = value * 10 + uint32_t(*text - '0');
  return value;
}

uint32_t at_least_one(const char* text) { return number(text) == 0 ? 1 : number(text); }

// Nothing where there is no sample.
Status evaluate(bool (*read)(uint64_t, std::span<std::byte>), const char* right, const char* samples, const char* crc) {
  FineTune::Evaluation found;
  TRY(g_tune.evaluate(g_model, read, &found));
  if (found.samples == 0) return {};
  report(right, found.right);
  report(samples, found.samples);
  report(crc, found.frozen_crc);
  return {};
}

// The answers before are those of the model in flash: a machine that goes on has given them before.
Status run() {
  TRY(g_tune.resume(g_model));
  report("resumed_at", g_tune.seen);
  if (g_tune.seen == 0) TRY(evaluate(read_test, "right_before", "samples", "frozen_crc_before"));
  start_ticks();
  TRY(g_tune.train(g_model));
  const bool tests = read_test(0, g_trainer.infer().input(0).first(1));
  if (tests && g_trainer.infer().view().batch == 1)
    TRY(evaluate(read_data, "right_of_data", "data_samples", "frozen_crc_data"));
  TRY(evaluate(read_test, "right_after", "samples", "frozen_crc_test"));
  report("micro_batches", g_tune.seen);
  report("steps", g_tune.steps);
  report("refused_steps", g_tune.refused);
  return {};
}

}  // namespace
}  // namespace nacre::firmware

int app_main() {
  using namespace nacre::firmware;
  namespace semihosting = nacre::semihosting;
  static char line[4096];
  if (!semihosting::read_command_line(line)) return 2;
  char* rest = line;
  const char* words[9] = {};
  for (const char*& word : words) word = semihosting::next_word(rest);
  if (words[7] == nullptr)
    return complain("finetune DATA TEST FLASH LEARNING_RATE_MILLIONTHS EPOCHS MICRO_BATCHES SAVE_EVERY [STATE]", "");
  g_data = semihosting::open(words[1], semihosting::Mode::kRead);
  g_test = semihosting::open(words[2], semihosting::Mode::kRead);
  g_flash = semihosting::open(words[3], semihosting::Mode::kUpdate);
  if (g_data < 0 || g_test < 0 || g_flash < 0) return complain("a file cannot be opened", "");
  if (const nacre::Status status = prepare(); !status.ok()) return refuse(status);
  report("model_object", sizeof g_model);
  report("trainer_object", sizeof g_trainer);
  report("calls", g_sizes.bytes[nacre::kCalls]);
  report("state", g_sizes.bytes[nacre::kState]);
  report("step_block", g_sizes.bytes[nacre::kStepSums]);
  report("derived", g_sizes.bytes[nacre::kDerived]);
  report("arena", g_sizes.bytes[nacre::kArena]);
  report("scratch", g_sizes.bytes[nacre::kScratch]);
  report("total", g_sizes.total());
  g_tune = {.read_data = read_data,
            .read_test = read_test,
            .committed = committed,
            .trainer = &g_trainer,
            .storage = {.context = nullptr,
                        .program_bytes = kProgramBytes,
                        .erase_bytes = kEraseBytes,
                        .bytes = uint64_t(semihosting::length(g_flash)),
                        .read = flash_read,
                        .program = flash_program,
                        .erase = flash_erase},
            .learning_rate = float(number(words[4])) * 1e-6f,
            .epochs = number(words[5]),
            .micro_batches = at_least_one(words[6]),
            .save_every = at_least_one(words[7])};
  if (const nacre::Status status = run(); !status.ok()) return refuse(status);
  if (words[8] != nullptr && !write_file(words[8], g_trainer.state())) return complain("cannot write ", words[8]);
  report("stack", stack_use_bytes());
  return 0;
}
