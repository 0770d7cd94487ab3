/* Declares a model and its programs, for C. */
#pragma once

#include "engine/nacre_c.h"
