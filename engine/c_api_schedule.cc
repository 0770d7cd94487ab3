// Schedules of learning rates for C (nacre_c.h).
#include "engine/c_api.h"
#include "engine/numeric/schedule.h"

using nacre::ScheduleKind;
static_assert(uint32_t(ScheduleKind::kConstant) == NACRE_CONSTANT && uint32_t(ScheduleKind::kStep) == NACRE_STEP);
static_assert(uint32_t(ScheduleKind::kCosine) == NACRE_COSINE && uint32_t(ScheduleKind::kLinear) == NACRE_LINEAR);
static_assert(uint32_t(ScheduleKind::kOneCycle) == NACRE_ONE_CYCLE);

extern "C" nacre_status nacre_schedule_rate(const nacre_schedule* schedule, uint32_t step, float* rate) {
  const bool whole = schedule != nullptr && schedule->size >= sizeof *schedule;
  if (const nacre::Status s = nacre::arguments(whole, true, rate != nullptr); !s.ok()) return nacre::to_c(s);
  const nacre::Schedule made = {
      .kind = schedule->kind < uint32_t(ScheduleKind::kCount) ? ScheduleKind(schedule->kind) : ScheduleKind::kCount,
      .rate = schedule->rate,
      .steps = schedule->steps,
      .gamma = schedule->gamma,
      .end = schedule->end,
      .warmup_steps = schedule->warmup_steps,
      .warmup_start = schedule->warmup_start,
      .pct = schedule->pct};
  if (!made.valid()) return nacre::to_c(nacre::arguments(false));
  *rate = made.at(step);
  return {};
}
