// Deploys a network after training: the source file's network gets the trained parameters and goes through all passes
// of the converter. Batch norms are folded, adapters are merged, and policies are applied as in nacre convert. Ranges
// and amax histories that training found replace calibration. `nacre tune` and `nacre export --network` call this.
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

// Samples on which ranges are measured that training did not find.
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
  int parameters = 0, adapters = 0;    // constants with trained numbers; layers into which an adapter was merged
  std::vector<std::string> fallbacks;  // steps that run in another type than their policy says
};

// Deploys a trained network. `simplified` comes from load_network() with batch norms not folded, as compile_training
// got it, for any batch. `state` is the trained state of `training`. Layers without a policy whose weights are int8
// codes in the source get new codes. The codes are per output channel if the source's are: scale_k = max |w_k| / 127,
// code = round(w / scale_k). Ranges of activations stay the source's. Dropout is left out. Throws if `simplified` has
// no place for a trained tensor, or if a number is not finite.
Deployed deploy(Graph simplified, const PolicyRequest& policies, const LoadedModel& training,
                std::span<const std::byte> state, const RangeSamples& samples = {});

// Does the first half of deploy(): sets the constants of `graph` to the learned numbers and merges adapters into them.
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

  // Deploys before the first training step, with [-1, 1] for each range that only training finds. Throws the errors
  // about network, policies and options that deploy() would throw after the last step.
  Deployed deploy_untrained(const LoadedModel& training, std::span<const std::byte> state) const;

 private:
  PolicyRequest policies_;
  RangeSamples samples_;
  Graph simplified_;
};

}  // namespace nacre::tools
