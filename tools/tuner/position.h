// The position of a training: the part of a checkpoint besides the model's state. It is stored as the checkpoint's
// note, so that both are saved together.
//
//   note = header, epoch records, options
//
// A note is little-endian and versioned, and is checked when it is read. A note of another program or with other
// options gives one Error that says so.
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
  uint32_t epoch = 0, step = 0;  // the next to run, from 0; `step` counts within the epoch
  uint32_t applied = 0;          // applied steps of the whole run, from which the schedule computes the rate
  uint32_t refused_in_row = 0;
  uint32_t epoch_steps = 0, epoch_refused = 0;  // of the current epoch
  float learning_rate = 0, loss_scale = 1;      // at the current epoch's last step
  Judged judged;                                // over the current epoch's samples so far
  std::vector<EpochRecord> epochs;              // epochs that have ended
};

// Makes a note. `options`: lines "name value" of everything that decides what a run computes.
std::vector<std::byte> note_of(const TunePosition& position, const std::string& options);

// A note as it was read.
struct NotedPosition {
  TunePosition position;
  std::string options;
  bool records_best = true;  // best/ has notes that say which epoch it holds; earlier versions wrote none
};

// Reads a note. Returns nothing if nacre tune did not write it.
std::optional<NotedPosition> noted_position(std::span<const std::byte> note);

// Reads a note. Throws Error if nacre tune did not write it, or with other options: it names the first that differs.
NotedPosition position_of(std::span<const std::byte> note, const std::string& options, const std::string& place);

// Returns whether a training at `later` has passed `earlier` or is there: its epochs begin with the same epochs.
bool goes_on_from(const TunePosition& later, const TunePosition& earlier);

// Returns "--lr 0.1, now --lr 0.2" for the first lines that differ.
std::string options_difference(const std::string& before, const std::string& now);

// Returns "epoch 3" or "epoch 4 up to step 2"; "" if nacre tune did not write the note.
std::string where_text(std::span<const std::byte> note);

}  // namespace nacre::tools
