// Runs a fine-tuning from the command line to its report, for any type of learner (finetune.h).
//
//   NAME DATA TEST FLASH LEARNING_RATE_MILLIONTHS EPOCHS MICRO_BATCHES SAVE_EVERY [STATE]
//
// finetune.h describes DATA and TEST; an empty TEST is not run. FLASH is a file of the emulated flash's size. Each
// program or erase goes to it at once, so the machine may stop at any moment and start again with the same file.
// MICRO_BATCHES is their number in a step. SAVE_EVERY is the number of steps between two checkpoints. STATE is the
// file that takes the state block at the end.
#pragma once

#include "firmware/board/instruction_count.h"
#include "firmware/board/stack_use.h"
#include "firmware/images/finetune.h"
#include "firmware/images/host_files.h"

namespace nacre::firmware {

// Reports the first three steps one by one: the cost of a step's micro-batches and its commit.
inline void report_step(uint32_t step, const Trainer::Report& r) {
  const uint32_t now = instructions(read_ticks());
  if (step <= 3) report("instructions_step", now);
  if (step <= 3) report("applied", r.applied ? 1 : 0);
  start_ticks();
}

// Reports the number of right answers over a set of samples; reports nothing if there is no sample.
template <class Learner>
Status report_answers(const FineTune<Learner>& tune, bool (*read)(uint64_t, std::span<std::byte>), const char* right,
                      const char* samples, const char* crc) {
  typename FineTune<Learner>::Evaluation found;
  NACRE_TRY(tune.evaluate(read, &found));
  if (found.samples == 0) return {};
  report(right, found.right);
  report(samples, found.samples);
  report(crc, found.frozen_crc);
  return {};
}

// Trains, and reports the right answers before and after. If the run resumes a checkpoint, an earlier run has reported
// those of the model in flash.
template <class Learner>
Status fine_tune(FineTune<Learner>& tune, bool data_are_samples) {
  NACRE_TRY(tune.resume());
  report("resumed_at", tune.seen);
  if (tune.seen == 0) NACRE_TRY(report_answers(tune, read_test, "right_before", "samples", "frozen_crc_before"));
  start_ticks();
  NACRE_TRY(tune.train());
  const bool tests = read_test(0, tune.learner->sample().first(1));
  if (tests && data_are_samples)
    NACRE_TRY(report_answers(tune, read_data, "right_of_data", "data_samples", "frozen_crc_data"));
  NACRE_TRY(report_answers(tune, read_test, "right_after", "samples", "frozen_crc_test"));
  report("micro_batches", tune.seen);
  report("steps", tune.steps);
  report("refused_steps", tune.refused);
  return {};
}

// Fine-tunes. prepare() makes `learner` ready and reports sizes. Returns the exit status.
template <class Learner>
int fine_tune_main(FineTune<Learner>& tune, Learner& learner, Status (*prepare)(bool* data_are_samples)) {
  static char line[4096];
  if (!semihosting::read_command_line(line)) return 2;
  char* rest = line;
  const char* words[9] = {};
  for (const char*& word : words) word = semihosting::next_word(rest);
  if (words[7] == nullptr)
    return complain("finetune DATA TEST FLASH LEARNING_RATE_MILLIONTHS EPOCHS MICRO_BATCHES SAVE_EVERY [STATE]", "");
  if (!open_files(words[1], words[2], words[3])) return complain("a file cannot be opened", "");
  bool data_are_samples = false;
  if (const Status status = prepare(&data_are_samples); !status.ok()) return refuse(status);
  tune = {.read_data = read_data,
          .read_test = read_test,
          .committed = report_step,
          .learner = &learner,
          .storage = host_flash(),
          .learning_rate = rate_of_millionths(number(words[4])),
          .epochs = number(words[5]),
          .micro_batches = at_least_one(words[6]),
          .save_every = at_least_one(words[7])};
  if (const Status status = fine_tune(tune, data_are_samples); !status.ok()) return refuse(status);
  if (words[8] != nullptr && !write_file(words[8], learner.state())) return complain("cannot write ", words[8]);
  report("stack", stack_use_bytes());
  return 0;
}

}  // namespace nacre::firmware
