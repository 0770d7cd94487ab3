// Deploys a network after training: the source file's network gets the trained parameters and goes through all passes
// of the converter. Batch norms are folded, adapters are merged, and policies are applied as in nacre convert. Ranges
// and amax histories that training found serve as calibration. `nacre tune` and `nacre export --network` call this.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tools/calibration/samples.h"
#include "tools/compile/compile.h"
#include "tools/importers/importer.h"
#include "tools/model/loaded_model.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {

// Samples on which the converter measures the ranges that training did not find.
struct RangeSamples {
  std::string data;  // as samples.h reads it; "" if there are no samples
  SampleOptions options;
};

struct DeployOptions {
  std::string network;  // the path of the source's file
  // Equal to the training's options, except for `batch`: the largest batch of the deployed network.
  ImportOptions importing = {.train = true};
  PolicyRequest policies;  // of the deployed network
  RangeSamples samples = {};
  std::vector<std::pair<std::string, std::string>> metadata;
};

struct Deployed {
  std::vector<uint8_t> bytes;
  int parameters = 0, adapters = 0;    // constants with trained numbers; weights into which an adapter was merged
  std::vector<std::string> fallbacks;  // steps that run in another type than their policy says
};

// Deploys a trained network. `simplified` comes from load_network() with batch norms not folded, as compile_training
// got it; its batch may differ. `state` is the trained state of `training`. If the weights of a layer without a policy
// are int8 codes in the source, they get other codes, with one scale per output channel k if the source has that:
// scale_k = max |w_k| / 127, code = round(w / scale_k). Activations of such a layer keep the source's ranges. Dropout
// is left out. Throws if `simplified` lacks a trained tensor, or if a number is not finite.
Deployed deploy(Graph simplified, const PolicyRequest& policies, const LoadedModel& training,
                std::span<const std::byte> state, const RangeSamples& samples = {});

// Sets the constants of `graph` to the learned numbers, merges adapters into them, and counts both in `counts`.
void take_learned(Graph& graph, const LoadedModel& training, std::span<const std::byte> state, Deployed& counts);

// Returns a text such as "4 constants trained, 2 adapters merged".
std::string deployed_text(const Deployed& deployed);

// Deploys the network of the source's file. Adds metadata: the file's hash, the converter's version, and
// DeployOptions::metadata. The constructor reads the file once. A training constructs this before it starts, so it
// deploys the network that it trained.
class Deployment {
 public:
  explicit Deployment(const DeployOptions& options);

  Deployed deploy(const LoadedModel& training, std::span<const std::byte> state) const;

  // Deploys before the first training step, with [-1, 1] for each range that is still empty. So errors about the
  // network, policies and options, which deploy() would throw after the last step, are thrown before training.
  Deployed deploy_untrained(const LoadedModel& training, std::span<const std::byte> state) const;

 private:
  PolicyRequest policies_;
  RangeSamples samples_;
  Graph simplified_;
};

}  // namespace nacre::tools
