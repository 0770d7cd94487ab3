// Tests slots with correct checksums and wrong sizes. Reads are bounded by the size of the storage, and a table that
// does not match the header is refused.
#include <gtest/gtest.h>

#include "engine/train/checkpoint.h"
#include "tests/train/forged_slot.h"
#include "tests/train/state_models.h"

namespace nacre::test {
namespace {

// A storage that offers 2^40 bytes in a slot and holds few, as files do. Bytes beyond them read as erased.
struct Roomy {
  static constexpr uint64_t kSlot = uint64_t{1} << 40;
  std::vector<uint8_t> slots[2];
  uint64_t read = 0;                          // bytes, since it was set to 0
  static constexpr uint64_t kMost = 1 << 20;  // reading fails after so many bytes, so that the test ends

  Storage storage() {
    return {.context = this,
            .program_bytes = 1,
            .erase_bytes = 1u << 31,
            .bytes = 2 * kSlot,
            .read =
                [](void* c, uint64_t at, std::span<std::byte> to) {
                  Roomy& r = of(c);
                  const std::vector<uint8_t>& slot = r.slots[at / kSlot];
                  for (size_t i = 0; i < to.size(); ++i)
                    to[i] = std::byte(at % kSlot + i < slot.size() ? slot[at % kSlot + i] : 0xFF);
                  r.read += to.size();
                  return r.read <= kMost;
                },
            .program =
                [](void* c, uint64_t at, std::span<const std::byte> from) {
                  std::vector<uint8_t>& slot = of(c).slots[at / kSlot];
                  if (slot.size() < at % kSlot + from.size()) slot.resize(at % kSlot + from.size(), 0xFF);
                  std::memcpy(slot.data() + at % kSlot, from.data(), from.size());
                  return true;
                },
            .erase =
                [](void* c, uint64_t at) {
                  of(c).slots[at / kSlot].resize(std::min<size_t>(of(c).slots[at / kSlot].size(), at % kSlot));
                  return true;
                },
            .filled = [](void* c, uint64_t at) { return uint64_t{of(c).slots[at / kSlot].size()}; }};
  }
  static Roomy& of(void* context) { return *static_cast<Roomy*>(context); }
};

class forged : public testing::Test {
 protected:
  forged() {
    EXPECT_TRUE(model.open(file.bytes()).ok());
    EXPECT_TRUE(
        Checkpoint(roomy.storage()).save(model, Buffer(model.region_bytes(Region::kState), std::byte{1}).bytes()).ok());
    good = roomy.slots[0];
  }

  Status load(const ForgedSlot& slot, Checkpoint::Report* report = nullptr) {
    roomy.slots[0].assign(slot.bytes().begin(), slot.bytes().end());
    roomy.read = 0;
    Buffer state(model.region_bytes(Region::kState), std::byte{0});
    return Checkpoint(roomy.storage()).load(model, state.bytes(), report);
  }

  Buffer file = pack(learner(3, "sgd"));
  Model model;
  Roomy roomy;
  std::vector<uint8_t> good;
};

TEST_F(forged, sizes_beyond_what_the_storage_holds_are_not_read) {
  ASSERT_TRUE(load(ForgedSlot(good)).ok());
  const uint64_t whole = roomy.read;
  for (const SlotField& field : {kHeaderFields[5], kHeaderFields[7], kHeaderFields[8]})
    for (const uint64_t value :
         {uint64_t{1} << 31, uint64_t{0xFFFFFFFF}, uint64_t{1} << 39, (uint64_t{1} << 40) - 300, ~uint64_t{0}}) {
      ForgedSlot slot(good);
      slot.set(field.offset, field.bytes, value);
      if (slot.get(field.offset, field.bytes) == 0) continue;  // the low bytes of 2^39
      slot.seal_header();
      EXPECT_EQ(load(slot).code, Code::kCheckpointDamaged) << field.name << " " << value;
      EXPECT_LE(roomy.read, whole) << field.name << " " << value;
      EXPECT_TRUE(Checkpoint(roomy.storage()).save(model, Buffer(model.region_bytes(Region::kState)).bytes()).ok());
      EXPECT_LE(roomy.read, 4 * whole) << field.name << " " << value;
      roomy.slots[0].clear(), roomy.slots[1].clear();
    }
}

TEST_F(forged, a_table_of_another_layout_is_no_checkpoint) {
  int refused = 0;
  for (size_t row = 0; row < ForgedSlot(good).records(); ++row)
    for (const SlotField& field : kRowFields) {
      ForgedSlot slot(good);
      slot.set(slot.row(row) + field.offset, field.bytes, slot.get(slot.row(row) + field.offset, field.bytes) ^ 1);
      slot.seal_payload();
      slot.seal_header();
      EXPECT_EQ(load(slot).code, Code::kCheckpointDamaged) << row << " " << field.name;
      ++refused;
    }
  EXPECT_EQ(refused, 24);
}

// Overlapping rows could make load() read one tensor as often as there are rows.
TEST_F(forged, rows_lie_in_the_state_one_behind_the_other) {
  const uint64_t state = ForgedSlot(good).state_bytes();
  const struct {
    size_t row;
    uint64_t offset, bytes;
    bool fits;
  } cases[] = {
      {0, 0, 12, true},         {1, 0, 12, false},           {1, 11, 12, false},          {3, state, 4, false},
      {3, state - 3, 4, false}, {3, ~uint64_t{0}, 4, false}, {3, 0, ~uint64_t{0}, false}, {0, 0, state + 1, false}};
  for (const auto& c : cases) {
    ForgedSlot slot(good);
    slot.set(slot.row(c.row) + 8, 8, c.offset);
    slot.set(slot.row(c.row) + 16, 8, c.bytes);
    slot.seal_layout();
    slot.seal_payload();
    slot.seal_header();
    EXPECT_EQ(load(slot).ok(), c.fits) << c.row << " " << c.offset << " " << c.bytes;
  }
}

TEST_F(forged, a_checkpoint_says_whether_it_is_of_this_very_model) {
  Checkpoint::Report report;
  ASSERT_TRUE(load(ForgedSlot(good), &report).ok());
  EXPECT_TRUE(report.same_model);
  ForgedSlot slot(good);
  slot.set(32, 8, slot.get(32, 8) ^ 1);
  slot.seal_header();
  ASSERT_TRUE(load(slot, &report).ok()) << "the rule of load stays: what matches is taken";
  EXPECT_FALSE(report.same_model);
  EXPECT_TRUE(report.same_layout);
}

}  // namespace
}  // namespace nacre::test
