// Makes a transformer encoder of MiniLM's size (Wang et al. 2020: 6 layers, hidden 384, 12 heads, 1536 in between)
// from a seed. Its input is the hidden vectors of tokens. A layer norm follows each sum, as in BERT. The network has
// the two properties that make encoders hard to quantize: a few channels of each norm are many times as large as the
// others, and all tokens share a common part.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::test {

struct EncoderShape {
  int layers = 6, hidden = 384, heads = 12, between = 1536, tokens = 16;
};

tools::Graph encoder_network(const EncoderShape& shape, uint64_t seed);  // x [1, tokens, hidden]; every node a layer
std::vector<float> encoder_input(const EncoderShape& shape, uint64_t seed);  // one sample

}  // namespace nacre::test
