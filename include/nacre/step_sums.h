/* Joins the gradients of several machines over any transport. */
#pragma once

#include "engine/train/step_sums.h"
