/* Declares the kernels of Cortex-M that the tables of `nacre firmware` name. */
#pragma once

#include "ports/cortex_m/entry_functions.h"
