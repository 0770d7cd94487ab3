// Tests checkpoints on a storage that fails, reads back other bytes or has the wrong sizes.
#include <gtest/gtest.h>

#include <span>
#include <utility>

#include "engine/train/checkpoint.h"
#include "tests/train/flash.h"
#include "tests/train/opened_model.h"
#include "tests/train/state_models.h"

namespace nacre::test {
namespace {

using namespace opened_model;

struct Failing {
  Flash flash;
  int reads = -1, programs = -1, erases = -1;       // how many succeed before one fails; -1: all
  enum { kNone, kPayload, kHeader } flips = kNone;  // in which part one bit is written wrong

  Storage storage() {
    Storage s = flash.storage();
    s.context = this;
    s.read = [](void* c, uint64_t at, std::span<std::byte> to) {
      return of(c).count(of(c).reads) && of(c).flash.read(at, to);
    };
    s.program = [](void* c, uint64_t at, std::span<const std::byte> from) {
      if (!of(c).count(of(c).programs)) return false;
      const bool done = of(c).flash.program(at, from);
      const bool header = at % of(c).flash.slot_bytes() == 0;
      if (of(c).flips == (header ? kHeader : kPayload)) of(c).flash.bytes()[at] ^= 1;
      return done;
    };
    s.erase = [](void* c, uint64_t at) { return of(c).count(of(c).erases) && of(c).flash.erase(at); };
    return s;
  }
  static Failing& of(void* context) { return *static_cast<Failing*>(context); }
  static bool count(int& left) { return left < 0 || left-- > 0; }
};

TEST(checkpoint, a_storage_that_fails_keeps_the_checkpoint_before) {
  const Opened m(learner(3, "sgd"));
  const uint64_t bytes = bytes_for(m.model, 1, 64);
  for (int kind = 0; kind < 3; ++kind)
    for (int good = 0; good < 40; ++good) {
      Failing f{.flash = Flash(1, 64, bytes)};
      ASSERT_TRUE(Checkpoint(f.flash.storage()).save(m.model, m.state(1).bytes()).ok());
      (kind == 0 ? f.reads : kind == 1 ? f.programs : f.erases) = good;
      const Status s = Checkpoint(f.storage()).save(m.model, m.state(2).bytes());
      Buffer state = m.state(0);
      ASSERT_TRUE(Checkpoint(f.flash.storage()).load(m.model, state.bytes()).ok());
      // A header that was programmed but could not be read back is in the storage all the same.
      const bool fresh = all_are(state.bytes(), 2);
      ASSERT_TRUE(s.ok() ? fresh : all_are(state.bytes(), 1) || (kind == 0 && fresh)) << kind << " " << good;
      ASSERT_TRUE(s.ok() || s.code == Code::kStorageFailed || s.code == Code::kReadBack) << int(s.code);
      ASSERT_TRUE(kind == 0 || s.ok() == (good >= (kind == 1 ? 3 : 5))) << kind << " " << good;
    }
}

// Slot 1 holds checkpoint 2, and slot 0 is free. If a save could not read slot 1, it would start again in slot 0 with
// a generation before checkpoint 2's.
TEST(checkpoint, one_read_that_fails_loses_no_save) {
  const Opened m(learner(3, "sgd"));
  Failing f{.flash = Flash(1, 64, bytes_for(m.model, 1, 64))};
  for (uint8_t i = 1; i <= 3; ++i) ASSERT_TRUE(Checkpoint(f.storage()).save(m.model, m.state(i).bytes()).ok());
  ASSERT_TRUE(Checkpoint(f.storage()).revert().ok());
  const Flash before = f.flash;
  int refused = 0;
  for (int good = 0; f.reads < 0; ++good) {
    f.flash = before;
    f.reads = good;
    const Status s = Checkpoint(f.storage()).save(m.model, m.state(4).bytes());
    Buffer state = m.state(0);
    ASSERT_TRUE(Checkpoint(f.flash.storage()).load(m.model, state.bytes()).ok()) << good;
    // A header that was programmed but could not be read back is in the storage all the same.
    EXPECT_TRUE(all_are(state.bytes(), 4) || (!s.ok() && all_are(state.bytes(), 2))) << good << " " << int(s.code);
    EXPECT_TRUE(s.ok() || s.code == Code::kStorageFailed) << good << " " << int(s.code);
    refused += !s.ok();
  }
  EXPECT_GE(refused, 4) << "table and state, then what was programmed";
}

TEST(checkpoint, what_reads_back_differently_was_not_saved) {
  const Opened m(learner(3, "sgd"));
  for (const auto part : {Failing::kPayload, Failing::kHeader}) {
    Failing f{.flash = Flash(1, 64, bytes_for(m.model, 1, 64))};
    ASSERT_TRUE(Checkpoint(f.storage()).save(m.model, m.state(1).bytes()).ok());
    f.flips = part;
    EXPECT_EQ(Checkpoint(f.storage()).save(m.model, m.state(2).bytes()).code, Code::kReadBack) << part;
    Buffer state = m.state(0);
    ASSERT_TRUE(Checkpoint(f.storage()).load(m.model, state.bytes()).ok());
    EXPECT_TRUE(all_are(state.bytes(), 1)) << part;
  }
}

TEST(checkpoint, sizes_are_checked) {
  const Opened m(learner(3, "sgd"));
  const uint64_t bytes = bytes_for(m.model, 1, 64);
  EXPECT_EQ(bytes, 2 * 320u) << "80 of header and mark, 4 rows of 32, 64 of state, whole sectors";
  Flash exact(1, 64, bytes), small(1, 64, bytes - 1);
  EXPECT_TRUE(Checkpoint(exact.storage()).save(m.model, m.state(1).bytes()).ok());
  const Status s = Checkpoint(small.storage()).save(m.model, m.state(1).bytes());
  EXPECT_EQ(s.code, Code::kStorageSize);
  EXPECT_EQ(s.needed, bytes);
  EXPECT_EQ(s.given, bytes - 1);
  Buffer state = m.state(1);
  EXPECT_EQ(Checkpoint(exact.storage()).save(m.model, state.bytes().first(state.size() - 1)).code, Code::kMemorySize);
  EXPECT_EQ(Checkpoint(exact.storage()).load(m.model, state.bytes().first(state.size() - 1)).code, Code::kMemorySize);
  Model closed;
  EXPECT_EQ(Checkpoint(exact.storage()).save(closed, state.bytes()).code, Code::kNotBound);
  EXPECT_EQ(Checkpoint(exact.storage()).load(closed, state.bytes()).code, Code::kNotBound);
  for (const auto& [program, erase] : {std::pair{0u, 64u}, {3u, 64u}, {512u, 1024u}, {16u, 8u}, {1u, 48u}, {1u, 0u}}) {
    Storage bad = exact.storage();
    bad.program_bytes = program, bad.erase_bytes = erase;
    EXPECT_EQ(Checkpoint(bad).save(m.model, state.bytes()).code, Code::kStorageGranule) << program << " " << erase;
    EXPECT_EQ(Checkpoint(bad).load(m.model, state.bytes()).code, Code::kStorageGranule) << program << " " << erase;
  }
  EXPECT_EQ(Checkpoint(Storage{}).load(m.model, state.bytes()).code, Code::kStorageFailed) << "no functions";
}

}  // namespace
}  // namespace nacre::test
