// The part `kernels` of claim cuda_fake.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/kernels/training.h"
#include "tests/claims/cuda_fake.h"
#include "tests/claims/cuda_steps.h"
#include "tests/fake/fake_driver.h"

namespace nacre::test {
namespace {

// Ops whose kernels carry a sum, or a remainder, from one iteration to the next, so that one thread does them. All
// other ops share their loops.
const std::set<Op> kInOrder = {Op::kPack,
                               Op::kVerdict,
                               Op::kUpdateScales,
                               Op::kAdjustLossScale,
                               Op::kCountStep,
                               Op::kUpdateRange,
                               Op::kObserveRange,
                               Op::kFakeQuantizeGradientScale,
                               Op::kSquaredError,
                               Op::kAbsoluteError,
                               Op::kHuber,
                               Op::kSigmoidCrossEntropy,
                               Op::kSoftmaxCrossEntropy,
                               Op::kDenseCrossEntropy,
                               Op::kLayerNormGradientScale,
                               Op::kNonMaxSuppression,
                               Op::kInt8CrossEntropy,
                               Op::kVerdictCodes,
                               Op::kUpdateErrorRange};

bool same(const Execution& a, const Execution& b) {
  const auto equal = [](const std::vector<Array>& x, const std::vector<Array>& y) {
    bool all = x.size() == y.size();
    for (size_t i = 0; all && i < x.size(); ++i) all = x[i].bytes == y[i].bytes;
    return all;
  };
  return a.code == b.code && equal(a.outputs, b.outputs) && equal(a.updated, b.updated);
}

}  // namespace

void try_kernels_on_threads(CudaTally& tally, int cases, uint64_t seed) {
  const std::vector<reference::NamedEntry> named = all_entries();
  const std::span<const KernelEntry* const> simulated = fake::simulated_kernels({}).entries;
  if (!tally.that(named.size() == simulated.size(), "every entry is compiled for threads")) return;
  std::map<Op, bool> shares;
  for (size_t e = 0; e < named.size(); ++e) {
    const KernelEntry &entry = *named[e].entry, &threads = *simulated[e];
    if (!has_steps(entry)) {
      tally.that(false, std::string(named[e].name) + ": has no cases");
      continue;
    }
    Random random(seed * 1000 + e);
    for (int i = 0; i < cases; ++i, ++tally.cases) {
      const Step step = random_step(entry, named, random);
      const Execution host = execute(entry, step.words, step.inputs);
      tally.that(host.code == Code::kOk || host.code == Code::kIndex,
                 std::string(named[e].name) + ": runs on the host");
      for (const uint64_t order : {seed, seed + 1}) {
        fake::simulated_kernels({.most_threads = order == seed ? 9u : 200u, .seed = order * 77 + uint64_t(i)});
        const Execution device = execute(threads, step.words, step.inputs);
        tally.that(same(host, device) && !device.overrun && !device.impure,
                   std::string(named[e].name) + ": threads give the host's bytes");
      }
      for (int slot = 0; slot < 8 && slot < int(step.inputs.size()); ++slot) {
        if ((entry.in_place >> slot & 1) == 0 || host.code != Code::kOk ||
            step.inputs[size_t(slot)].bytes.size() != host.outputs[0].bytes.size())
          continue;
        tally.that(execute_in_place(threads, step.words, step.inputs, slot).outputs[0].bytes == host.outputs[0].bytes,
                   std::string(named[e].name) + ": threads give the host's bytes in place");
      }
      fake::simulated_kernels({.most_threads = 9, .seed = seed, .first_thread_alone = true});
      shares[entry.op] |= !same(host, execute(threads, step.words, step.inputs));
    }
  }
  for (const auto& [op, found] : shares) {
    tally.threads_share += found;
    tally.that(found != kInOrder.contains(op),
               "op " + std::to_string(int(op)) + (found ? ": is listed as one thread's" : ": one thread does all"));
  }
}

}  // namespace nacre::test
