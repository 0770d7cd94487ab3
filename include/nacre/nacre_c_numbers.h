/* Declares conversions of numbers, for C; nacre_c.h includes this header. */
#pragma once

#include "engine/nacre_c_numbers.h"
