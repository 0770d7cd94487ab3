/* Runs the programs that `nacre firmware` writes. */
#pragma once

#include "engine/run/static_program.h"
