/* Every kernel of the reference by its name, for programs that link only what they run. */
#pragma once

#include "engine/kernels/reference.h"
#include "engine/kernels/training.h"
