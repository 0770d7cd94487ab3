/* Declares a model, its programs and its trainer, for C++. */
#pragma once

#include "engine/nacre.h"
