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

// Returns whether integer_step() makes the op's cases: an op of training on integer codes.
bool is_of_integers(Op op) {
  return (op >= Op::kConv2dInt8GradientW && op <= Op::kAddErrors) || op == Op::kRoundCodes ||
         op == Op::kInt8CrossEntropy || op == Op::kDenseInt8GradientW || op == Op::kDenseInt8GradientX ||
         op == Op::kBiasInt8Gradient || (op >= Op::kSgdCodes && op <= Op::kWriteCodes) || op == Op::kVerdictCodes ||
         op == Op::kUpdateErrorRange;
}

bool made_here(Op op) {
  return (op >= Op::kOnnxMomentum && op <= Op::kOnnxAdagrad) || op == Op::kUpdateScales || op == Op::kAdjustLossScale ||
         op == Op::kCountStep || op == Op::kUpdateRange || is_of_integers(op);
}

// Makes a step of 3 x 3 taps with stride 1 over 5 x 6 pixels, padded by 1 on each side: 5 x 6 outputs.
Step integer_conv_step(const KernelEntry& entry, Random& random) {
  const bool depthwise = entry.op == Op::kDepthwiseConv2dInt8GradientW || entry.op == Op::kDepthwiseConv2dInt8GradientX;
  const bool of_x = entry.op == Op::kConv2dInt8GradientX || entry.op == Op::kDepthwiseConv2dInt8GradientX;
  const int batch = pick(random, 1, 3), in = pick(random, 1, 40), times = pick(random, 1, 2),
            out = depthwise ? in * times : pick(random, 1, 20);
  const auto array = [&](size_t operand, std::vector<int32_t> dims, double low, double high) {
    Array made = make_array(entry.operands[operand].element, std::move(dims));
    for (int64_t i = 0; i < made.elements(); ++i) made.set(i, between(random, low, high));
    return made;
  };
  const std::vector<int32_t> e = {batch, 5, 6, out}, x = {batch, 5, 6, in},
                             w = depthwise ? std::vector<int32_t>{3, 3, out} : std::vector<int32_t>{out, 3, 3, in};
  std::vector<uint32_t> words = {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0};
  if (!of_x) {
    words[11] = 7;
    return {words, {array(0, e, -127, 127), array(1, x, -128, 127), array(2, w, -9, 9)}};
  }
  words[8] = 1, words[9] = uint32_t(-128), words[10] = 90;
  return {words,
          {array(0, e, -127, 127), array(1, w, -127, 127), array(2, {out}, 0, 900), array(3, x, -128, 127),
           array(4, {2}, -3, 3), array(5, {2}, 9, 20), array(6, {1}, 0, 9)}};
}

Step integer_step(const KernelEntry& entry, Random& random) {
  const int rows = pick(random, 1, 9), in = pick(random, 1, 70), out = pick(random, 2, 40);
  const auto array = [&](size_t operand, std::vector<int32_t> dims, double low, double high) {
    Array made = make_array(entry.operands[operand].element, std::move(dims));
    for (int64_t i = 0; i < made.elements(); ++i) made.set(i, between(random, low, high));
    return made;
  };
  const double most = 1 << 20;
  switch (entry.op) {
    case Op::kRoundCodes: return {{uint32_t(pick(random, 0, 31))}, {array(0, {out, in}, -most, most)}};
    case Op::kInt8CrossEntropy:
      return {{1 << 30, 22, uint32_t(-60)},
              {array(0, {rows, out}, -128, 127), array(1, {rows}, 0, out), array(2, {1}, 0, 9), array(3, {1}, 0, 9)}};
    case Op::kDenseInt8GradientW:
      return {{5}, {array(0, {rows, out}, -127, 127), array(1, {rows, in}, -128, 127), array(2, {out, in}, -9, 9)}};
    case Op::kDenseInt8GradientX:
      return {{uint32_t(-128), 100},
              {array(0, {rows, out}, -127, 127), array(1, {out, in}, -127, 127), array(2, {out}, 0, 900),
               array(3, {rows, in}, -128, 127), chance(random, 50) ? Array() : array(4, {2}, -3, 3),
               array(5, {2}, 9, 20), array(6, {1}, 0, 9)}};
    case Op::kBiasInt8Gradient: return {{}, {array(0, {rows, out}, -127, 127), array(1, {out}, -9, 9)}};
    case Op::kMaskError:
      return {{uint32_t(-9), 90}, {array(0, {rows, in}, -127, 127), array(1, {rows, in}, -128, 127)}};
    case Op::kAddErrors:
      return {{1 << 16, 40000},
              {array(0, {rows, in}, -127, 127), array(1, {rows, in}, -127, 127), array(2, {2}, -3, 3),
               array(3, {2}, -3, 3), array(4, {2}, 15, 19), array(5, {1}, 0, 9)}};
    case Op::kAveragePoolInt8Gradient:
    case Op::kMaxPoolInt8Gradient:
      return {{1, 2, 0, 0, 0, 0, 0, 0, 1, 2},
              {array(0, {rows, 2, 3, in}, -127, 127), array(1, {rows, 5, 9, in}, -128, 127)}};
    case Op::kConv2dInt8GradientW:
    case Op::kDepthwiseConv2dInt8GradientW:
    case Op::kConv2dInt8GradientX:
    case Op::kDepthwiseConv2dInt8GradientX: return integer_conv_step(entry, random);
    case Op::kSgdCodes:
      return {{uint32_t(pick(random, 0, 1)) * (out == in ? 1u : 0u)},
              {array(0, {out, in}, -most, most), array(1, {4}, 0, 1), array(2, {out, 2}, 1, 30),
               chance(random, 50) ? Array() : array(3, {2}, -3, 3), array(4, {out, in}, -most, most)}};
    case Op::kPendingCodes:
      return {{uint32_t(pick(random, 0, 20)), 3},
              {array(0, {out, in}, -most, most), array(1, {out, in}, -127, 127), array(2, {out}, -most, most),
               array(3, {out}, -9, 9)}};
    case Op::kWriteCodes:
      return {{uint32_t(pick(random, 0, 20)), 0, uint32_t(pick(random, 0, out - 1))},
              {array(0, {out}, 0, 9), array(1, {out, in}, -most, most), array(2, {out, in}, -127, 127)}};
    case Op::kVerdictCodes:
      return {{}, {array(0, {in}, -most, most), array(1, {1}, 0, most), array(2, {1}, 0, 99), array(3, {1}, 0, 1)}};
    default: return {{}, {array(0, {1}, 0, most), array(1, {2}, -9, 9), Array(), array(3, {2}, -9, 9)}};
  }
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

// Returns whether the operands of both entries have the same types, except that types of real numbers may differ.
bool same_but_reals(const KernelEntry& a, const KernelEntry& b) {
  const auto same = [](const auto& x, const auto& y) {
    return x.element == y.element || (is_real(x.element) && is_real(y.element));
  };
  return std::equal(a.operands, a.operands + a.operand_count, b.operands, b.operands + b.operand_count, same);
}

// Makes a random step. Training has no float64 cases, so such an entry takes the case of the op's float32 entry.
Step random_step(const KernelEntry& entry, std::span<const reference::NamedEntry> all, Random& random) {
  if (find_case_maker(entry.op) != nullptr) {
    const Case made = random_case(entry, random);
    return {made.words, random_inputs(made, random)};
  }
  if (is_of_integers(entry.op)) return integer_step(entry, random);
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
