/* Threads that share steps, for C++. */
#pragma once

#include "ports/threads/threads.h"
