// Networks under policies: what the claims about policies compile and run.
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

// Every form of a policy that a layer can run under.
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

// Policies that change from layer to layer of the digits sample, as --set gives them: where casts, quantizers and
// clamps of different policies meet.
inline constexpr const char* kMixedMaps[] = {
    "relu4=int8_from_bfloat16",
    "relu4=float16 add=params=float32,compute=bfloat16,output=float16",
    "relu3=params=float32,compute=bfloat16,output=float16",
    "relu1=int4/16_from_float16",
    "conv1=float8_from_float32 depthwise=float8_from_float32 pointwise=float16",
    "conv4=int8/static_from_float32 relu4=int8/static_from_float32 conv5=float16 add=bfloat16",
};

// A network, what it was calibrated on, and inputs to run it on.
struct PolicyNetwork {
  std::string name;
  tools::Graph graph;  // simplified
  tools::Calibration calibration;
  std::vector<std::vector<uint8_t>> inputs;  // per sample the bytes of all inputs, float32
};

// The digits sample with 32 of its images; IC and KWS of the shared data with uniform inputs over the range of the int8
// files' inputs, from a seed. Empty where the shared data is missing.
std::optional<PolicyNetwork> load_digits();
std::optional<PolicyNetwork> load_shared(const std::string& name, const std::string& file, float low, float high,
                                         size_t count = 3);

tools::PolicyArguments everywhere(const std::string& policy);
tools::PolicyArguments by_layer(const std::string& rules);  // of kMixedMaps
tools::Compiled compile_under(const PolicyNetwork& network, const tools::PolicyArguments& policies, bool fuse = true,
                              tools::IoTypes io_types = tools::IoTypes::kSource);

// Every tensor of one run by its name, at the moment it is complete.
std::map<std::string, std::vector<uint8_t>> run_all(const tools::LoadedModel& model,
                                                    const std::vector<uint8_t>& inputs);

}  // namespace nacre::test
