// Inputs of dense and the convolutions, as engine/ops/dense.h and conv.h number them.
#pragma once

namespace nacre::tools {

enum MatmulOperand { kX, kW, kBias, kScale, kXScale, kXZero };

}  // namespace nacre::tools
