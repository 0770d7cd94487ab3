// Claim: fused and unfused programs give the same bytes, for every policy, on the digits sample, IC and KWS. They
// also do if policies change from layer to layer.
//
// Every tensor that both programs have is compared, not only the outputs. A value that fusing leaves out (before its
// clamp, cast or quantizer) is an operand of no other step. The largest magnitudes (amax) of such tensors agree
// because their bytes do; they are counted all the same, for tensors of float types.
#include <cstdio>
#include <set>

#include "tests/claims/claims.h"
#include "tests/claims/policy_networks.h"
#include "tools/base/error.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

struct Count {
  int programs = 0, with_fewer_steps = 0, steps_saved = 0;
  int64_t tensors = 0, bytes = 0, differing = 0;
};

void compare(const PolicyNetwork& network, const std::string& policy, const PolicyArguments& arguments, Count& count) {
  const Compiled fused = compile_under(network, arguments, true), unfused = compile_under(network, arguments, false);
  const LoadedModel a(fused.bytes, network.name, ""), b(unfused.bytes, network.name, "");
  const int saved = int(unfused.graph.nodes.size()) - int(fused.graph.nodes.size());
  ++count.programs;
  count.with_fewer_steps += saved > 0;
  count.steps_saved += saved;
  int64_t differing = 0;
  for (const std::vector<uint8_t>& inputs : network.inputs) {
    const auto x = run_all(a, inputs), y = run_all(b, inputs);
    for (const auto& [name, bytes] : x) {
      const auto other = y.find(name);
      if (other == y.end()) throw Error(kFailed, policy, name + " is in the fused program alone");
      ++count.tensors;
      count.bytes += int64_t(bytes.size());
      differing += bytes != other->second;
    }
  }
  count.differing += differing;
  std::printf("%-8s %-48s %3zu steps, %3d fewer than unfused%s\n", network.name.c_str(), policy.c_str(),
              fused.graph.nodes.size(), saved, differing > 0 ? ", DIFFERS" : "");
}

int claim() {
  Count count;
  int missing = 0;
  const std::optional<PolicyNetwork> networks[] = {load_digits(), load_shared("IC", "pretrainedResnet.tflite", 0, 255),
                                                   load_shared("KWS", "kws_ref_model_float32.tflite", -123, 26)};
  for (const std::optional<PolicyNetwork>& network : networks) {
    if (!network) {
      ++missing;
      continue;
    }
    for (const char* policy : kPolicies) compare(*network, policy, everywhere(policy), count);
  }
  for (const char* map : kMixedMaps) compare(*networks[0], map, by_layer(map), count);
  if (count.differing > 0 || count.with_fewer_steps == 0) {
    std::printf("CLAIM fusion_changes_nothing NOT SHOWN: %lld tensors differ; %d of %d programs were fused at all\n",
                static_cast<long long>(count.differing), count.with_fewer_steps, count.programs);
    return 1;
  }
  std::printf(
      "CLAIM fusion_changes_nothing shown: %d programs of %d networks (%d missing) under %zu policies and %zu maps, %d "
      "with %d steps fewer "
      "than unfused; %lld tensors, %lld bytes, 0 differ\n",
      count.programs, 3 - missing, missing, std::size(kPolicies), std::size(kMixedMaps), count.with_fewer_steps,
      count.steps_saved, static_cast<long long>(count.tensors), static_cast<long long>(count.bytes));
  return 0;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(fusion_changes_nothing) {
  try {
    return nacre::test::claim();
  } catch (const std::exception& error) {
    std::printf("CLAIM fusion_changes_nothing NOT SHOWN: %s\n", error.what());
    return 1;
  }
}
