#include "tests/claims/cuda_steps.h"

#include <algorithm>

#include "engine/kernels/training.h"
#include "engine/numeric/float8_scale.h"
#include "engine/numeric/loss_scale.h"
#include "tests/cases.h"
#include "tests/cases_random.h"
#include "tests/claims/kernels_correct_reference.h"

namespace nacre::test {
namespace {

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

}  // namespace

std::vector<reference::NamedEntry> all_entries() {
  std::vector<reference::NamedEntry> named;
  for (const auto& list : {reference::list(), reference::training_list()})
    named.insert(named.end(), list.begin(), list.end());
  std::ranges::stable_sort(named, {}, [](const reference::NamedEntry& e) { return e.entry->op; });
  return named;
}

bool has_steps(const KernelEntry& entry) {
  return find_case_maker(entry.op) != nullptr || has_reference_case(entry.op) || made_here(entry.op);
}

// Whether the operands of both are of the same types, but for those of real numbers.
bool same_but_reals(const KernelEntry& a, const KernelEntry& b) {
  const auto same = [](const auto& x, const auto& y) {
    return x.element == y.element || (is_real(x.element) && is_real(y.element));
  };
  return std::equal(a.operands, a.operands + a.operand_count, b.operands, b.operands + b.operand_count, same);
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
        other->operands[0].element == ElementType::kFloat32 && same_but_reals(*other, entry)) {
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

}  // namespace nacre::test
