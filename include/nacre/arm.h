/* Declares the kernels of ARM with Neon, for C++. */
#pragma once

#include "ports/arm/arm.h"
