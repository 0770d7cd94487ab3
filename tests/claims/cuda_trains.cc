// Claim: models train on a real GPU. After 200 steps the loss is within 1% of the host's, or within twice the change
// of the host's loss if inputs move by a last place. A step with an infinite input is refused if the host refuses it.
// It then changes nothing in the state but the loss scale and its counters.
//
//   cuda_trains [simulated] MODEL..                                        simulated: on the tests' device
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/claims/claims.h"
#include "tests/claims/cuda_models.h"
#include "tests/claims/cuda_tally.h"

namespace nacre::test {
namespace {

constexpr uint32_t kSteps = 200;

// Returns the unit in the last place of the coarsest of float32, float16 and bfloat16 that a tensor of the model has.
float unit_of(const Model& model) {
  float unit = 0x1p-23f;
  for (const TensorRecord& tensor : model.tensors()) {
    if (tensor.element == ElementType::kFloat16) unit = std::max(unit, 0x1p-10f);
    if (tensor.element == ElementType::kBfloat16) unit = std::max(unit, 0x1p-7f);
  }
  return unit;
}

// The host's training: its loss after all steps, whether it then applies a step with an infinity, and how far its
// loss moves if inputs move by a last place. Another order of sums may move the loss as far.
struct HostTraining {
  bool trained = false, applied = false;
  float loss = 0, spread = 0;
};

// Trains with inputs that are moved by this many last places.
HostTraining train_on_host(const Block& file, float places) {
  Bound bound;
  Trainer::Report report;
  HostTraining made;
  made.trained = bound.train(file, nullptr, nullptr).ok();
  for (uint32_t i = 0; made.trained && i < kSteps; ++i)
    made.trained = train_step(bound, i, false, &report, places * unit_of(bound.model));
  made.loss = report.loss;
  made.trained = made.trained && train_step(bound, 0, true, &report);
  made.applied = report.applied;
  return made;
}

// Trains the models on the host, all side by side, with the reference kernels. Returns the results by path.
std::map<std::string, HostTraining> train_on_host(int count, char** paths) {
  struct Running {
    Block file;
    std::vector<std::future<HostTraining>> runs;
  };
  std::map<std::string, Running> running;
  for (int i = 0; i < count; ++i) {
    Running& of = running[paths[i]];
    if (!read_model(paths[i], &of.file) || !of.runs.empty()) continue;
    for (const float places : {0.f, 1.f, -1.f, 0.5f, -0.5f})
      of.runs.push_back(std::async(std::launch::async, [&of, places] { return train_on_host(of.file, places); }));
  }
  std::map<std::string, HostTraining> made;
  for (auto& [path, of] : running) {
    HostTraining& host = made[path];
    for (std::future<HostTraining>& run : of.runs) {
      const HostTraining other = run.get();
      if (&run == &of.runs.front()) host = other;
      host.trained = host.trained && other.trained;
      host.spread = std::max(host.spread, std::abs(other.loss - host.loss));
    }
  }
  return made;
}

void train(Tally& tally, cuda::Device& device, const std::string& path, const HostTraining& host) {
  Block file;
  if (!tally.that(host.trained && read_model(path.c_str(), &file), path + ": trains on the host")) return;
  const Port* const ports[] = {nullptr, &device.port()};
  Places places(ports);
  places.keep(1);
  Bound gpu;
  if (!tally.that(gpu.train(file, &places, &device).ok(), path + ": is bound to the device: " + device.sentence()))
    return;
  Trainer::Report found;
  for (uint32_t i = 0; i < kSteps; ++i)
    if (!tally.that(train_step(gpu, i, false, &found), path + ": takes a step: " + device.sentence())) return;
  std::printf("%s: loss after %u steps %.6g on the host, %.6g on the device; %.2g is how far the host's moves\n",
              path.c_str(), kSteps, double(host.loss), double(found.loss), double(host.spread));
  tally.that(std::abs(found.loss - host.loss) <= std::max(0.01f * std::abs(host.loss), 2 * host.spread) + 1e-6f,
             path + ": the loss is near the host's");
  // A step with an infinity that the host refuses changes only the loss scale and its counters in the state. Float8
  // codes hold no infinity, so such a step is applied.
  const std::vector<std::byte> before(gpu.trainer.state().begin(), gpu.trainer.state().end());
  if (!tally.that(train_step(gpu, 0, true, &found), path + ": takes a step with an infinity")) return;
  size_t changed = 0;
  for (size_t i = 0; i < before.size(); ++i) changed += before[i] != gpu.trainer.state()[i];
  tally.that(found.applied == host.applied && (found.applied || changed <= 16),
             path + ": a refused step leaves the state as it was");
  ++tally.models;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(cuda_trains) {
  using namespace nacre;
  std::optional<std::map<std::string, test::HostTraining>> host;  // only if there is a device
  return test::on_gpu("cuda_trains", count, arguments,
                      [&host](test::Tally& tally, cuda::Device& device, int n, char** words) {
                        if (!host) host = test::train_on_host(n - 1, words + 1);
                        for (int i = 1; i < n; ++i) test::train(tally, device, words[i], host->at(words[i]));
                      });
}
