// The bars that claims gemm_roof and convolution_peers set for rows of layer_peers. A bar on a speed is met if the
// upper quartile reaches it.
#pragma once

#include <string>
#include <vector>

namespace nacre::bench {

struct Row {
  std::string type, name, op;
  int m = 0;  // rows of a dense layer
  std::string kernel = "", best = "";
  double seconds = 0, share = 0, bytes = 0;  // share of the roof
  double low = 0, speed = 0, high = 0;       // against the best peer; 0 if there is none
};

struct Bar {
  std::string text;
  bool met;
};
std::vector<Bar> gemm_bars(const std::vector<Row>& rows);
std::vector<Bar> convolution_bars(const std::vector<Row>& rows);

}  // namespace nacre::bench
