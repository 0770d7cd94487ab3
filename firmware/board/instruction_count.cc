#include "firmware/board/instruction_count.h"

#include "firmware/board/hardware_register.h"

namespace nacre::firmware {
namespace {

constexpr uint32_t kControl = 0xE000E010;  // SYST_CSR
constexpr uint32_t kReload = 0xE000E014;   // SYST_RVR
constexpr uint32_t kCurrent = 0xE000E018;  // SYST_CVR: counts down; any write makes it 0

constexpr uint32_t kEnable = 1u << 0;
constexpr uint32_t kProcessorClock = 1u << 2;
constexpr uint32_t kCountFlag = 1u << 16;  // the counter has passed 0; reading clears the flag
constexpr uint32_t kTop = 0xFFFFFF;

}  // namespace

// Writing SYST_CVR sets it to 0 and clears the flag. The reload comes one tick later, and a reading before it would
// be off by 2^24 ticks.
void start_ticks() {
  hardware_register(kControl) = 0;
  hardware_register(kReload) = kTop;
  hardware_register(kCurrent) = 0;
  hardware_register(kControl) = kEnable | kProcessorClock;
  while (hardware_register(kCurrent) == 0) {
  }
}

// If the counter has wrapped, stops it, so that later readings return kTooManyTicks too.
uint32_t read_ticks() {
  const uint32_t current = hardware_register(kCurrent);
  const uint32_t control = hardware_register(kControl);
  if ((control & kEnable) != 0 && (control & kCountFlag) == 0) return kTop - current;
  hardware_register(kControl) = 0;
  return kTooManyTicks;
}

}  // namespace nacre::firmware
