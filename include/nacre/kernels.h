/* Declares every reference kernel by its name, for programs that link only the kernels they run. */
#pragma once

#include "engine/kernels/reference.h"
#include "engine/kernels/training.h"
