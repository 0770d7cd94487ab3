// Every op of the engine: the headers behind find_rule().
#pragma once

#include "engine/ops/activation.h"
#include "engine/ops/batch_norm_training.h"
#include "engine/ops/conv.h"
#include "engine/ops/conv_gradient.h"
#include "engine/ops/dense.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/gradient.h"
#include "engine/ops/move.h"
#include "engine/ops/move_gradient.h"
#include "engine/ops/norm.h"
#include "engine/ops/pool.h"
#include "engine/ops/quantize.h"
#include "engine/ops/reduce.h"
#include "engine/ops/softmax.h"
