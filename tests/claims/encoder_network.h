// A transformer encoder of MiniLM's size (Wang et al. 2020: 6 layers, hidden 384, 12 heads, 1536 in between) on hidden
// vectors of tokens, from a seed. As in BERT a layer norm follows each sum. What makes such networks hard to quantize
// is there: a few channels of each norm are many times as large as the others, and tokens have a common part.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::test {

struct EncoderShape {
  int layers = 6, hidden = 384, heads = 12, between = 1536, tokens = 16;
};

tools::Graph encoder_network(const EncoderShape& shape, uint64_t seed);  // x [1, tokens, hidden]; every node a layer
std::vector<float> encoder_input(const EncoderShape& shape, uint64_t seed);  // of one sample

}  // namespace nacre::test
