/* Declares programs whose steps run on devices, for C; nacre_c.h includes this header. */
#pragma once

#include "engine/nacre_c_places.h"
