// Input slots of dense and the convolutions, numbered as in engine/ops/dense.h and conv.h.
#pragma once

namespace nacre::tools {

enum MatmulOperand { kX, kW, kBias, kScale, kXScale, kXZero };

}  // namespace nacre::tools
