/* Declares the kernels of Cortex-M, for C. */
#pragma once

#include "ports/cortex_m/cortex_m_c.h"
