// Tests ModelSlots on a simulated flash. Wherever an update is cut off, a whole file is found, the old one or the new
// one.
#include "engine/model/model_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/model/model.h"
#include "engine/nacre_c.h"
#include "tests/model/builder.h"
#include "tests/train/flash.h"

namespace nacre::test {
namespace {

std::vector<std::byte> file_of(size_t bytes, uint32_t seed) {
  std::vector<std::byte> file(bytes);
  for (std::byte& b : file) seed = seed * 1664525 + 1013904223, b = std::byte(seed >> 24);
  return file;
}

// Writes the file in parts of different sizes, as a radio delivers it.
Status update(ModelSlots& slots, uint32_t keep, std::span<const std::byte> file) {
  if (const Status s = slots.begin(keep, file.size()); !s.ok()) return s;
  for (size_t at = 0, part = 1; at < file.size(); at += part, part = part * 3 % 701 + 1)
    if (const Status s = slots.write(file.subspan(at, std::min(part, file.size() - at))); !s.ok()) return s;
  return slots.finish();
}

bool holds(Flash& flash, const ModelSlots::Found& found, std::span<const std::byte> file) {
  return found.bytes == file.size() && std::memcmp(flash.bytes().data() + found.offset, file.data(), file.size()) == 0;
}

TEST(model_slots, a_new_storage_has_no_file) {
  Flash flash(8, 2048, 64 * 1024);
  ModelSlots slots(flash.storage());
  ModelSlots::Found found;
  EXPECT_EQ(slots.find(&found).code, Code::kNoCheckpoint);
  EXPECT_EQ(found.slot, ModelSlots::kNoSlot);
  EXPECT_EQ(slots.write({}).code, Code::kNotBound);
  EXPECT_EQ(slots.finish().code, Code::kNotBound);
}

TEST(model_slots, updates_take_turns_and_each_is_found_whole) {
  for (const uint32_t program : {1u, 2u, 8u, 32u, 256u}) {
    Flash flash(program, 2048, 64 * 1024);
    ModelSlots slots(flash.storage());
    ModelSlots::Found found;
    for (uint32_t i = 0; i < 5; ++i) {
      const auto file = file_of(9000 + 777 * i, i);
      ASSERT_TRUE(update(slots, found.slot, file).ok()) << program << " " << i;
      ModelSlots::Found next;
      ASSERT_TRUE(slots.find(&next).ok());
      EXPECT_EQ(next.slot, i % 2);
      EXPECT_EQ(next.sequence, i);
      EXPECT_EQ(next.offset % 64, 0u);
      EXPECT_TRUE(holds(flash, next, file));
      ModelSlots::Found older;
      EXPECT_EQ(slots.find(&older, &next).ok(), i > 0);
      EXPECT_EQ(older.slot, found.slot);
      found = next;
    }
    EXPECT_EQ(flash.violations(), 0u);
  }
}

TEST(model_slots, a_cut_anywhere_leaves_the_old_file_or_the_new_one) {
  uint32_t cuts = 0, old_ones = 0;
  for (const uint32_t program : {1u, 8u, 64u}) {
    const auto first = file_of(2900, 1), second = file_of(3300, 2);
    for (uint64_t budget = 0;; budget += 1 + budget % 7) {
      Flash flash(program, 512, 16 * 1024);
      ModelSlots slots(flash.storage());
      ASSERT_TRUE(update(slots, ModelSlots::kNoSlot, first).ok());
      flash.cut_after(budget, budget);
      const bool done = update(slots, 0, second).ok();
      flash.restore();
      ModelSlots again(flash.storage());
      ModelSlots::Found found;
      ASSERT_TRUE(again.find(&found).ok()) << program << " " << budget;
      if (done) ASSERT_TRUE(holds(flash, found, second)) << program << " " << budget;
      else ASSERT_TRUE(holds(flash, found, first) || holds(flash, found, second)) << program << " " << budget;
      old_ones += holds(flash, found, first);
      // Repeats the update that was cut off.
      if (holds(flash, found, first)) {
        ASSERT_TRUE(update(again, found.slot, second).ok()) << program << " " << budget;
        ASSERT_TRUE(again.find(&found).ok());
        ASSERT_TRUE(holds(flash, found, second));
      }
      EXPECT_EQ(flash.violations(), 0u);
      ++cuts;
      if (done) break;
    }
  }
  EXPECT_GT(cuts, 1000u);
  EXPECT_GT(old_ones, 1000u);
}

TEST(model_slots, a_damaged_file_is_not_found_and_the_one_before_it_is) {
  Flash flash(8, 512, 16 * 1024);
  ModelSlots slots(flash.storage());
  const auto first = file_of(2900, 1), second = file_of(3300, 2);
  ASSERT_TRUE(update(slots, ModelSlots::kNoSlot, first).ok());
  ASSERT_TRUE(update(slots, 0, second).ok());
  ModelSlots::Found found;
  ASSERT_TRUE(slots.find(&found).ok());
  const uint64_t start = found.offset - ModelSlots::kHeaderBytes;
  for (const uint64_t at : {start, start + 5, start + 9, start + 17, start + 30, found.offset, found.offset + 3299}) {
    flash.bytes()[at] ^= 4;
    ASSERT_TRUE(slots.find(&found).ok()) << at - start;
    EXPECT_TRUE(holds(flash, found, first)) << at - start;
    flash.bytes()[at] ^= 4;
  }
}

TEST(model_slots, what_does_not_fit_is_refused_before_anything_is_erased) {
  Flash flash(8, 512, 16 * 1024);
  ModelSlots slots(flash.storage());
  const auto file = file_of(8 * 1024 - ModelSlots::kHeaderBytes, 3);
  ASSERT_TRUE(update(slots, ModelSlots::kNoSlot, file).ok());
  const Status s = slots.begin(1, file.size() + 1);
  EXPECT_EQ(s.code, Code::kStorageSize);
  EXPECT_EQ(s.needed, file.size() + 1);
  EXPECT_EQ(s.given, file.size());
  ModelSlots::Found found;
  ASSERT_TRUE(slots.find(&found).ok());
  EXPECT_TRUE(holds(flash, found, file));
  ASSERT_TRUE(slots.begin(0, 10).ok());
  EXPECT_EQ(slots.write(std::span(file).first(11)).code, Code::kRange);
  ASSERT_TRUE(slots.write(std::span(file).first(9)).ok());
  EXPECT_EQ(slots.finish().code, Code::kLengthUnder);
  Storage bad = flash.storage();
  bad.program_bytes = 3;
  EXPECT_EQ(ModelSlots(bad).find(&found).code, Code::kStorageGranule);
}

TEST(model_slots, in_c_they_are_the_same) {
  Flash flash(8, 512, 16 * 1024);
  nacre_storage storage = {sizeof storage, 8,       512,     0,      flash.bytes().size(), &flash, nullptr,
                           nullptr,        nullptr, nullptr, nullptr};
  storage.read = [](void* f, uint64_t at, void* to, size_t size) {
    return int(static_cast<Flash*>(f)->read(at, {static_cast<std::byte*>(to), size}));
  };
  storage.program = [](void* f, uint64_t at, const void* from, size_t size) {
    return int(static_cast<Flash*>(f)->program(at, {static_cast<const std::byte*>(from), size}));
  };
  storage.erase = [](void* f, uint64_t at) { return int(static_cast<Flash*>(f)->erase(at)); };
  nacre_model_slots slots;
  nacre_model_slots_make(&slots, &storage);
  nacre_slot found = {sizeof found, 7, 7, 0, 7, 7};
  EXPECT_EQ(nacre_model_slots_find(&slots, &found, nullptr).code, uint8_t(Code::kNoCheckpoint));
  EXPECT_EQ(found.slot, NACRE_NO_SLOT);
  const auto first = file_of(2900, 1), second = file_of(3300, 2);
  for (const auto* file : {&first, &second}) {
    ASSERT_EQ(nacre_model_slots_begin(&slots, found.slot, file->size()).code, 0);
    ASSERT_EQ(nacre_model_slots_write(&slots, file->data(), file->size()).code, 0);
    EXPECT_EQ(nacre_model_slots_offset(&slots) % 64, 0u);
    ASSERT_EQ(nacre_model_slots_finish(&slots).code, 0);
    ASSERT_EQ(nacre_model_slots_find(&slots, &found, nullptr).code, 0);
    EXPECT_EQ(found.bytes, file->size());
    EXPECT_EQ(std::memcmp(flash.bytes().data() + found.offset, file->data(), file->size()), 0);
  }
  nacre_slot older = {sizeof older, 0, 0, 0, 0, 0};
  ASSERT_EQ(nacre_model_slots_find(&slots, &older, &found).code, 0);
  EXPECT_EQ(older.bytes, first.size());
  ModelSlots same(flash.storage());
  ModelSlots::Found there;
  ASSERT_TRUE(same.find(&there).ok());
  EXPECT_EQ(there.offset, found.offset);
}

TEST(model_slots, a_model_opens_where_it_lies) {
  Flash flash(8, 2048, 1024 * 1024);
  ModelSlots slots(flash.storage());
  ModelSlots::Found found;
  for (const ModelCase& c : cases()) {
    const Buffer file = pack(c.make());
    if (file.bytes().size() > 256 * 1024) continue;
    ASSERT_TRUE(update(slots, found.slot, file.bytes()).ok()) << c.name;
    ASSERT_TRUE(slots.find(&found).ok());
    ASSERT_TRUE(holds(flash, found, file.bytes()));
    Buffer mapped(size_t(found.bytes));  // aligned as a flash is
    std::memcpy(mapped.bytes().data(), flash.bytes().data() + found.offset, mapped.bytes().size());
    Model model;
    EXPECT_TRUE(model.open(mapped.bytes()).ok() && model.check_weights().ok()) << c.name;
  }
}

}  // namespace
}  // namespace nacre::test
