// Position of a training: the part of a checkpoint beside the model's state. It is the checkpoint's note, so that
// both are saved as one.
//
//   note = header, epoch records, options
//
// A note is little-endian and versioned, and is checked when it is read: a note of another program, or of other
// options, is one Error that says so.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/tuner/history.h"
#include "tools/tuner/objective.h"

namespace nacre::tools {

struct TunePosition {
  uint32_t epoch = 0, step = 0;  // the next to run, from 0; step within the epoch
  uint32_t applied = 0;          // steps of the whole run that counted: what the schedule is a function of
  uint32_t refused_in_row = 0;
  uint32_t epoch_steps = 0, epoch_refused = 0;  // of the epoch that is under way
  float learning_rate = 0, loss_scale = 1;      // of its last step
  Judged judged;                                // over its samples so far
  std::vector<EpochRecord> epochs;              // those that are over
};

// `options`: lines "name value" of all that decides what a run computes.
std::vector<std::byte> note_of(const TunePosition& position, const std::string& options);

// A note as it was left.
struct NotedPosition {
  TunePosition position;
  std::string options;
  bool records_best = true;  // its training records in best/ which epoch that is of; earlier versions did not
};

// Nothing where it was not left by nacre tune.
std::optional<NotedPosition> noted_position(std::span<const std::byte> note);

// Throws where the note was left by a run with other options, naming the first that differs.
NotedPosition position_of(std::span<const std::byte> note, const std::string& options, const std::string& place);

// Whether a training that is at `later` was at `earlier` before, or is there: its epochs begin with those.
bool goes_on_from(const TunePosition& later, const TunePosition& earlier);

// "--lr 0.1, now --lr 0.2" of the first lines that differ.
std::string options_difference(const std::string& before, const std::string& now);

// "epoch 3", "epoch 4 up to step 2"; "" of a note that nacre tune did not leave.
std::string where_text(std::span<const std::byte> note);

}  // namespace nacre::tools
