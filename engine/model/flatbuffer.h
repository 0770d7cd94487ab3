// Includes the generated accessors of schema/model.fbs without assert. Their asserts are for debugging, and newlib's
// assert links stdio.
#pragma once

#define FLATBUFFERS_ASSERT(condition) static_cast<void>(0)
#include "model_generated.h"
