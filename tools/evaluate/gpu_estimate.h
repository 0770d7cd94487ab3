// Estimates the time of a program on a GPU by layer (gpu_cost.h), and finds changes that would help there, as advice
// for `nacre inspect --target cuda/sm90`. Nothing is measured or changed.
#pragma once

#include <string>
#include <vector>

#include "tools/evaluate/gpu_cost.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct GpuLayer {
  std::string name;   // of the layer; without one, "step 7"
  uint32_t step = 0;  // in the program
  Op op = Op::kNone;
  Policy policy = {};
  Product product = {}, padded = {};                 // padded: its counts are multiples of what Tensor Cores take
  int passes = 1;                                    // the product itself, and those of its gradients
  std::optional<ProductForm> form = {};              // of the layer's policy
  double policy_us = 0, half_us = 0, float8_us = 0;  // 0: no form; for float8 no Tensor Cores
  std::vector<std::string> advice = {};              // sentences

  bool float8_is_slower() const { return float8_us > half_us; }
};

struct GpuEstimate {
  const GpuArchitecture* gpu = nullptr;
  bool trains = false;
  uint32_t batch = 1;
  std::vector<GpuLayer> layers;  // dense layers, convolutions, products of attention
  uint32_t other_steps = 0;
  double other_us = 0;   // of the other steps, without those that convert or pack a product's operands
  double copies_us = 0;  // of copying inputs and outputs, and of launching the graph
  double operations = 0;
  double gpu_us = 0, host_us = 0;  // for a run, or for a training step

  bool on_host() const { return host_us <= gpu_us; }
};

// Estimates a run. For a model that trains, estimates a training step: products with their gradients, and the update.
GpuEstimate estimate_gpu(const LoadedModel& model, const GpuArchitecture& gpu);

}  // namespace nacre::tools
