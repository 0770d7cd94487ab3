/* A trainer, for C; nacre_c.h includes it. */
#pragma once

#include "engine/nacre_c_training.h"
