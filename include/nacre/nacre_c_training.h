/* Declares a trainer, for C; nacre_c.h includes this header. */
#pragma once

#include "engine/nacre_c_training.h"
