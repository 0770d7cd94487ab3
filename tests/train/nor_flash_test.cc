// Tests NorFlash over a simulated flash: the arguments that a vendor's functions get, and their failures.
#include "engine/train/nor_flash.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace nacre::test
