// Small networks for tests of training, with parameters from a fixed generator.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::test {

// x [batch, 6] -> dense 5, relu -> dense 3 -> softmax, with the layers fc1, fc2, softmax and the parameters w1 b1 w2
// b2.
tools::Graph perceptron(int batch = 4);
// x [batch, 6, 6, 2] -> conv 3x3 4, batch norm, relu -> max pool 2x2 -> conv 3x3 stride 1 pad 1, 4, relu -> mean ->
// dense 3.
tools::Graph convolutional(int batch = 2);
// A block of ResNet-8. x [batch, 7, 7, 3] -> conv 3x3 pad 1, 6, relu -> h. One path: h -> conv 3x3 stride 2, 10, relu
// -> conv 3x3 pad 1, 10. Other path: h -> conv 1x1 stride 2, 10. Their sum -> relu -> conv 1x1, 16, relu -> mean ->
// dense 3.
tools::Graph residual(int batch = 2);

// Rows of numbers in three classes that are easy to tell apart.
struct LabelledRows {
  std::vector<float> x;  // rows * width
  std::vector<int32_t> labels;
};
LabelledRows three_classes(uint64_t seed, int rows, int width);

}  // namespace nacre::test
