/* Compares an image's outputs with golden ones. */
#pragma once

#include "engine/run/self_test.h"
