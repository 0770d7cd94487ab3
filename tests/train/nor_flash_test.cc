// Tests NorFlash over a simulated flash: the arguments that a vendor's functions get, and their failures.
#include "engine/train/nor_flash.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/nacre_c.h"
#include "tests/train/flash.h"
#include "tests/train/opened_model.h"
#include "tests/train/state_models.h"

namespace nacre::test {
namespace {

using namespace opened_model;

// The chip that the functions without a context act on.
struct Chip {
  Flash* flash;
  uint32_t program_bytes;
  bool wears_out;  // one bit of a sector stays programmed
};
Chip g_chip;

uint64_t place(uintptr_t address) { return address - reinterpret_cast<uintptr_t>(g_chip.flash->bytes().data()); }
bool program_granule(uintptr_t address, const void* granule) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(granule) % 8, 0u);
  return g_chip.flash->program(place(address), {static_cast<const std::byte*>(granule), g_chip.program_bytes});
}
bool erase_sector(uintptr_t address) {
  if (!g_chip.flash->erase(place(address))) return false;
  if (g_chip.wears_out) g_chip.flash->bytes()[place(address) + 17] &= 0xFE;
  return true;
}

NorFlash nor_flash(Flash& flash, uint32_t program_bytes, uint32_t erase_bytes) {
  g_chip = {&flash, program_bytes, false};
  const auto bytes = std::as_bytes(flash.bytes());
  return {.begin = bytes.data(),
          .bytes = uint32_t(bytes.size()),
          .program_bytes = program_bytes,
          .erase_bytes = erase_bytes,
          .program = program_granule,
          .erase = erase_sector};
}

TEST(nor_flash, checkpoints_survive_every_cut_of_power) {
  const Opened m(learner(3, "sgd"));
  for (const uint32_t granule : {1u, 8u, 32u}) {
    Flash flash(granule, 64, bytes_for(m.model, granule, 64));
    const NorFlash nor = nor_flash(flash, granule, 64);
    ASSERT_TRUE(Checkpoint(nor.storage()).save(m.model, m.state(1).bytes()).ok());
    const std::vector<uint8_t> before(flash.bytes().begin(), flash.bytes().end());
    int cuts = 0;
    for (bool saved = false; !saved; ++cuts) {
      Flash again = flash;
      const NorFlash other = nor_flash(again, granule, 64);
      again.cut_after(uint64_t(cuts), uint64_t(cuts) + 1);
      saved = Checkpoint(other.storage()).save(m.model, m.state(2).bytes()).ok();
      again.restore();
      Buffer state = m.state(0);
      ASSERT_TRUE(Checkpoint(other.storage()).load(m.model, state.bytes()).ok()) << granule << " " << cuts;
      ASSERT_TRUE(all_are(state.bytes(), saved ? 2 : 1) || (!saved && all_are(state.bytes(), 2))) << cuts;
      ASSERT_EQ(again.violations(), 0u);
    }
    EXPECT_GT(cuts, 20);
  }
}

TEST(nor_flash, what_lies_outside_and_what_is_worn_out_is_refused) {
  Flash flash(8, 64, 256);
  const NorFlash nor = nor_flash(flash, 8, 64);
  const Storage s = nor.storage();
  alignas(8) std::byte bytes[24] = {};
  EXPECT_TRUE(s.read(s.context, 240, std::span(bytes).first(16)));
  EXPECT_FALSE(s.read(s.context, 240, std::span(bytes)));
  EXPECT_FALSE(s.read(s.context, ~uint64_t{0}, std::span(bytes)));
  EXPECT_TRUE(s.program(s.context, 0, std::span(bytes).subspan(3, 16)));  // from an odd place
  EXPECT_FALSE(s.program(s.context, 32, std::span(bytes).first(12)));
  EXPECT_FALSE(s.program(s.context, 248, std::span(bytes).first(16)));
  EXPECT_TRUE(s.erase(s.context, 0));
  EXPECT_FALSE(s.erase(s.context, 256));
  g_chip.wears_out = true;
  EXPECT_FALSE(s.erase(s.context, 64));
  EXPECT_EQ(flash.violations(), 0u);
}

// Functions of C act on the flash of the tests above.
int program_of_c(uintptr_t address, const void* granule) { return program_granule(address, granule) ? 1 : 0; }
int erase_of_c(uintptr_t address) { return erase_sector(address) ? 1 : 0; }

TEST(nor_flash, of_c_holds_the_same_checkpoint) {
  const Opened m(learner(3, "sgd"));
  Flash flash(8, 64, bytes_for(m.model, 8, 64));
  const NorFlash nor = nor_flash(flash, 8, 64);
  const nacre_nor_flash c = {sizeof c, 8, 64, nor.bytes, nor.begin, program_of_c, erase_of_c};
  nacre_storage storage = {};
  EXPECT_EQ(nacre_nor_flash_storage(&c, &storage).index, 1u) << "the size is not set";
  storage.size = sizeof storage;
  ASSERT_EQ(nacre_nor_flash_storage(&c, &storage).code, 0);
  EXPECT_EQ(storage.size, sizeof storage);
  EXPECT_EQ(storage.bytes, nor.bytes);
  EXPECT_EQ(Code(nacre_checkpoint_look(&storage, nullptr).code), Code::kNoCheckpoint);
  ASSERT_TRUE(Checkpoint(nor.storage()).save(m.model, m.state(1).bytes()).ok());
  nacre_checkpoint_report report = {};
  report.size = sizeof report;
  ASSERT_EQ(nacre_checkpoint_look(&storage, &report).code, 0);
  EXPECT_EQ(report.generation, 1u);
  uint8_t granule[8] = {}, found[8];
  const uint64_t behind = nor.bytes - 8;
  EXPECT_EQ(storage.erase(storage.context, behind / 64 * 64), 1);
  EXPECT_EQ(storage.program(storage.context, behind, granule, 8), 1);
  EXPECT_EQ(storage.read(storage.context, behind, found, 8), 1);
  EXPECT_EQ(std::memcmp(granule, found, 8), 0);
  EXPECT_EQ(storage.read(storage.context, behind + 1, found, 8), 0) << "beyond the flash";
  EXPECT_EQ(storage.program(storage.context, behind, granule, 7), 0) << "no whole granule";
  g_chip.wears_out = true;
  EXPECT_EQ(storage.erase(storage.context, 0), 0) << "a sector that is not blank";
  nacre_nor_flash wrong = c;
  wrong.erase = nullptr;
  EXPECT_EQ(nacre_nor_flash_storage(&wrong, &storage).index, 0u);
  EXPECT_EQ(nacre_nor_flash_storage(nullptr, &storage).index, 0u);
}

}  // namespace
}  // namespace nacre::test
