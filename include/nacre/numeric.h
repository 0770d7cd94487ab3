/* Converts numbers to formats of a few bits: int4, ternary, blocks with a scale. */
#pragma once

#include "engine/numeric/block_scale.h"
#include "engine/numeric/grouped_int4.h"
#include "engine/numeric/int4.h"
#include "engine/numeric/ternary.h"
