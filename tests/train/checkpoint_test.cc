// Tests checkpoints: loads of the newest, into another layout too, and damaged and forged checkpoints.
#include "engine/train/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "engine/base/crc32c.h"
#include "tests/train/flash.h"
#include "tests/train/opened_model.h"
#include "tests/train/state_models.h"

namespace nacre::test {
namespace {

using namespace opened_model;

TEST(checkpoint, newest_of_any_number_of_saves_is_loaded) {
  for (const uint32_t program : {1u, 2u, 16u, 256u}) {
    const Opened m(learner(5, "adam"));
    Flash flash(program, 256, bytes_for(m.model, program, 256, 3));
    Checkpoint checkpoint(flash.storage());
    Buffer state = m.state(0);
    EXPECT_EQ(checkpoint.load(m.model, state.bytes()).code, Code::kNoCheckpoint);
    for (uint8_t i = 1; i <= 5; ++i) {
      const std::byte note[3] = {std::byte(i), std::byte(2), std::byte(3)};
      ASSERT_TRUE(checkpoint.save(m.model, m.state(i).bytes(), {.note = note}).ok());
      Checkpoint::Report report;
      std::byte back[4] = {};
      ASSERT_TRUE(checkpoint.load(m.model, state.bytes(), &report, back).ok());
      EXPECT_TRUE(all_are(state.bytes(), i));
      EXPECT_EQ(std::memcmp(back, note, 3), 0);
      EXPECT_EQ(report.note_bytes, 3u);
      EXPECT_EQ(report.generation, i);
      EXPECT_EQ(report.slot, (i + 1u) % 2);
      EXPECT_TRUE(report.same_layout);
      EXPECT_EQ(report.taken, 4u);
      EXPECT_EQ(report.kept, 0u);
      EXPECT_FALSE(report.pending);
    }
    EXPECT_EQ(flash.violations(), 0u);
  }
}

// Changes the header field at `at` of the slot that starts at `base`, and corrects the header's CRC.
void forge(Flash& flash, uint64_t base, size_t at, uint32_t value) {
  const auto header = flash.bytes().subspan(base, 64);
  std::memcpy(header.data() + at, &value, 4);
  const uint32_t crc = crc32c(std::as_bytes(header.first(60)));
  std::memcpy(header.data() + 60, &crc, 4);
}

TEST(checkpoint, generations_wrap) {
  const Opened m(learner(5, "adam"));
  Flash flash(1, 256, bytes_for(m.model, 1, 256));
  Checkpoint checkpoint(flash.storage());
  ASSERT_TRUE(checkpoint.save(m.model, m.state(1).bytes()).ok());
  // Gives the saved slot the last generation before the counter wraps. The payload's CRC covers the generation, so it
  // is computed again.
  const uint32_t last = 0xFFFFFFFF;
  const auto bytes = std::as_bytes(flash.bytes());
  const uint32_t rows = 4, state_bytes = uint32_t(m.model.region_bytes(Region::kState));
  uint32_t crc = crc32c(std::as_bytes(std::span(&last, 1)));
  crc = crc32c(bytes.subspan(80, rows * 32 + state_bytes), crc);
  forge(flash, 0, 52, crc);
  forge(flash, 0, 8, last);
  Buffer state = m.state(0);
  for (uint8_t i = 2; i <= 4; ++i) {
    Checkpoint::Report report;
    ASSERT_TRUE(checkpoint.load(m.model, state.bytes(), &report).ok());
    EXPECT_TRUE(all_are(state.bytes(), uint8_t(i - 1)));
    EXPECT_EQ(report.generation, last + i - 2);
    ASSERT_TRUE(checkpoint.save(m.model, m.state(i).bytes()).ok());
  }
}

// ---- Another layout ----

TEST(checkpoint, another_optimizer_takes_what_was_learned) {
  const Opened sgd(learner(5, nullptr)), adam(learner(5, "adam"));
  Flash flash(4, 256, bytes_for(adam.model, 4, 256));
  Checkpoint checkpoint(flash.storage());
  ASSERT_TRUE(checkpoint.save(sgd.model, sgd.state(7).bytes()).ok());
  Buffer state = adam.state(1);
  Checkpoint::Report report;
  ASSERT_TRUE(checkpoint.load(adam.model, state.bytes(), &report).ok());
  EXPECT_FALSE(report.same_layout);
  EXPECT_EQ(report.taken, 2u);
  EXPECT_EQ(report.kept, 2u);
  EXPECT_TRUE(all_are(adam.of(state, 0), 7)) << "the parameter";
  EXPECT_TRUE(all_are(adam.of(state, 1), 7)) << "what infer reads";
  EXPECT_TRUE(all_are(adam.of(state, 2), 1)) << "the moment is as it was started";
  EXPECT_TRUE(all_are(adam.of(state, 3), 1));
  // Loads in the other direction.
  ASSERT_TRUE(checkpoint.save(adam.model, adam.state(9).bytes()).ok());
  state = sgd.state(2);
  ASSERT_TRUE(checkpoint.load(sgd.model, state.bytes(), &report).ok());
  EXPECT_EQ(report.taken, 2u);
  EXPECT_EQ(report.kept, 0u);
  EXPECT_TRUE(all_are(sgd.of(state, 0), 9));
}

TEST(checkpoint, an_optimizers_own_are_taken_together_or_not_at_all) {
  // The optimizer's moment has another type here. Its step count fits, but is not taken without the moment.
  const Opened narrow(learner(5, "adam", ElementType::kBfloat16)), wide(learner(5, "adam"));
  Flash flash(4, 256, bytes_for(wide.model, 4, 256));
  Checkpoint checkpoint(flash.storage());
  ASSERT_TRUE(checkpoint.save(narrow.model, narrow.state(7).bytes()).ok());
  Buffer state = wide.state(1);
  Checkpoint::Report report;
  ASSERT_TRUE(checkpoint.load(wide.model, state.bytes(), &report).ok());
  EXPECT_EQ(report.taken, 2u);
  EXPECT_EQ(report.kept, 2u);
  EXPECT_TRUE(all_are(wide.of(state, 3), 1)) << "a count without its moments";
  // All of the optimizer's tensors fit and are taken, although their offsets in the block differ.
  Draft shifted = learner(5, "adam");
  shifted.region_bytes[0] += 64;
  for (uint32_t id = 0; id < 4; ++id) shifted.tensors[id].offset += 64;
  const Opened moved(shifted);
  Flash larger(4, 512, bytes_for(moved.model, 4, 512));
  ASSERT_TRUE(Checkpoint(larger.storage()).save(wide.model, wide.state(5).bytes()).ok());
  state = moved.state(1);
  ASSERT_TRUE(Checkpoint(larger.storage()).load(moved.model, state.bytes(), &report).ok());
  EXPECT_FALSE(report.same_layout);
  EXPECT_EQ(report.taken, 4u);
  EXPECT_TRUE(all_are(state.bytes().first(64), 1)) << "what has no record";
  for (uint32_t id = 0; id < 4; ++id) EXPECT_TRUE(all_are(moved.of(state, id), 5)) << id;
}

TEST(checkpoint, of_another_model_is_refused_and_the_state_untouched) {
  const Opened mine(learner(5, "adam")), renamed(learner(5, "adam", ElementType::kFloat32, "v")),
      larger(learner(6, "adam"));
  for (const Opened* other : {&renamed, &larger}) {
    Flash flash(4, 512, bytes_for(larger.model, 4, 512));
    ASSERT_TRUE(Checkpoint(flash.storage()).save(other->model, other->state(7).bytes()).ok());
    Buffer state = mine.state(1);
    const Status s = Checkpoint(flash.storage()).load(mine.model, state.bytes());
    EXPECT_EQ(s.code, Code::kCheckpointModel);
    EXPECT_EQ(s.table, Table::kCheckpoint);
    EXPECT_TRUE(all_are(state.bytes(), 1));
  }
}

TEST(checkpoint, without_names_only_the_same_layout_is_taken) {
  Draft nameless = learner(5, "adam"), other = learner(5, nullptr);
  nameless.tensor_names.clear(), other.tensor_names.clear();
  const Opened a(nameless), b(other);
  Flash flash(1, 512, bytes_for(a.model, 1, 512));
  ASSERT_TRUE(Checkpoint(flash.storage()).save(a.model, a.state(3).bytes()).ok());
  Buffer state = a.state(0), less = b.state(0);
  EXPECT_TRUE(Checkpoint(flash.storage()).load(a.model, state.bytes()).ok());
  EXPECT_TRUE(all_are(state.bytes(), 3));
  EXPECT_EQ(Checkpoint(flash.storage()).load(b.model, less.bytes()).code, Code::kCheckpointModel);
  EXPECT_TRUE(all_are(less.bytes(), 0));
}

// ---- Damage ----

TEST(checkpoint, a_damaged_byte_anywhere_gives_the_one_before_and_two_give_one_error) {
  const Opened m(learner(3, "sgd"));
  const uint64_t slot = bytes_for(m.model, 1, 64) / 2;
  Flash flash(1, 64, 2 * slot);
  Checkpoint checkpoint(flash.storage());
  ASSERT_TRUE(checkpoint.save(m.model, m.state(1).bytes()).ok());
  ASSERT_TRUE(checkpoint.save(m.model, m.state(2).bytes()).ok());
  const uint64_t payload = 80 + 4 * 32 + m.model.region_bytes(Region::kState);
  for (uint64_t at = 0; at < payload; ++at) {
    if (at >= 64 && at < 80) continue;  // the mark means nothing if the checkpoint is not pending
    flash.bytes()[slot + at] ^= 0x10;
    Buffer state = m.state(0);
    ASSERT_TRUE(checkpoint.load(m.model, state.bytes()).ok()) << at;
    ASSERT_TRUE(all_are(state.bytes(), 1)) << at;
    flash.bytes()[at] ^= 0x10;
    state = m.state(9);
    ASSERT_EQ(checkpoint.load(m.model, state.bytes()).code, Code::kCheckpointDamaged) << at;
    ASSERT_TRUE(all_are(state.bytes(), 9)) << "untouched";
    flash.bytes()[at] ^= 0x10, flash.bytes()[slot + at] ^= 0x10;
  }
  // After two damages a checkpoint can still be saved.
  flash.bytes()[0] ^= 1, flash.bytes()[slot] ^= 1;
  ASSERT_TRUE(checkpoint.save(m.model, m.state(3).bytes()).ok());
  Buffer state = m.state(0);
  ASSERT_TRUE(checkpoint.load(m.model, state.bytes()).ok());
  EXPECT_TRUE(all_are(state.bytes(), 3));
}

// Slots hold random bytes with correct CRCs. Their sizes and offsets must not be trusted. Blocks have their exact
// size, so that ASan sees accesses outside.
TEST(checkpoint, forged_headers_and_tables_stay_inside_the_storage_and_the_state) {
  const Opened saved(learner(3, "sgd")), loaded(learner(3, nullptr));
  const uint64_t slot = bytes_for(saved.model, 1, 64) / 2;
  std::mt19937 random(1);
  int refused = 0, taken = 0;
  for (int round = 0; round < 4000; ++round) {
    Flash flash(1, 64, 2 * slot);
    ASSERT_TRUE(Checkpoint(flash.storage()).save(saved.model, saved.state(1).bytes()).ok());
    const auto bytes = flash.bytes();
    const size_t at = random() % 2 == 0 ? 4 + random() % 12 * 4 : 80 + random() % 32 * 4;
    const uint32_t values[] = {
        0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, uint32_t(slot), uint32_t(random()), uint32_t(random() % 256)};
    std::memcpy(bytes.data() + at, &values[random() % 8], 4);
    const auto get = [&](size_t from) {
      uint32_t v;
      std::memcpy(&v, bytes.data() + from, 4);
      return uint64_t{v};
    };
    // The payload as the header now describes it gets a correct CRC, if it is inside the slot.
    const uint64_t length = get(40) * 32 + get(24) + get(44);
    if (get(28) == 0 && length < slot - 80) {
      const uint32_t crc = crc32c(std::as_bytes(bytes.subspan(80, length)), crc32c(std::as_bytes(bytes.subspan(8, 4))));
      std::memcpy(bytes.data() + 52, &crc, 4);
    }
    forge(flash, 0, 56, uint32_t(get(56)));
    for (const Opened* m : {&saved, &loaded}) {
      Buffer state = m->state(0);
      std::byte note[8];
      const bool ok = Checkpoint(flash.storage()).load(m->model, state.bytes(), nullptr, note).ok();
      ++(ok ? taken : refused);
      ASSERT_EQ(flash.violations(), 0u) << "read outside the storage";
    }
    ASSERT_TRUE(Checkpoint(flash.storage()).save(saved.model, saved.state(2).bytes()).ok());
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(taken, 500);
}

}  // namespace
}  // namespace nacre::test
