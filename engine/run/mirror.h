// Mirrors are copies of the host's blocks that a place, a port with memory of its own, keeps (Places::keep, places.h).
// A state says whether the mirror or the host's block is newer. Each function below is a transition: its name is the
// event, its result the state after the event.
//
//            host_wrote(true)                   host_wrote(false), bind
//      kZeros <----------------- any state -----------------> kOlder
//        |                                                      |
//        +------ brought ------> kCurrent <------ brought ------+
//                                 |    ^
//                     place_wrote |    | brought_home
//                                 v    |
//                                 kAhead
//
// A run that fails is undone: each mirror has again the state that it had before the run. The exception is a learned
// state that was kCurrent. The run may have written that mirror, and the host's copy is put back: the mirror is kOlder.
//
// A place has a second block: a copy of a learned state that is kAhead. A run that only reads the state fills this
// block; else the update fills it first. A failed update is undone from it (StateCopy):
//
//      kNone ---- copy_began ----> kUnderway ---- run_ended(true) ----> kWhole
//        ^                             |                                  |
//        +------ run_ended(false) -----+                                  |
//        +------------------------------ state_wrote ---------------------+
//
// An update that succeeds leads to kNone, an update that fails to kWhole (state_put_back).
#pragma once

#include <cstdint>

namespace nacre {

enum class MirrorState : uint8_t {
  kOlder,    // the host's block is newer
  kZeros,    // the same, and the host's block is all zeros
  kCurrent,  // mirror and host's block are equal
  kAhead,    // the mirror is newer
};

// Returns whether the place may read its mirror.
constexpr bool is_readable(MirrorState s) { return s == MirrorState::kCurrent || s == MirrorState::kAhead; }

constexpr MirrorState host_wrote(bool zeros) { return zeros ? MirrorState::kZeros : MirrorState::kOlder; }

constexpr MirrorState brought(MirrorState s) { return is_readable(s) ? s : MirrorState::kCurrent; }

// A program wrote a part of the block in the place's memory. The rest of the mirror was brought there before.
constexpr MirrorState place_wrote() { return MirrorState::kAhead; }

constexpr MirrorState brought_home(MirrorState s) { return s == MirrorState::kAhead ? MirrorState::kCurrent : s; }

// `before`: the state when the run began. `learned`: the block is the state that training learns.
constexpr MirrorState undone(MirrorState before, bool learned) {
  return learned && before == MirrorState::kCurrent ? MirrorState::kOlder : before;
}

// State of the second block as a copy of the state's mirror.
enum class StateCopy : uint8_t { kNone, kUnderway, kWhole };

constexpr StateCopy copy_began() { return StateCopy::kUnderway; }

// The end of a run that does not write the state.
constexpr StateCopy run_ended(StateCopy c, bool ok) {
  if (c != StateCopy::kUnderway) return c;
  return ok ? StateCopy::kWhole : StateCopy::kNone;
}

// An update succeeded.
constexpr StateCopy state_wrote() { return StateCopy::kNone; }

// The copy was copied back to the mirror.
constexpr StateCopy state_put_back() { return StateCopy::kWhole; }

}  // namespace nacre
