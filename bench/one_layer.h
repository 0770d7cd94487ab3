// One layer of a network by itself, under any policy and on any kernels. bench/kernels and bench/peers measure such
// layers.
//
// The layer becomes a network of one node with random weights. It is calibrated and compiled as `nacre convert` does.
// The benchmarks time the layer's own step, without the casts and quantizers that the policy puts around it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/model/loaded_model.h"
#include "tools/model/program_cost.h"

namespace nacre::bench {

struct Shape {
  std::string op, networks;                                          // "ic, vww"
  std::vector<std::pair<std::string, std::vector<int64_t>>> inputs;  // by slot, in order
  std::map<std::string, double> attributes;

  std::string text() const;  // "1x32x32x16_16x3x3x16_s2"
  bool is_product() const;   // whether it is dense or a convolution, and so has weights w
};

std::vector<Shape> read_shapes(const std::string& path);  // bench/shapes.json
Shape dense_shape(int64_t rows, int64_t in, int64_t out);

class OneLayer {
 public:
  // `policy`: "float32", "int8/static_from_float32", ...
  OneLayer(const Shape& shape, const std::string& policy, Rounding rounding = Rounding::kDouble);

  const tools::LoadedModel& model() const { return *model_; }
  uint32_t step() const { return step_; }  // the layer's own step, in program 0
  tools::StepWork work() const;            // the work of that step
  const std::vector<uint8_t>& input() const { return input_; }

  // w and bias as the graph's float32 numbers, which a peer is given.
  const std::vector<float>& weights() const { return weights_; }
  const std::vector<float>& bias() const { return bias_; }

  // bind() binds the layer to a port (null: the reference) and runs the whole program once. difference() returns how
  // far its outputs are from the reference's: 0 if they are equal to the byte, else the largest difference over the
  // largest magnitude.
  std::unique_ptr<tools::BoundProgram> bind(const Port* port) const;
  double difference(tools::BoundProgram& bound) const;

 private:
  std::unique_ptr<tools::LoadedModel> model_;
  uint32_t step_ = 0;
  std::vector<uint8_t> input_;
  std::vector<float> weights_, bias_;
  mutable std::vector<uint8_t> expected_;  // the reference's outputs, after their first use
};

// Returns the largest difference that another order of a type's sums explains.
double tolerance_of(ElementType compute);

}  // namespace nacre::bench
