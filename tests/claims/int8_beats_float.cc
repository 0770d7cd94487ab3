// Claim int8_beats_float: on each of MLPerf Tiny's five networks int8/static is faster than float32. float8 takes at
// most 1.5 times as long as bfloat16. All use the fastest kernels of this machine on one thread.
//
//   int8_beats_float [strict]                                         timed_rounds.h
//
// The networks come from the float files. The streaming wake word has no float file, so its int8 file is used, whose
// layers run under the policies just as well. Ranges come from uniform inputs.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "tests/claims/claims.h"
#include "tests/claims/policy_networks.h"
#include "tests/claims/timed_rounds.h"
#include "tests/sanitized.h"
#include "tools/base/error.h"
#include "tools/model/kernel_choice.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

struct Source {
  const char *name, *file;
  float low, high;  // range of the inputs
};
constexpr Source kSources[] = {{"AD", "ad01_fp32.tflite", -80, 20},
                               {"KWS", "kws_ref_model_float32.tflite", -123, 26},
                               {"IC", "pretrainedResnet.tflite", 0, 255},
                               {"VWW", "vww_96_float.tflite", 0, 1},
                               {"str_ww", "str_ww_ref_model.tflite", 0, 0.94f}};
constexpr const char* kTypes[] = {"float32", "int8/static_from_float32", "bfloat16", "float8_from_float32"};
// The float8 policy for a file of codes. Calibration does not observe the file's activations.
constexpr const char* kFloat8OfCodes = "float8/current_from_float32";

// A float8 product without a fast kernel is slower than any bound; reference_steps.txt lists such products.
constexpr double kNeverFar = 1e9;

struct Ready {
  std::unique_ptr<LoadedModel> model;
  std::unique_ptr<BoundProgram> bound;
};

Ready ready(const PolicyNetwork& network, const char* policy) {
  Ready made;
  const Compiled compiled = compile_under(network, everywhere(policy), true, IoTypes::kPolicy);
  made.model = std::make_unique<LoadedModel>(compiled.bytes, network.name, "");
  made.bound = std::make_unique<BoundProgram>(*made.model, 0, port_named("auto"));
  return made;
}

// Runs on zeros, in the input type of the policy, as a sensor or another network would give it. Products of zeros
// take as long.
void run(const BoundProgram& bound) {
  for (uint32_t i = 0; i < bound.program().input_count(); ++i) {
    const std::span<std::byte> input = bound.program().input(i);
    std::memset(input.data(), 0, input.size());
  }
  if (!bound.program().run().ok()) std::abort();
}

int claim(bool strict) {
  Bars bars("int8_beats_float", strict);
  int networks = 0;
  for (const Source& source : kSources) {
    const std::optional<PolicyNetwork> network = load_shared(source.name, source.file, source.low, source.high);
    if (!network) continue;
    ++networks;
    std::vector<Ready> programs;
    std::vector<Timed> timed;
    const bool codes = source.name == std::string_view("str_ww");
    for (const char* type : kTypes) {
      if (codes && type == kTypes[3]) type = kFloat8OfCodes;
      programs.push_back(ready(*network, type));
      timed.push_back({type, [bound = programs.back().bound.get()] { run(*bound); }});
    }
    time_in_turns(timed);
    std::printf("%-8s", source.name);
    for (const Timed& t : timed) std::printf(" %s %.1f us", t.name.c_str(), median_seconds(t) * 1e6);
    std::printf("\n");
    const std::string name = source.name;
    bars.at_least(name + ": speed of int8/static in float32's", ratio(timed[0], timed[1]), 1);
    bars.at_least(name + ": speed of float8 in bfloat16's", ratio(timed[2], timed[3]), 1 / 1.5, kNeverFar);
  }
  if (networks == 0) {
    std::printf("none of MLPerf Tiny's networks is there\n");
    return 77;
  }
  return bars.print(std::to_string(networks) + " networks with " + name_of_port(port_named("auto")) + " kernels");
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(int8_beats_float) {
  if (nacre::test::sanitized()) {
    std::printf("times of a sanitized build say nothing\n");
    return 77;
  }
  try {
    return nacre::test::claim(count > 1 && std::strcmp(arguments[1], "strict") == 0);
  } catch (const std::exception& error) {
    std::printf("CLAIM int8_beats_float NOT SHOWN: %s\n", error.what());
    return 1;
  }
}
