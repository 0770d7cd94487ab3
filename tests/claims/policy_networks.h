// Networks under policies, which the claims about policies compile and run.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/compile/compile.h"
#include "tools/model/loaded_model.h"

namespace nacre::test {

// Forms of policy, under each of which the claims compile networks.
inline constexpr const char* kPolicies[] = {
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "mixed_float16",
    "mixed_bfloat16",
    "params=float32,compute=bfloat16,output=float32",
    "int8_from_float32",
    "int8_from_mixed_bfloat16",
    "int8/static_from_float32",
    "int8/weights_from_float32",
    "int8/weights_from_mixed_float16",
    "int4_from_float32",
    "int4/32_from_float32",
    "int4/32_from_mixed_bfloat16",
    "gptq/4/32_from_float32",
    "gptq/8/64_from_mixed_bfloat16",
    "awq/4/32_from_float32",
    "float8_from_float32",
    "float8/16_from_mixed_bfloat16",
    "float8/current_from_float32",
};

// Maps of policies for the digits sample, in the form of --set. Casts, quantizers and clamps of different policies
// meet where the policy changes from layer to layer.
inline constexpr const char* kMixedMaps[] = {
    "relu4=int8_from_bfloat16",
    "relu4=float16 add=params=float32,compute=bfloat16,output=float16",
    "relu3=params=float32,compute=bfloat16,output=float16",
    "relu1=int4/16_from_float16",
    "conv1=float8_from_float32 depthwise=float8_from_float32 pointwise=float16",
    "conv4=int8/static_from_float32 relu4=int8/static_from_float32 conv5=float16 add=bfloat16",
};

// A network, its calibration, and inputs to run it on.
struct PolicyNetwork {
  std::string name;
  tools::Graph graph;  // simplified
  tools::Calibration calibration;
  std::vector<std::vector<uint8_t>> inputs;  // for each sample, the bytes of all inputs, float32
};

// load_digits() loads the digits sample with 32 of its images. load_shared() loads a network of the shared data with
// `count` inputs from a seed, uniform in [low, high). It returns nothing if the file is missing.
std::optional<PolicyNetwork> load_digits();
std::optional<PolicyNetwork> load_shared(const std::string& name, const std::string& file, float low, float high,
                                         size_t count = 3);

tools::PolicyArguments everywhere(const std::string& policy);
tools::PolicyArguments by_layer(const std::string& rules);  // one of kMixedMaps
tools::Compiled compile_under(const PolicyNetwork& network, const tools::PolicyArguments& policies, bool fuse = true,
                              tools::IoTypes io_types = tools::IoTypes::kSource);

// Returns every tensor of one run by its name, taken when it is complete.
std::map<std::string, std::vector<uint8_t>> run_all(const tools::LoadedModel& model,
                                                    const std::vector<uint8_t>& inputs);

}  // namespace nacre::test
