// Claim: no step runs in another type than its layer's policy says, nor on a slow kernel, unless a list names it.
//
// Counts the steps of the written program by the type they compute in. The type is that of the kernels' operands, not
// the one that the converter states. A layer's policy allows these types:
//
//   matmul                 the codes that its quantization names, else the compute type
//   pointwise, reduction   the compute type; int8 under int8/static
//   move                   any type: the step moves bytes
//   conversion             any type: casts, quantizers and the like stand between two types
//
// Every other step must be named in the file's own list of fallbacks, and every line of that list must be true of a
// step. reference_steps.h checks which steps have no fast kernel.
#include <cstdio>
#include <map>

#include "tests/claims/claims.h"
#include "tests/claims/policy_networks.h"
#include "tests/claims/reference_steps.h"
#include "tools/base/names.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

bool converts(Op op) {
  return op == Op::kQuantize || op == Op::kDequantize || op == Op::kRequantize || op == Op::kCast ||
         op == Op::kDynamicQuantize;
}

ElementType element(const Graph& graph, ValueId id) { return graph.values[size_t(id)].type; }

// Returns "float16", "int8", "float8_e4m3"; "float32 x int4" if the weights have other codes than the activations.
std::string computes_in(const Graph& graph, const Node& node) {
  const std::string x = name_of(element(graph, node.inputs[0]));
  if (find_rule(node.op)->numerics != Numerics::kMatmul) return x;
  const std::string w = name_of(element(graph, node.inputs[1]));
  return x == w ? x : x + " x " + w;
}

std::string expected(const Policy& policy, const Node& node) {
  const std::string compute = name_of(policy.compute);
  if (policy.quantization == Quantization::kInt8Static) return "int8";
  if (find_rule(node.op)->numerics != Numerics::kMatmul) return compute;
  switch (policy.quantization) {
    case Quantization::kInt8Dynamic: return "int8";
    case Quantization::kInt8Weights: return compute + " x int8";
    case Quantization::kInt4Weights: return compute + " x int4";
    case Quantization::kFloat8:
    case Quantization::kFloat8Current: return "float8_e4m3";
    default: return compute;
  }
}

struct Count {
  int programs = 0, steps = 0, counted = 0, listed = 0;
  std::map<std::string, int> unlisted;
};

void count_steps(const PolicyNetwork& network, const std::string& policy, Count& count, ReferenceSteps& speed) {
  const Compiled compiled = compile_under(network, everywhere(policy));
  const LoadedModel model(compiled.bytes, network.name, "");
  model.require(model.model().check_weights());
  const BoundProgram bound(model, 0);  // binding requires a kernel for every step
  speed.count(model, network.name + ", " + policy);
  const Graph& graph = compiled.graph;
  std::map<std::string, int> by_type;
  std::vector<std::string> fallbacks = graph.fallbacks;
  int listed = 0;
  for (const Node& node : graph.nodes) {
    ++count.steps;
    if (converts(node.op) || find_rule(node.op)->numerics == Numerics::kMove || node.layer == kNone) continue;
    ++count.counted;
    const Layer& layer = graph.layers[size_t(node.layer)];
    const std::string type = computes_in(graph, node), wanted = expected(layer.policy, node);
    ++by_type[type];
    if (type == wanted) continue;
    const std::string start = layer.name + " (" + find_rule(node.op)->name + "):";
    const auto line =
        std::find_if(fallbacks.begin(), fallbacks.end(), [&](const std::string& f) { return f.starts_with(start); });
    if (line == fallbacks.end()) {
      ++count.unlisted[network.name + ", " + policy + ": " + start + " wants " + wanted + ", runs in " + type];
      continue;
    }
    ++listed;
    fallbacks.erase(line);
  }
  for (const std::string& line : fallbacks) ++count.unlisted["a fallback that is none: " + line];
  ++count.programs;
  count.listed += listed;
  std::printf("%-8s %-48s", network.name.c_str(), policy.c_str());
  for (const auto& [type, steps] : by_type) std::printf(" %s %d", type.c_str(), steps);
  std::printf("; fallbacks %d\n", listed);
  for (const std::string& line : graph.fallbacks) std::printf("    %s\n", line.c_str());
}

int claim() {
  Count count;
  ReferenceSteps speed;
  speed.count_networks();
  int missing = 0;
  const std::optional<PolicyNetwork> networks[] = {load_digits(), load_shared("IC", "pretrainedResnet.tflite", 0, 255),
                                                   load_shared("AD", "ad01_fp32.tflite", -80, 20),
                                                   load_shared("VWW", "vww_96_float.tflite", 0, 1),
                                                   load_shared("KWS", "kws_ref_model_float32.tflite", -123, 26)};
  for (const std::optional<PolicyNetwork>& network : networks) {
    if (!network) {
      ++missing;
      continue;
    }
    for (const char* policy : kPolicies) count_steps(*network, policy, count, speed);
  }
  for (const auto& [line, times] : count.unlisted) std::printf("UNLISTED %s (%d)\n", line.c_str(), times);
  const int untrue = speed.print();
  if (!count.unlisted.empty() || untrue > 0) {
    std::printf(
        "CLAIM no_silent_fallback NOT SHOWN: %zu kinds of steps are not listed, %d lines about speed are untrue\n",
        count.unlisted.size(), untrue);
    return 1;
  }
  std::printf(
      "CLAIM no_silent_fallback shown: %d programs of %d networks (%d missing) under %zu policies, %d steps, %d of "
      "them compute; "
      "%d fall back, all listed with a reason; %s, all with a reason\n",
      count.programs, 5 - missing, missing, std::size(kPolicies), count.steps, count.counted, count.listed,
      speed.text().c_str());
  return 0;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(no_silent_fallback) {
  try {
    return nacre::test::claim();
  } catch (const std::exception& error) {
    std::printf("CLAIM no_silent_fallback NOT SHOWN: %s\n", error.what());
    return 1;
  }
}
