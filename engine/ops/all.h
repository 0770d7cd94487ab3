// Every op of the engine: the headers behind find_rule().
#pragma once

#include "engine/ops/activation.h"
#include "engine/ops/commit.h"
#include "engine/ops/conv.h"
#include "engine/ops/dense.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/gradient.h"
#include "engine/ops/loss.h"
#include "engine/ops/loss_elementwise.h"
#include "engine/ops/move.h"
#include "engine/ops/norm.h"
#include "engine/ops/optimize.h"
#include "engine/ops/optimize_onnx.h"
#include "engine/ops/pool.h"
#include "engine/ops/quantize.h"
#include "engine/ops/reduce.h"
#include "engine/ops/softmax.h"
