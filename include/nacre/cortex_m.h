/* Declares the kernels of Cortex-M. */
#pragma once

#include "ports/cortex_m/cortex_m.h"
