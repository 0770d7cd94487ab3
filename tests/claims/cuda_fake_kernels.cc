// The kernels of claim cuda_fake.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/kernels/training.h"
#include "engine/numeric/float8_scale.h"
#include "engine/numeric/loss_scale.h"
#include "ports/fake/fake_driver.h"
#include "tests/cases.h"
#include "tests/cases_random.h"
#include "tests/claims/cuda_fake.h"
#include "tests/claims/kernels_correct_reference.h"

namespace nacre::test {
namespace {

// Ops whose kernels carry a sum from one iteration to the next: one thread does them. All others share their loops.
const std::set<Op> kInOrder = {Op::kLstm,
                               Op::kGru,
                               Op::kLstmGradient,
                               Op::kGruGradient,
                               Op::kPack,
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
                               Op::kLayerNormGradientScale};

struct Step {
  std::vector<uint32_t> words;
  std::vector<Array> inputs;
};

bool is_real(ElementType type) { return type >= ElementType::kFloat32 && type <= ElementType::kFloat64; }

// Ops that no other claim makes cases of.
bool made_here(Op op) {
  return (op >= Op::kOnnxMomentum && op <= Op::kOnnxAdagrad) || op == Op::kUpdateScales || op == Op::kAdjustLossScale ||
         op == Op::kCountStep || op == Op::kUpdateRange;
}

Step step_made_here(const KernelEntry& entry, Random& random) {
  const auto array = [&](size_t operand, int count, double low, double high) {
    Array made = make_array(entry.operands[operand].element, {count});
    for (int64_t i = 0; i < count; ++i) made.set(i, between(random, low, high));
    return made;
  };
  Step step;
  const int n = pick(random, 1, 70);
  switch (entry.op) {
    case Op::kUpdateScales:  // an amax, a scale, a history, counters
      step.words = {bits(448), uint32_t(pick(random, 0, 1)), uint32_t(pick(random, 0, 1)), 0, 0, 0};
      step.inputs = {array(0, 1, 0, 0), array(1, 1, 0.5, 2), array(2, n, 0, 9),
                     array(3, int(ScaleEvent::kCount), 0, 9)};
      step.inputs[0] = array_of<uint32_t>(ElementType::kUint32, {1}, {bits(between(random, 0, 90))});
      break;
    case Op::kAdjustLossScale:
      step.words = {0, uint32_t(LossScale::kDynamic), bits(1024), 2, bits(2), bits(1), bits(65536)};
      step.inputs = {array(0, 1, 0, 0), array(1, 1, 0, 2), array(2, 1, 0, 0), array(3, 3, 0, 3)};
      step.inputs[2] = array_of<double>(ElementType::kFloat32, {1}, {double(1 << pick(random, 0, 15))});
      break;
    case Op::kCountStep: step.inputs = {array(0, 1, 0, 1000)}; break;
    case Op::kUpdateRange:
      step.words = {bits(between(random, 0, 1))};
      step.inputs = {array(0, 2, -4, 4), array(1, 1, 0, 3), array(2, 2, -1, 1)};
      break;
    default:  // rate, count, x, gradient, moments
      step.words = {bits(0.01), bits(0.9), bits(0.99),
                    entry.op == Op::kOnnxMomentum ? uint32_t(pick(random, 0, 1)) : bits(1e-6)};
      step.inputs = {array(0, 1, 0, 0.1), array(1, 1, 0, 9)};
      for (int i = 2; i < input_count(entry); ++i) step.inputs.push_back(array(size_t(i), n, 0, 2));
  }
  return step;
}

// Where only cases of training are there, which have no float64: those of the float32 entry of the op.
Step random_step(const KernelEntry& entry, std::span<const reference::NamedEntry> all, Random& random) {
  if (find_case_maker(entry.op) != nullptr) {
    const Case made = random_case(entry, random);
    return {made.words, random_inputs(made, random)};
  }
  if (made_here(entry.op)) return step_made_here(entry, random);
  const KernelEntry* like = &entry;
  for (const auto& [name, other] : all)
    if (entry.operands[0].element == ElementType::kFloat64 && other->op == entry.op &&
        other->operands[0].element == ElementType::kFloat32 && other->operand_count == entry.operand_count) {
      like = other;
      break;
    }
  const ReferenceCase made = reference_case(*like, random);
  Step step = {made.words, made.inputs};
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const ElementType type = entry.operands[i].element;
    if (!step.inputs[i].present() || !is_real(type) || !is_real(step.inputs[i].element)) continue;
    Array array = make_array(type, step.inputs[i].dims);
    for (int64_t e = 0; e < array.elements(); ++e) array.set(e, step.inputs[i].real(e));
    step.inputs[i] = array;
  }
  return step;
}

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
  std::vector<reference::NamedEntry> named;
  for (const auto& list : {reference::list(), reference::training_list()})
    named.insert(named.end(), list.begin(), list.end());
  std::ranges::stable_sort(named, {}, [](const reference::NamedEntry& e) { return e.entry->op; });
  const std::span<const KernelEntry* const> simulated = fake::simulated_kernels({}).entries;
  if (!tally.that(named.size() == simulated.size(), "every entry is compiled for threads")) return;
  std::map<Op, bool> shares;
  for (size_t e = 0; e < named.size(); ++e) {
    const KernelEntry &entry = *named[e].entry, &threads = *simulated[e];
    if (find_case_maker(entry.op) == nullptr && !has_reference_case(entry.op) && !made_here(entry.op)) {
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
