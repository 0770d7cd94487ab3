// The schedule of the learning rate as people write it: "cosine,warmup=100,end=0.01". engine/numeric/schedule.h has the
// formulas.
#pragma once

#include <string>
#include <vector>

#include "engine/numeric/schedule.h"

namespace nacre::tools {

// NAME[,FIELD=X..]. Names: constant, step, linear, cosine, one_cycle. Fields: warmup (steps) and warmup_start (share of
// the rate) of all but one_cycle; every (steps, needed) and gamma of step; steps and end of linear and cosine; steps,
// start, end and pct of one_cycle. `steps` of the whole run is what stands where a field `steps` was not given.
Schedule parse_schedule(const std::string& text, float rate, uint32_t steps);

std::vector<std::string> schedule_names();

}  // namespace nacre::tools
