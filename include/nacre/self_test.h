/* Checks on a device that an image's constants and outputs are those of the PC. */
#pragma once

#include "engine/run/self_test.h"
