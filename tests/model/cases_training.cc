// A training model written by hand: softmax regression with momentum, a dynamic loss scale and micro-batches of 4. It
// has every region, every kind of program, aliases in the step block, and guards.

#include <bit>

#include "engine/numeric/loss_scale.h"
#include "tests/model/builder.h"

namespace nacre::test {
namespace {

constexpr ElementType kF32 = ElementType::kFloat32, kI32 = ElementType::kInt32, kU32 = ElementType::kUint32;
constexpr int kRows = 4, kFeatures = 4, kClasses = 3;

uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }

struct Learner {
  Draft d;
  uint32_t w, b, velocity, steps, scale, counters, copy, sums, dw, db, loss, count;

  Learner() {
    std::vector<float> first(kClasses * kFeatures);
    for (size_t i = 0; i < first.size(); ++i) first[i] = float(int(i * 37 % 101) - 50) * 0.01f;
    const uint32_t w0 = d.weights<float>({kClasses, kFeatures}, first), scale0 = d.weights<float>({1}, {1024});
    w = d.global(Region::kState, kF32, {kClasses, kFeatures}, kTrainable);
    b = d.global(Region::kState, kF32, {kClasses}, kTrainable);
    velocity = d.global(Region::kState, kF32, {kClasses, kFeatures});
    steps = d.global(Region::kState, kU32, {1});
    scale = d.global(Region::kState, kF32, {1});
    counters = d.global(Region::kState, kU32, {3});
    d.tensors[w].initial = w0, d.tensors[scale].initial = scale0;
    copy = d.global(Region::kDerived, kF32, {kClasses, kFeatures});
    sums = d.global(Region::kStep, kF32, {kClasses * kFeatures + kClasses});
    loss = d.global(Region::kStep, kF32, {1});
    count = d.global(Region::kStep, kF32, {1});
    dw = d.alias(sums, {kClasses, kFeatures}, 0, 0);
    db = d.alias(sums, {kClasses}, 0, 0, 4 * kClasses * kFeatures);
  }

  uint32_t arena(ElementType type, std::vector<int32_t> dims, uint32_t first, uint32_t last, uint64_t offset,
                 uint16_t flags = 0) {
    return d.arena(type, std::move(dims), first, last, offset, kNoIndex, flags);
  }

  void infer() {
    const uint32_t x = arena(kF32, {kRows, kFeatures}, 0, 0, 0, kInput | kBatched);
    const uint32_t logits = arena(kF32, {kRows, kClasses}, 0, 1, 64, kBatched);
    const uint32_t y = arena(kF32, {kRows, kClasses}, 1, 1, 112, kOutput | kBatched);
    d.step(Op::kDense, {}, {x, copy, b}, {logits});
    d.step(Op::kSoftmax, {}, {logits}, {y});
    d.program(Entry::kInfer, "host", {160}, kRows);
  }

  // Adds forward pass, loss and backward pass, from the program's first step on.
  void backward(uint32_t last_x, uint32_t rate_last, uint32_t* rate) {
    const uint32_t x = arena(kF32, {kRows, kFeatures}, 0, last_x, 0, kInput | kBatched);
    const uint32_t labels = arena(kI32, {kRows}, 0, 2, 64, kInput | kBatched);
    if (rate != nullptr) *rate = arena(kF32, {1}, 0, rate_last, 176, kInput);
    const uint32_t logits = arena(kF32, {kRows, kClasses}, 0, rate == nullptr ? 4 : 2, 80,
                                  uint16_t(kBatched | (rate == nullptr ? kOutput : 0)));
    const uint32_t dlogits = arena(kF32, {kRows, kClasses}, 2, 4, 128, kBatched);
    d.step(Op::kDense, {}, {x, copy, b}, {logits});
    d.step(Op::kSoftmaxCrossEntropy, {0, 1, ~uint32_t{0}}, {logits, labels, update(loss), update(count)}, {});
    d.step(Op::kSoftmaxCrossEntropyGradient, {0, 1, ~uint32_t{0}}, {logits, labels, scale}, {dlogits});
    d.step(Op::kDenseGradientW, {}, {dlogits, x, update(dw)}, {});
    d.step(Op::kBiasGradient, {}, {dlogits, update(db)}, {});
  }

  // Adds the verdict, as step `at` of the program, all steps that it guards, and the update of the loss scale.
  void commit(uint32_t at, uint32_t rate, uint64_t offset) {
    const uint32_t apply = arena(kU32, {1}, at, at + 4, offset, kOutput);
    const uint32_t amax = arena(kU32, {1}, at, at + 4, offset + 16, kOutput);
    const uint32_t report = arena(kF32, {4}, at, at + 4, offset + 32, kOutput);
    d.step(Op::kVerdict, {}, {sums, loss, count, scale}, {apply, amax, report});
    const uint32_t guarded[] = {
        d.step(Op::kMomentum, {0, 0, bits(0.5f)}, {dw, report, rate, update(w), update(velocity)}, {}),
        d.step(Op::kSgd, {}, {db, report, rate, update(b)}, {}), d.step(Op::kCountStep, {}, {update(steps)}, {})};
    for (const uint32_t step : guarded) d.steps[step].guard = apply;
    d.step(
        Op::kAdjustLossScale,
        {uint32_t(LossScaleSystem::kNacre), uint32_t(LossScale::kDynamic), bits(1024), 6, bits(2), bits(1), bits(4096)},
        {amax, apply, update(scale), update(counters)}, {});
  }

  void derive() {
    d.step(Op::kCopy, {}, {w}, {copy});
    d.program(Entry::kDerive, "host", {0});
  }
};

}  // namespace

Draft training() {
  Learner l;
  l.infer();
  l.backward(3, 0, nullptr);
  l.d.program(Entry::kGradients, "host", {176}, kRows);
  const uint32_t rate = l.arena(kF32, {1}, 0, 2, 0, kInput);
  l.commit(0, rate, 16);
  l.d.program(Entry::kUpdate, "host", {64});
  l.derive();
  return l.d;
}

Draft training_immediate() {
  Learner l;
  l.infer();
  uint32_t rate = 0;
  l.backward(3, 7, &rate);
  l.commit(5, rate, 192);
  l.d.program(Entry::kUpdate, "host", {240}, kRows);
  l.derive();
  return l.d;
}

}  // namespace nacre::test
