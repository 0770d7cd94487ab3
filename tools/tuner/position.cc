#include "tools/tuner/position.h"

#include <fmt/format.h>

#include <cstring>
#include <sstream>
#include <type_traits>

#include "tools/base/error.h"
#include "tools/base/option_id.h"

namespace nacre::tools {
namespace {

constexpr char kNoteMagic[4] = {'N', 'T', 'U', 'N'};
constexpr uint32_t kNoteVersion = 2, kVersionWithoutBest = 1;  // with version 1, best/ has no notes

struct NoteHeader {
  char magic[4];
  uint32_t version;
  uint32_t epoch, step, applied, refused_in_row, epoch_steps, epoch_refused;
  float learning_rate, loss_scale;
  double loss, samples;
  uint64_t right, answers;
  uint32_t epochs, options_bytes;
};
static_assert(sizeof(NoteHeader) == 80 && std::is_trivially_copyable_v<NoteHeader>);

struct NoteEpoch {
  uint32_t epoch, steps, refused;
  float learning_rate, loss_scale;
  uint32_t reserved;
  double train_loss, train_accuracy, validate_loss, validate_accuracy;
};
static_assert(sizeof(NoteEpoch) == 56 && std::is_trivially_copyable_v<NoteEpoch>);

template <class T>
void append(std::vector<std::byte>& note, const T& value) {
  note.resize(note.size() + sizeof value);
  std::memcpy(note.data() + note.size() - sizeof value, &value, sizeof value);
}

template <class T>
T take(std::span<const std::byte>& note) {
  T value;
  std::memcpy(&value, note.data(), sizeof value);
  note = note.subspan(sizeof value);
  return value;
}

NoteEpoch noted_epoch(const EpochRecord& e) {
  return {.epoch = e.epoch,
          .steps = e.steps,
          .refused = e.refused,
          .learning_rate = e.learning_rate,
          .loss_scale = e.loss_scale,
          .reserved = 0,
          .train_loss = e.train_loss,
          .train_accuracy = e.train_accuracy,
          .validate_loss = e.validate_loss,
          .validate_accuracy = e.validate_accuracy};
}

// Takes the note apart. Returns "" or the reason why it is not valid.
std::string read_note(std::span<const std::byte> note, NotedPosition* noted) {
  constexpr const char* kNotTune =
      "its checkpoint was not left by nacre tune: it does not say where the training stood";
  if (note.size() < sizeof(NoteHeader)) return kNotTune;
  const auto h = take<NoteHeader>(note);
  if (std::memcmp(h.magic, kNoteMagic, sizeof h.magic) != 0) return kNotTune;
  if (h.version != kNoteVersion && h.version != kVersionWithoutBest)
    return fmt::format("its checkpoint is of version {}, known is {}", h.version, kNoteVersion);
  if (h.epochs != h.epoch)
    return fmt::format("its checkpoint stands in epoch {}, after {} that are over", h.epoch + uint64_t{1}, h.epochs);
  if (note.size() != h.epochs * uint64_t{sizeof(NoteEpoch)} + h.options_bytes)
    return "what its checkpoint says of the training has another length than it promises";
  TunePosition& p = noted->position;
  p = {.epoch = h.epoch,
       .step = h.step,
       .applied = h.applied,
       .refused_in_row = h.refused_in_row,
       .epoch_steps = h.epoch_steps,
       .epoch_refused = h.epoch_refused,
       .learning_rate = h.learning_rate,
       .loss_scale = h.loss_scale,
       .judged = {.loss = h.loss, .samples = h.samples, .right = h.right, .answers = h.answers},
       .epochs = {}};
  for (uint32_t i = 0; i < h.epochs; ++i) {
    const auto e = take<NoteEpoch>(note);
    p.epochs.push_back({.epoch = e.epoch,
                        .steps = e.steps,
                        .refused = e.refused,
                        .learning_rate = e.learning_rate,
                        .loss_scale = e.loss_scale,
                        .train_loss = e.train_loss,
                        .train_accuracy = e.train_accuracy,
                        .validate_loss = e.validate_loss,
                        .validate_accuracy = e.validate_accuracy});
  }
  noted->options.assign(reinterpret_cast<const char*>(note.data()), note.size());
  noted->records_best = h.version != kVersionWithoutBest;
  return "";
}

}  // namespace

std::string options_difference(const std::string& before, const std::string& now) {
  std::istringstream a(before), b(now);
  for (std::string x, y;;) {
    const bool more_a = bool(std::getline(a, x)), more_b = bool(std::getline(b, y));
    if (!more_a && !more_b) return "another set of options";
    if (!more_a || !more_b || x != y) return fmt::format("{}, now {}", more_a ? x : "nothing", more_b ? y : "nothing");
  }
}

std::vector<std::byte> note_of(const TunePosition& p, const std::string& options) {
  NoteHeader h = {};
  std::memcpy(h.magic, kNoteMagic, sizeof h.magic);
  h.version = kNoteVersion;
  h.epoch = p.epoch, h.step = p.step, h.applied = p.applied, h.refused_in_row = p.refused_in_row;
  h.epoch_steps = p.epoch_steps, h.epoch_refused = p.epoch_refused;
  h.learning_rate = p.learning_rate, h.loss_scale = p.loss_scale;
  h.loss = p.judged.loss, h.samples = p.judged.samples, h.right = p.judged.right, h.answers = p.judged.answers;
  h.epochs = uint32_t(p.epochs.size());
  h.options_bytes = uint32_t(options.size());
  std::vector<std::byte> note;
  append(note, h);
  for (const EpochRecord& e : p.epochs) append(note, noted_epoch(e));
  for (const char c : options) note.push_back(std::byte(c));
  return note;
}

std::optional<NotedPosition> noted_position(std::span<const std::byte> note) {
  NotedPosition noted;
  if (!read_note(note, &noted).empty()) return std::nullopt;
  return noted;
}

NotedPosition position_of(std::span<const std::byte> note, const std::string& options, const std::string& place) {
  NotedPosition noted;
  if (const std::string why = read_note(note, &noted); !why.empty())
    throw Error(kBadInput, place, why,
                "name another " + option("checkpoint") + " directory, or begin anew with " + option("restart"));
  if (noted.options != options)
    throw Error(kUsage, place,
                "holds the checkpoint of another training: " + options_difference(noted.options, options),
                "give the same options to go on with it, name another " + option("checkpoint") +
                    " directory, or begin anew with " + option("restart"));
  return noted;
}

// Compares bits, because a loss may be NaN.
bool goes_on_from(const TunePosition& later, const TunePosition& earlier) {
  if (later.epochs.size() < earlier.epochs.size()) return false;
  for (size_t i = 0; i < earlier.epochs.size(); ++i) {
    const NoteEpoch a = noted_epoch(later.epochs[i]), b = noted_epoch(earlier.epochs[i]);
    if (std::memcmp(&a, &b, sizeof a) != 0) return false;
  }
  return true;
}

std::string where_text(std::span<const std::byte> note) {
  const std::optional<NotedPosition> noted = noted_position(note);
  if (!noted) return "";
  const TunePosition& p = noted->position;
  if (p.step == 0) return fmt::format("epoch {}", p.epoch);
  return fmt::format("epoch {} up to step {}", p.epoch + uint64_t{1}, p.step);
}

}  // namespace nacre::tools
