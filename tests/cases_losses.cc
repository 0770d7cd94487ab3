// Makes random cases of the losses and of their gradients, for tests/ops/loss_test.cc.
#include "tests/cases_losses.h"

#include <bit>

namespace nacre::test {
namespace {

int pick(Random& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }
uint32_t real_word(Random& random, double low, double high) {
  return std::bit_cast<uint32_t>(float(std::uniform_real_distribution<double>(low, high)(random)));
}

std::vector<int32_t> random_dims(Random& random, int rank) {
  std::vector<int32_t> dims;
  for (int i = 0; i < rank; ++i) dims.push_back(pick(random, 1, 4));
  return dims;
}

// Adds the inputs after logits and targets: the sums of a loss, or the seed of its gradient.
void add_rest(const KernelEntry& entry, Case& made) {
  for (int i = 2; i < int(entry.operand_count); ++i)
    if ((entry.operands[i].role & 3) != uint8_t(Role::kOut))
      made.inputs.push_back({.element = entry.operands[i].element, .dims = {1}, .low = 0.5, .high = 8});
}

// Labels are in [0, classes), since the generator draws integers evenly. With `ignore` one of the classes, or the
// label -1, which does not occur, means "no label".
void softmax_cross_entropy(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 1, 4), classes = pick(random, 1, 9);
  const std::vector<int32_t> labels = random_dims(random, rank - 1);
  std::vector<int32_t> logits = labels;
  logits.push_back(classes);
  made.words = {pick(random, 0, 1) != 0 ? real_word(random, 0, 1) : 0, uint32_t(pick(random, 0, 1)),
                uint32_t(pick(random, -1, classes - 1))};
  made.inputs = {{.element = entry.operands[0].element, .dims = logits, .low = -6, .high = 6},
                 {.element = ElementType::kInt32, .dims = labels, .low = 0, .high = double(classes - 1)}};
  if (rank != 2) made.traits |= kRankTrait;
  add_rest(entry, made);
}

void dense_cross_entropy(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 1, 4);
  const std::vector<int32_t> dims = random_dims(random, rank);
  made.words = {pick(random, 0, 1) != 0 ? real_word(random, 0, 1) : 0};
  made.inputs = {{.element = entry.operands[0].element, .dims = dims, .low = -6, .high = 6},
                 {.element = entry.operands[1].element, .dims = dims, .low = 0, .high = 1}};
  if (rank != 2) made.traits |= kRankTrait;
  add_rest(entry, made);
}

// Does not avoid the kinks of absolute_error (y = t) and huber (|y - t| = delta), which random values hardly ever
// meet.
void elementwise(const KernelEntry& entry, Random& random, Case& made) {
  const bool huber = entry.op == Op::kHuber || entry.op == Op::kHuberGradient;
  const bool sigmoid = entry.op == Op::kSigmoidCrossEntropy || entry.op == Op::kSigmoidCrossEntropyGradient;
  const int rank = pick(random, 1, 4);
  const std::vector<int32_t> dims = random_dims(random, rank);
  if (huber) made.words = {real_word(random, 0.2, 3)};
  made.inputs = {
      {.element = entry.operands[0].element, .dims = dims, .low = -4, .high = 4},
      {.element = entry.operands[1].element, .dims = dims, .low = sigmoid ? 0.0 : -4.0, .high = sigmoid ? 1.0 : 4.0}};
  if (rank != 2) made.traits |= kRankTrait;
  add_rest(entry, made);
}

struct Row {
  Op op, gradient;
  CaseMaker make;
};

constexpr Row kRows[] = {
    {Op::kSoftmaxCrossEntropy, Op::kSoftmaxCrossEntropyGradient, &softmax_cross_entropy},
    {Op::kDenseCrossEntropy, Op::kDenseCrossEntropyGradient, &dense_cross_entropy},
    {Op::kSigmoidCrossEntropy, Op::kSigmoidCrossEntropyGradient, &elementwise},
    {Op::kSquaredError, Op::kSquaredErrorGradient, &elementwise},
    {Op::kAbsoluteError, Op::kAbsoluteErrorGradient, &elementwise},
    {Op::kHuber, Op::kHuberGradient, &elementwise},
};

}  // namespace

CaseMaker find_loss_case_maker(Op op) {
  for (const Row& row : kRows)
    if (row.op == op || row.gradient == op) return row.make;
  return nullptr;
}

}  // namespace nacre::test
