// Profiles a model on a GPU: lists its kernels by the time that each takes in all its steps, from the device's clock.
// It shows nothing, so it is no claim; bench/cuda.sh profile runs it.
//
//   cuda_profile [simulated] MODEL...
//
// Steps are launched one by one, each between two events. Two runs are not counted; the least of 5 runs is printed.
// For training models whole training steps are run. cuBLASLt makes products if it is installed.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/claims/claims.h"
#include "tests/claims/cuda_models.h"

namespace nacre::test {
namespace {

constexpr int kRuns = 5, kMostLines = 14;

struct Share {
  const char* kernel;
  int steps = 0;
  double us = 0;
};

bool run(Bound& bound, bool training) {
  Trainer::Report report;
  if (training) return train_step(bound, 1, false, &report);
  bound.fill_inputs(1);
  return bound.program.run().ok();
}

// Returns the shares by kernel, the longest first.
std::vector<Share> shares(std::span<const cuda::Device::Time> times) {
  std::map<std::string, Share> by_kernel;
  for (const cuda::Device::Time& time : times) {
    Share& share = by_kernel[time.kernel];
    share.kernel = time.kernel, ++share.steps, share.us += double(time.us);
  }
  std::vector<Share> made;
  for (const auto& [name, share] : by_kernel) made.push_back(share);
  std::ranges::stable_sort(made, std::greater(), &Share::us);
  return made;
}

bool profile(cuda::Device& device, const std::string& path) {
  Block file;
  const Port* const ports[] = {nullptr, &device.port()};
  Places places(ports);
  Bound bound;
  uint32_t index = 0;
  if (!read_model(path.c_str(), &file) || !bound.model.open(file.bytes()).ok()) return false;
  const bool training = bound.model.find(Entry::kGradients, nullptr, &index).ok();
  if (training) places.keep(1);
  else if (!bound.model.find(Entry::kInfer, nullptr, &index).ok()) return false;
  if (!(training ? bound.train(file, &places, &device) : bound.infer(file, index, &places, &device)).ok()) return false;
  bool ran = run(bound, training) && run(bound, training);
  std::vector<Share> least;
  double least_us = 0;
  for (int i = 0; i < kRuns && ran; ++i) {
    device.time(cuda::Device::Timing::kSteps);
    ran = run(bound, training);
    double us = 0;
    for (const cuda::Device::Time& time : device.times()) us += double(time.us);
    if (ran && (least.empty() || us < least_us)) least = shares(device.times()), least_us = us;
  }
  device.time(cuda::Device::Timing::kNone);
  std::printf("%s: %.1f us\n", path.c_str(), least_us);
  for (size_t i = 0; i < least.size() && i < size_t(kMostLines); ++i)
    std::printf("  %-36s %4d steps %10.1f us\n", least[i].kernel, least[i].steps, least[i].us);
  bound.program.unbind();
  return ran;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(cuda_profile) {
  using namespace nacre::test;
  const bool simulated = count > 1 && std::strcmp(arguments[1], "simulated") == 0;
  Gpu gpu(simulated, true);
  if (!gpu.open) return std::printf("%s\n", gpu.device.sentence()), 77;
  for (int i = simulated ? 2 : 1; i < count; ++i)
    if (!profile(gpu.device, arguments[i])) return std::printf("%s: %s\n", arguments[i], gpu.device.sentence()), 1;
  return 0;
}
