// The generated accessors of schema/model.fbs, without assert: its checks are for debugging, and newlib's pulls in
// stdio.
#pragma once

#define FLATBUFFERS_ASSERT(condition) static_cast<void>(0)
#include "model_generated.h"
