/* Joins the sums of a training step (gradients, loss, counts, statistics) of several machines, over any transport. */
#pragma once

#include "engine/train/step_sums.h"
