/* Declares the kernels of x86-64, for C. */
#pragma once

#include "ports/x86/x86_c.h"
