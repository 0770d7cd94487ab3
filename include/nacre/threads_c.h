/* Provides threads that share the work of steps, for C. */
#pragma once

#include "ports/threads/threads_c.h"
