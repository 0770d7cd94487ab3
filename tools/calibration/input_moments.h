// Collects second moments of the inputs of matmuls over samples. Fits of weights (GPTQ, AWQ) read them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

// Says how the rows of a matmul are read from x [images, in_h, in_w, channels]. A dense layer has a window of one
// pixel, and each of its rows is an image.
struct RowShape {
  int64_t channels = 1, groups = 1;  // groups of channels; in a depthwise convolution every channel is a group
  int64_t in_h = 1, in_w = 1, out_h = 1, out_w = 1, kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1, top = 0, left = 0;

  int64_t terms() const { return kernel_h * kernel_w * (channels / groups); }
  bool operator==(const RowShape&) const = default;
};
RowShape row_shape(const Graph& graph, const Node& matmul);

class MomentCollector {
 public:
  // Prepares moments for the matmuls of `graph` for which `fitted` holds. Matmuls that read the same value with the
  // same RowShape share their moments. Throws if the moments take more memory than the graph's budget allows.
  MomentCollector(const Graph& graph, const std::function<bool(const Node&)>& fitted);

  // Adds one sample of the value of this name.
  void add(const std::string& value, std::span<const float> x);

  // Returns the moments by the name of the matmul's output.
  std::map<std::string, std::shared_ptr<const InputMoments>> result() const;

 private:
  struct Input {
    RowShape shape;
    std::vector<std::string> outputs;  // outputs of the matmuls that read the value with this shape
    InputMoments sums;                 // sums of x_a x_b for b <= a, and of magnitudes
    int64_t pixels = 0;
  };
  static void add(Input& input, std::span<const float> x);

  std::multimap<std::string, Input> inputs_;  // by the value's name
};

}  // namespace nacre::tools
