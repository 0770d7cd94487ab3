/* Computes the learning rate of each step. */
#pragma once

#include "engine/numeric/schedule.h"
