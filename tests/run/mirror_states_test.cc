// Tests the states of a device's copies (mirrors) of memory blocks: every transition, and the bits that they represent.
#include "engine/run/mirror.h"

#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <tuple>

namespace nacre::test {
namespace {

constexpr MirrorState kOlder = MirrorState::kOlder, kZeros = MirrorState::kZeros;
constexpr MirrorState kCurrent = MirrorState::kCurrent, kAhead = MirrorState::kAhead;
constexpr MirrorState kMirrorStates[] = {kOlder, kZeros, kCurrent, kAhead};

TEST(mirror_states, every_state_at_every_transition_is_of_the_table) {
  const struct {
    MirrorState from;
    bool readable;
    MirrorState brought, brought_home, undone, state_undone;
  } rows[] = {
      {kOlder, false, kCurrent, kOlder, kOlder, kOlder},
      {kZeros, false, kCurrent, kZeros, kZeros, kZeros},
      {kCurrent, true, kCurrent, kCurrent, kCurrent, kOlder},
      {kAhead, true, kAhead, kCurrent, kAhead, kAhead},
  };
  size_t i = 0;
  for (const auto& row : rows) {
    ASSERT_EQ(row.from, kMirrorStates[i++]);
    EXPECT_EQ(is_readable(row.from), row.readable);
    EXPECT_EQ(brought(row.from), row.brought);
    EXPECT_EQ(brought_home(row.from), row.brought_home);
    EXPECT_EQ(undone(row.from, false), row.undone);
    EXPECT_EQ(undone(row.from, true), row.state_undone);
  }
  EXPECT_EQ(i, std::size(kMirrorStates));
  EXPECT_EQ(host_wrote(false), kOlder);
  EXPECT_EQ(host_wrote(true), kZeros);
  EXPECT_EQ(place_wrote(), kAhead);
  EXPECT_EQ(MirrorState(), kOlder) << "what bind and Places::give begin with";
}

TEST(mirror_states, every_copy_of_the_state_at_every_transition_is_of_the_table) {
  constexpr StateCopy kNone = StateCopy::kNone, kUnderway = StateCopy::kUnderway, kWhole = StateCopy::kWhole;
  const struct {
    StateCopy from, ended, failed;
  } rows[] = {{kNone, kNone, kNone}, {kUnderway, kWhole, kNone}, {kWhole, kWhole, kWhole}};
  for (const auto& row : rows) {
    EXPECT_EQ(run_ended(row.from, true), row.ended);
    EXPECT_EQ(run_ended(row.from, false), row.failed);
  }
  EXPECT_EQ(copy_began(), kUnderway);
  EXPECT_EQ(state_wrote(), kNone);
  EXPECT_EQ(state_put_back(), kWhole);
  EXPECT_EQ(StateCopy(), kNone);
}

// ---- The bits ----

// The bits say: the mirror is no older than the host's block; it is newer; the host's block was all zeros when the
// host wrote it.
struct MirrorBits {
  bool current = false, ahead = false, zeroed = false;
  bool operator<(const MirrorBits& b) const {
    return std::tie(current, ahead, zeroed) < std::tie(b.current, b.ahead, b.zeroed);
  }
};

MirrorState state_of(const MirrorBits& b) {
  if (b.ahead) return kAhead;
  if (b.current) return kCurrent;
  return b.zeroed ? kZeros : kOlder;
}

// Each event changes the bits, and is a named transition of the state.
struct MirrorEvent {
  const char* name;
  bool of_run;  // happens during a run; the others happen between runs
  MirrorBits (*bits)(MirrorBits);
  MirrorState (*state)(MirrorState);
};

constexpr MirrorEvent kMirrorEvents[] = {
    {"the host wrote zeros", false, [](MirrorBits) { return MirrorBits{false, false, true}; },
     [](MirrorState) { return host_wrote(true); }},
    {"the host wrote", false, [](MirrorBits) { return MirrorBits{false, false, false}; },
     [](MirrorState) { return host_wrote(false); }},
    {"brought", true, [](MirrorBits b) { return MirrorBits{true, b.ahead, b.zeroed}; },
     [](MirrorState s) { return brought(s); }},
    {"the place wrote", true, [](MirrorBits b) { return MirrorBits{true, true, b.zeroed}; },
     [](MirrorState) { return place_wrote(); }},
    {"brought home", false, [](MirrorBits b) { return MirrorBits{b.current, false, b.zeroed}; },
     [](MirrorState s) { return brought_home(s); }},
};

// A failed run restores the first two bits. For a learned state the first one is restored only if the second was set.
MirrorBits undone_bits(MirrorBits before, MirrorBits now, bool learned) {
  return {before.current && (!learned || before.ahead), before.ahead, now.zeroed};
}

// Returns the bits that events of a run can lead to, these included.
std::set<MirrorBits> bits_of_run(MirrorBits before) {
  std::set<MirrorBits> reached = {before};
  for (size_t seen = 0; seen != reached.size();) {
    seen = reached.size();
    for (const MirrorBits b : std::set<MirrorBits>(reached))
      for (const MirrorEvent& event : kMirrorEvents)
        if (event.of_run) reached.insert(event.bits(b));
  }
  return reached;
}

// Returns all bits that occur. The host never declares a learned state to be zeros.
std::set<MirrorBits> all_bits(bool learned) {
  std::set<MirrorBits> reached = {MirrorBits()};
  for (size_t seen = 0; seen != reached.size();) {
    seen = reached.size();
    for (const MirrorBits b : std::set<MirrorBits>(reached)) {
      for (const MirrorEvent& event : kMirrorEvents)
        if (!learned || &event != &kMirrorEvents[0]) reached.insert(event.bits(b));
      for (const MirrorBits now : bits_of_run(b)) reached.insert(undone_bits(b, now, learned));
    }
  }
  return reached;
}

TEST(mirror_states, the_states_are_what_the_bits_said) {
  for (const bool learned : {false, true}) {
    const std::set<MirrorBits> bits = all_bits(learned);
    EXPECT_EQ(bits.size(), learned ? 3u : 6u);  // of eight: what is ahead is current
    std::set<MirrorState> states;
    for (const MirrorBits b : bits) {
      EXPECT_TRUE(b.current || !b.ahead);
      states.insert(state_of(b));
      EXPECT_EQ(is_readable(state_of(b)), b.current);
      EXPECT_EQ(state_of(b) == kAhead, b.ahead);
      if (!b.current) {
        EXPECT_EQ(state_of(b) == kZeros, b.zeroed);
      }
      for (const MirrorEvent& event : kMirrorEvents)
        EXPECT_EQ(state_of(event.bits(b)), event.state(state_of(b))) << event.name;
      for (const MirrorBits now : bits_of_run(b))
        EXPECT_EQ(state_of(undone_bits(b, now, learned)), undone(state_of(b), learned));
    }
    EXPECT_EQ(states.size(), learned ? 3u : std::size(kMirrorStates));
  }
}

}  // namespace
}  // namespace nacre::test
