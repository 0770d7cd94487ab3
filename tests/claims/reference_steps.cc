#include "tests/claims/reference_steps.h"

#include <fnmatch.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "ports/x86/x86.h"
#include "tests/claims/encoder_network.h"
#include "tests/claims/policy_networks.h"
#include "tests/project_path.h"
#include "tools/base/error.h"
#include "tools/compile/training.h"
#include "tools/model/kernel_choice.h"
#include "tools/policies/policy_request.h"
#include "tools/report/report_json.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

std::string models() { return shared_path("models/mlperf_tiny/"); }

constexpr const char* kFiles[] = {
    "ad01_int8",        "ad01_fp32",   "kws_ref_model", "kws_ref_model_float32", "pretrainedResnet_quant",
    "pretrainedResnet", "vww_96_int8", "vww_96_float",  "str_ww_ref_model"};

// Networks that are trained, each under every policy of kTrainedPolicies and with every one of kOptimizers.
constexpr std::pair<const char*, Loss> kTrainedFiles[] = {{"ad01_fp32", Loss::kSquaredError},
                                                          {"pretrainedResnet", Loss::kSoftmaxCrossEntropy},
                                                          {"vww_96_float", Loss::kSoftmaxCrossEntropy}};
constexpr const char* kTrainedPolicies[] = {"float32", "mixed_bfloat16", "mixed_float16"};
constexpr Optimizer kOptimizers[] = {Optimizer::kSgd, Optimizer::kMomentum, Optimizer::kAdam, Optimizer::kAdamW};

std::vector<uint8_t> trained(const Graph& graph, Loss loss, const std::string& policy, Optimizer optimizer) {
  TrainingOptions training;
  training.loss.kind = loss;
  training.optimizer.kind = optimizer;
  CompileOptions compiling;
  compiling.policies = parse_policy_options(everywhere(policy));
  return compile_training(graph, training, compiling).bytes;
}

}  // namespace

ReferenceSteps::ReferenceSteps() {
  const std::string path = project_path("tests/claims/reference_steps.txt");
  std::ifstream file(path);
  if (!file) throw Error(kIo, path, "cannot be read");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) throw Error(kBadInput, path, "has a line without a reason: " + line);
    lines_.push_back({line.substr(0, colon), line.substr(colon + 2)});
  }
}

bool ReferenceSteps::listed(const std::string& kernel) {
  for (Line& line : lines_) {
    if (fnmatch(line.pattern.c_str(), kernel.c_str(), 0) != 0) continue;
    ++line.steps[kernel];
    return true;
  }
  return false;
}

void ReferenceSteps::count(const LoadedModel& model, const std::string& what) {
  for (uint32_t program = 0; program < model.model().program_count(); ++program)
    for (uint32_t i = 0; i < uint32_t(x86::Tier::kCount); ++i)
      count_program(model, program, x86::name(x86::Tier(i)), what);
}

void ReferenceSteps::count_program(const LoadedModel& model, uint32_t program, const std::string& tier,
                                   const std::string& what) {
  const Json told = program_json(ProgramReport(model, program, "x86/" + tier));
  std::optional<BoundProgram> bound;
  if (set_runs_here(tier)) bound.emplace(model, program, port_named(tier));
  uint32_t step = 0, left = 0;
  for (const Json& row : told["steps"]) {
    const std::string op = row["op"], kernel = row["kernel"].is_null() ? "none" : row["kernel"].get<std::string>();
    const std::string place = what + ", " + tier + ", " + op;
    if (bound) {
      ++bound_;
      const std::string taken = name_of_kernel(bound->program().kernel(step), tier);
      if (taken != kernel) ++untrue_[place + ": inspect names " + kernel + ", bind takes " + taken];
    }
    const bool reference = kernel.starts_with("reference/");
    if (reference != row["reference"].get<bool>()) ++untrue_[place + ": its mark is wrong"];
    ++step, ++steps_;
    if (!reference) continue;
    ++left;
    if (!listed(kernel.substr(kernel.find('/') + 1))) ++untrue_[kernel + " is not in reference_steps.txt"];
  }
  if (left != told["reference_steps"].get<uint32_t>()) ++untrue_[what + ", " + tier + ": the count is wrong"];
  reference_ += left;
  tiers_.insert(tier);
  ++programs_;
}

void ReferenceSteps::count_networks() {
  const auto infer = [&](const std::string& path, const std::string& name) {
    count(LoadedModel(compile(load_network(path), {}).bytes, name, ""), name);
  };
  const auto train = [&](const Graph& graph, Loss loss, const std::string& name) {
    for (const char* policy : kTrainedPolicies)
      for (const Optimizer optimizer : kOptimizers)
        count(LoadedModel(trained(graph, loss, policy, optimizer), name, ""), name + " trained, " + policy);
  };
  const std::string digits = project_path("tools/samples/digits.onnx");
  infer(digits, "digits");
  train(load_network(digits, {}, kSimplifyToTrain), Loss::kSoftmaxCrossEntropy, "digits");
  const EncoderShape shape = {.layers = 1, .hidden = 32, .heads = 2, .between = 64, .tokens = 8};
  train(encoder_network(shape, 7), Loss::kSquaredError, "encoder");
  for (const char* file : kFiles) {
    const std::string path = models() + file + ".tflite";
    std::filesystem::exists(path) ? infer(path, file) : void(++missing_);
  }
  for (const auto& [file, loss] : kTrainedFiles)
    if (std::filesystem::exists(models() + file + ".tflite"))
      train(load_network(models() + file + ".tflite", {}, kSimplifyToTrain), loss, file);
}

int ReferenceSteps::print() const {
  int untrue = 0;
  for (const auto& [line, times] : untrue_)
    ++untrue, std::printf("UNTRUE %s (%llu)\n", line.c_str(), static_cast<unsigned long long>(times));
  for (const Line& line : lines_) {
    if (line.steps.empty() && missing_ > 0) continue;  // the line may be for a network that is missing here
    if (line.steps.empty()) {
      ++untrue, std::printf("UNTRUE reference_steps.txt: no step is left to %s\n", line.pattern.c_str());
      continue;
    }
    std::printf("reference %s: %s\n   ", line.pattern.c_str(), line.reason.c_str());
    for (const auto& [kernel, steps] : line.steps)
      std::printf(" %s %llu", kernel.c_str(), static_cast<unsigned long long>(steps));
    std::printf("\n");
  }
  return untrue;
}

std::string ReferenceSteps::text() const {
  return "on " + std::to_string(tiers_.size()) + " tiers " + std::to_string(steps_) + " steps of " +
         std::to_string(programs_) + " programs, " + std::to_string(bound_) +
         " of them bound here to the kernel that inspect names; " + std::to_string(reference_) +
         " run on reference kernels";
}

}  // namespace nacre::test
