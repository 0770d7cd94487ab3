// The network that a user deploys after training: the source file's, with the trained parameters, through all passes
// of the converter. Batch norms are folded, adapters are merged, policies are applied as nacre convert applies them;
// ranges and amax histories that training found stand for calibration. `nacre tune` and `nacre export --network`
// write it.
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

// Samples from which the ranges come that training did not find.
struct RangeSamples {
  std::string data;  // as samples.h takes it; "": none
  SampleOptions options;
};

struct DeployOptions {
  std::string network;  // the source's file
  // as the training's, but for `batch`: the rows of a run of what is deployed
  ImportOptions importing = {.train = true};
  PolicyRequest policies;  // of the deployed network
  RangeSamples samples = {};
  std::vector<std::pair<std::string, std::string>> metadata;
};

struct Deployed {
  std::vector<uint8_t> bytes;
  int parameters = 0, adapters = 0;    // constants that got trained numbers; layers into which an adapter was merged
  std::vector<std::string> fallbacks;  // steps that run in another type than their policy says
};

// `simplified`: load_network() with batch norms not folded, as it was given to compile_training, for any batch.
// `state`: of `training`, trained. Weights of layers without a policy that are int8 codes in the source are coded anew,
// per output channel where they were:  scale_k = max |w_k| / 127,  code = round(w / scale_k); ranges of activations
// stay the source's. Throws where `simplified` has no place for something that was trained, or a number is not finite.
// Dropout is left out.
Deployed deploy(Graph simplified, const PolicyRequest& policies, const LoadedModel& training,
                std::span<const std::byte> state, const RangeSamples& samples = {});

// Does the first half of deploy(): the constants of `graph` become what was learned, with adapters merged into them.
void take_learned(Graph& graph, const LoadedModel& training, std::span<const std::byte> state, Deployed& counts);

// "4 constants trained, 2 adapters merged".
std::string deployed_text(const Deployed& deployed);

// Deploys the network of the source's file, with metadata: its hash, the converter's version, and what the options
// add. The constructor reads the file once: a training makes this first, and so deploys the network that it trained.
class Deployment {
 public:
  explicit Deployment(const DeployOptions& options);

  Deployed deploy(const LoadedModel& training, std::span<const std::byte> state) const;

  // Deploys before the first step: [-1, 1] stands for each range that only training finds. Throws what deploy() would
  // throw after the last step about the network, the policies and the options.
  Deployed deploy_untrained(const LoadedModel& training, std::span<const std::byte> state) const;

 private:
  PolicyRequest policies_;
  RangeSamples samples_;
  Graph simplified_;
};

}  // namespace nacre::tools
