// Reads the schedule of the learning rate: "cosine,warmup=100,end=0.01". engine/numeric/schedule.h has the formulas.
#pragma once

#include <string>
#include <vector>

#include "engine/numeric/schedule.h"

namespace nacre::tools {

// Reads NAME[,FIELD=X..]. Names: constant, step, linear, cosine, one_cycle. Fields: warmup (steps) and warmup_start
// (share of the rate) for all but one_cycle; every (steps, required) and gamma for step; steps and end for linear and
// cosine; steps, start, end and pct for one_cycle. `steps`: the number of steps of the whole run. If the text has no
// field `steps` or `every`, the schedule has as many, less those of the warm-up, and at least 1.
Schedule parse_schedule(const std::string& text, float rate, uint32_t steps);

std::vector<std::string> schedule_names();

}  // namespace nacre::tools
