// Layers of larger networks: their gradients, read from their tables as differentiate reads them, against central differences
// in float64; random numbers against known answers; what is found in data.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/kernels/reference.h"
#include "engine/kernels/training.h"
#include "engine/numeric/philox.h"
#include "engine/ops/all.h"
#include "tests/cases_random.h"

namespace nacre::tests {
namespace {

constexpr ElementType kF64 = ElementType::kFloat64, kF32 = ElementType::kFloat32, kU32 = ElementType::kUint32;

bool real(ElementType type) {
  return type == kF64 || type == kF32 || type == ElementType::kFloat16 || type == ElementType::kBfloat16;
}

struct Operand {
  Array array;
  Role role = Role::kIn;
};

// A step on operands of its own, all given: inputs, updated ones, outputs.
struct Step {
  std::vector<TensorRecord> records;
  std::vector<Tensor> tensors;
  std::vector<uint64_t> call;

  explicit Step(std::vector<Operand>& operands) {
    records.reserve(operands.size());
    for (Operand& operand : operands) {
      if (!operand.array.present()) {
        tensors.push_back({nullptr, nullptr});
        continue;
      }
      TensorRecord record = {};
      record.element = operand.array.element;
      record.rank = uint8_t(operand.array.dims.size());
      std::copy(operand.array.dims.begin(), operand.array.dims.end(), record.dims);
      record.bytes = operand.array.bytes.size();
      records.push_back(record);
      tensors.push_back({operand.array.bytes.data(), &records.back()});
    }
  }

  Code run(const KernelEntry& entry, const std::vector<uint32_t>& words) {
    StepRecord step = {};
    step.op = entry.op;
    step.operand_count = uint8_t(tensors.size());
    call.resize((sizeof(Call) + tensors.size() * sizeof(Tensor) + 7) / 8);
    const Call head = {entry.run, &step, nullptr};
    std::memcpy(call.data(), &head, sizeof head);
    std::memcpy(reinterpret_cast<uint8_t*>(call.data()) + sizeof head, tensors.data(), tensors.size() * sizeof(Tensor));
    const Words view = {words.data(), int(words.size())};
    const Operands all = {tensors.data(), int(tensors.size()), 0};
    std::vector<std::byte> scratch(entry.scratch_bytes == nullptr ? 0 : entry.scratch_bytes(view, all), std::byte{0x7F});
    return entry.run({.call = *reinterpret_cast<const Call*>(call.data()),
                      .words = view,
                      .rows = 0,
                      .scratch = scratch,
                      .workers = nullptr});
  }
};

// The kernel of either set that takes these operands; null if there is none.
const KernelEntry* find_entry(Op op, const std::vector<Operand>& operands) {
  for (const KernelSet* set : {&reference::training_kernels(), &reference::kernels()})
    for (const KernelEntry* entry : set->entries) {
      bool fits = entry->op == op && entry->operand_count == operands.size();
      for (size_t i = 0; fits && i < operands.size(); ++i) {
        const OperandType type = entry->operands[i];
        fits = Role(type.role & 3) == operands[i].role &&
               (operands[i].array.present() ? operands[i].array.element == type.element : (type.role & kOptional) != 0);
      }
      if (fits) return entry;
    }
  return nullptr;
}

// Runs `op`: appends its outputs, of the shapes that its rule says, of type `element`.
Code run_op(Op op, const std::vector<uint32_t>& words, std::vector<Operand>& operands, size_t outputs, ElementType element) {
  const OpRule* rule = find_rule(op);
  if (rule == nullptr) return Code::kOpCode;
  Dims dims[4] = {};
  Step inputs(operands);
  const Code code = rule->shapes({words.data(), int(words.size())}, {inputs.tensors.data(), int(inputs.tensors.size()), 0}, dims);
  if (code != Code::kOk) return code;
  for (size_t i = 0; i < outputs; ++i)
    operands.push_back({make_array(element, {dims[i].size, dims[i].size + dims[i].rank}), Role::kOut});
  const KernelEntry* entry = find_entry(op, operands);
  if (entry == nullptr) return Code::kNoKernel;
  if (entry->shapes != rule->shapes) return Code::kNoKernel;
  return Step(operands).run(*entry, words);
}

// An op on arrays, differentiated by its table.
struct Differentiated {
  const OpRule& rule;
  std::vector<uint32_t> words;
  std::vector<Array> inputs;

  ElementType element() const { return inputs[0].element; }

  // How many outputs the table reads, at least one.
  size_t outputs() const {
    size_t count = 1;
    for (const Gradient& row : rule.gradients)
      for (const GradientRead read : row.reads)
        if (read.source == GradientRead::kForwardOutput) count = std::max(count, size_t(read.index) + 1);
    return count;
  }

  std::vector<Array> forward(size_t count) const {
    std::vector<Operand> operands;
    for (const Array& input : inputs) operands.push_back({input, Role::kIn});
    EXPECT_EQ(run_op(rule.op, words, operands, count, element()), Code::kOk) << rule.name;
    std::vector<Array> made;
    for (size_t i = inputs.size(); i < operands.size(); ++i) made.push_back(operands[i].array);
    return made;
  }

  // The gradients of the inputs by slot, of L = sum dy y.
  std::map<int, Array> gradients(const Array& dy) const {
    const std::vector<Array> y = forward(outputs());
    std::map<int, Array> found;
    for (const Gradient& row : rule.gradients) {
      if (std::none_of(row.of.begin(), row.of.end(), [&](uint8_t slot) { return inputs[slot].present(); })) continue;
      std::vector<Operand> operands, all;
      for (const GradientRead read : row.reads) {
        const int i = read.index;
        operands.push_back({read.source == GradientRead::kForwardInput    ? inputs[size_t(i)]
                            : read.source == GradientRead::kForwardOutput ? y[size_t(i)]
                            : read.source == GradientRead::kGradient      ? dy
                                                                          : found.at(i),
                            Role::kIn});
      }
      std::vector<uint32_t> made = words;
      if (row.words != nullptr) {
        std::vector<Operand> of_step;
        for (const Array& input : inputs) of_step.push_back({input, Role::kIn});
        const Step step(of_step);
        made.resize(32);
        made.resize(size_t(row.words({words.data(), int(words.size())},
                                     {step.tensors.data(), int(step.tensors.size()), 0}, row.of[0], made.data())));
      }
      constexpr double kStart = 0.5;  // a sum is added to
      if (row.adds) {
        const Array& input = inputs[row.of[0]];
        Array sum = make_array(input.element == kF64 ? kF64 : kF32, input.dims);
        for (int64_t i = 0; i < sum.elements(); ++i) sum.set(i, kStart);
        operands.push_back({sum, Role::kUpdate});
      }
      const size_t first = operands.size() - (row.adds ? 1 : 0);
      EXPECT_EQ(run_op(row.by, made, operands, row.adds ? 0 : outputs_of(row), element()), Code::kOk)
          << rule.name << " gradient of input " << int(row.of[0]);
      for (size_t i = 0; i < outputs_of(row) && first + i < operands.size(); ++i) {
        Array gradient = operands[first + i].array;
        for (int64_t e = 0; row.adds && e < gradient.elements(); ++e) gradient.set(e, gradient.real(e) - kStart);
        found[row.of[i]] = gradient;
      }
    }
    return found;
  }

  // The inputs of a row that are there; those that may be absent come last.
  size_t outputs_of(const Gradient& row) const {
    return size_t(std::count_if(row.of.begin(), row.of.end(), [&](uint8_t slot) { return inputs[slot].present(); }));
  }

  double loss(const Array& dy) const {
    const Array y = forward(1)[0];
    long double sum = 0;
    for (int64_t i = 0; i < y.elements(); ++i) sum += y.real(i) * dy.real(i);
    return double(sum);
  }
};

Array random_like(const Array& like, Random& random) {
  Array array = make_array(like.element, like.dims);
  for (int64_t i = 0; i < array.elements(); ++i) array.set(i, between(random, -1, 1));
  return array;
}

// Central differences of fourth order, (8 (L(x + h) - L(x - h)) - (L(x + 2 h) - L(x - 2 h))) / (12 h): wrong by h^4 / 30 of the
// fifth derivative, which with h = 2^-9 is 5e-13 of it, and by rounding, 2^-53 |L| / h < 1e-12 for the sums here. Fifth
// derivatives of these functions on these ranges are below 1e4: 1e-8 is left to be seen.
void expect_central_differences(Differentiated op, Random& random, const std::string& what) {
  const Array dy = random_like(op.forward(1)[0], random);
  const std::map<int, Array> gradients = op.gradients(dy);
  constexpr double h = 0x1p-9;
  for (size_t slot = 0; slot < op.inputs.size(); ++slot) {
    Array& x = op.inputs[slot];
    if (!x.present() || !real(x.element)) continue;
    const auto gradient = gradients.find(int(slot));
    ASSERT_TRUE(gradient != gradients.end()) << what << ": no gradient of input " << slot;
    ASSERT_EQ(gradient->second.dims, x.dims) << what;
    for (int64_t e = 0; e < x.elements(); ++e) {
      const double at = x.real(e);
      const auto moved = [&](double by) {
        x.set(e, at + by);
        return op.loss(dy);
      };
      const double expected = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
      x.set(e, at);
      ASSERT_NEAR(gradient->second.real(e), expected, 1e-8 * (1 + std::abs(expected))) << what << ", input " << slot << " element " << e;
    }
  }
}

constexpr Op kOps[] = {Op::kGelu, Op::kSilu, Op::kLayerNorm, Op::kEmbedding, Op::kBatchedMatmul, Op::kLstm, Op::kGru};

Differentiated random_step(Op op, ElementType element, uint64_t seed, Random& random) {
  const auto fits = [&](const reference::NamedEntry& named) {
    return named.entry->op == op && named.entry->operands[0].element == element;
  };
  const auto list = reference::list();
  const KernelEntry& entry = *std::find_if(list.begin(), list.end(), fits)->entry;
  Case made;
  random.seed(seed);
  find_case_maker(op)(entry, random, made);
  if (op == Op::kLayerNorm) made.words = {bits(0.1)};  // bounds 1 / sqrt(variance + epsilon), so its derivatives
  return {*find_rule(op), made.words, random_inputs(made, random)};
}

TEST(layers, gradients_are_central_differences) {
  for (const Op op : kOps)
    for (uint64_t seed = 0; seed < 12; ++seed) {
      Random random;
      const Differentiated step = random_step(op, kF64, seed, random);
      expect_central_differences(step, random, std::string(step.rule.name) + ", seed " + std::to_string(seed));
      if (HasFatalFailure()) return;
    }
}

// The other types run the same loops. What they store on the way is rounded to T, so gradients differ by some epsilons of the
// largest: a sum of `terms` products, each of four stored factors, behind at most five steps of time.
TEST(layers, gradients_of_narrower_types_are_those_of_float64) {
  const std::pair<ElementType, double> types[] = {
      {kF32, 0x1p-23}, {ElementType::kFloat16, 0x1p-10}, {ElementType::kBfloat16, 0x1p-7}};
  for (const Op op : kOps)
    for (const auto& [type, epsilon] : types)
      for (uint64_t seed = 0; seed < 6; ++seed) {
        Random random;
        const Differentiated narrow = random_step(op, type, seed, random);
        Differentiated wide = narrow;
        for (Array& input : wide.inputs) {
          if (!input.present() || !real(input.element)) continue;
          Array copy = make_array(kF64, input.dims);
          for (int64_t i = 0; i < copy.elements(); ++i) copy.set(i, input.real(i));
          input = copy;
        }
        const Array dy = random_like(narrow.forward(1)[0], random);
        Array wide_dy = make_array(kF64, dy.dims);
        for (int64_t i = 0; i < dy.elements(); ++i) wide_dy.set(i, dy.real(i));
        const std::map<int, Array> got = narrow.gradients(dy), expected = wide.gradients(wide_dy);
        ASSERT_EQ(got.size(), expected.size());
        for (const auto& [slot, gradient] : expected) {
          double most = 0;
          for (int64_t i = 0; i < gradient.elements(); ++i) most = std::max(most, std::abs(gradient.real(i)));
          for (int64_t i = 0; i < gradient.elements(); ++i)
            ASSERT_NEAR(got.at(slot).real(i), gradient.real(i), 20 * epsilon * (most + 0.1))
                << narrow.rule.name << ", " << type_name(type) << ", seed " << seed << ", input " << slot << " element " << i;
        }
      }
}

// The form that keeps what the backward step reads gives the same y, to the bit.
TEST(layers, training_forms_give_the_bits_of_inference) {
  for (const Op op : {Op::kLstm, Op::kGru})
    for (const ElementType type : {kF32, kF64, ElementType::kFloat16, ElementType::kBfloat16})
      for (uint64_t seed = 0; seed < 10; ++seed) {
        Random random;
        const Differentiated step = random_step(op, type, seed, random);
        EXPECT_EQ(step.forward(1)[0].bytes, step.forward(step.outputs())[0].bytes) << step.rule.name;
      }
}

// Random123's kat_vectors, "philox4x32 10".
TEST(philox, gives_the_known_answers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

Array uint32s(const std::vector<uint32_t>& values) {
  Array array = make_array(kU32, {int32_t(values.size())});
  std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

Array dropped(double rate, uint32_t layer, const std::vector<uint32_t>& random, const Array& x) {
  std::vector<Operand> operands = {{x, Role::kIn}, {uint32s(random), Role::kIn}};
  EXPECT_EQ(run_op(Op::kDropout, {bits(rate), layer}, operands, 1, x.element), Code::kOk);
  return operands[2].array;
}

Array ones(int count) {
  Array x = make_array(kF32, {count});
  for (int i = 0; i < count; ++i) x.set(i, 1);
  return x;
}

// Kept elements are n (1 - rate) on average with a deviation of sqrt(n rate (1 - rate)): within 5 of them.
TEST(dropout, drops_at_its_rate_and_scales_what_stays) {
  constexpr int n = 100000;
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    const Array y = dropped(rate, 3, {1, 2, 3, 4}, ones(n));
    int kept = 0;
    for (int i = 0; i < n; ++i) {
      kept += y.real(i) != 0;
      ASSERT_TRUE(y.real(i) == 0 || y.real(i) == double(1 / (1 - float(rate)))) << rate;
    }
    EXPECT_LE(std::abs(kept - n * (1 - rate)), 5 * std::sqrt(n * rate * (1 - rate))) << rate;
  }
}

// Another seed, step, micro-batch or layer is another mask: of two with rate 1/2 half of the elements agree.
TEST(dropout, masks_differ_by_everything_they_are_a_function_of) {
  constexpr int n = 10000;
  const Array x = ones(n), first = dropped(0.5, 0, {7, 8, 9, 10}, x);
  EXPECT_EQ(first.bytes, dropped(0.5, 0, {7, 8, 9, 10}, x).bytes);
  const std::vector<uint32_t> others[] = {{8, 8, 9, 10}, {7, 9, 9, 10}, {7, 8, 10, 10}, {7, 8, 9, 11}, {7, 8, 9, 10}};
  for (size_t i = 0; i < 5; ++i) {
    const Array other = dropped(0.5, i == 4 ? 1 : 0, others[i], x);
    int equal = 0;
    for (int e = 0; e < n; ++e) equal += first.real(e) == other.real(e);
    EXPECT_LE(std::abs(equal - n / 2), 5 * std::sqrt(n) / 2) << i;
  }
  Array fewer = make_array(kF32, {n / 2 - 1});  // rows of a smaller batch have the numbers of the same rows
  for (int e = 0; e < n / 2 - 1; ++e) fewer.set(e, 1);
  const Array part = dropped(0.5, 0, {7, 8, 9, 10}, fewer);
  EXPECT_TRUE(std::equal(part.bytes.begin(), part.bytes.end(), first.bytes.begin()));
}

TEST(dropout, the_gradient_is_dropout_of_dy) {
  for (const ElementType type : {kF64, kF32, ElementType::kFloat16, ElementType::kBfloat16}) {
    Random random(5);
    Array x = make_array(type, {3, 7});
    for (int64_t i = 0; i < x.elements(); ++i) x.set(i, between(random, -2, 2));
    Differentiated step = {kDropoutRule, {bits(0.25), 2}, {x, uint32s({1, 0, 5, 0})}};
    const Array dy = random_like(x, random);
    const std::map<int, Array> gradients = step.gradients(dy);
    step.inputs[0] = dy;
    EXPECT_EQ(gradients.at(0).bytes, step.forward(1)[0].bytes);
    if (type == kF64) expect_central_differences({kDropoutRule, step.words, {x, step.inputs[1]}}, random, "dropout");
  }
}

TEST(dropout, rates_outside_its_range_are_refused) {
  for (const double rate : {-0.1, 1.0, 2.0, double(NAN), double(INFINITY)}) {
    std::vector<Operand> operands = {{ones(4), Role::kIn}, {uint32s({1, 2, 3, 4}), Role::kIn}};
    EXPECT_EQ(run_op(Op::kDropout, {bits(rate), 0}, operands, 1, kF32), Code::kAttribute) << rate;
  }
  std::vector<Operand> operands = {{ones(4), Role::kIn}, {uint32s({1, 2, 3}), Role::kIn}};
  EXPECT_EQ(run_op(Op::kDropout, {bits(0.5), 0}, operands, 1, kF32), Code::kShapeInput);
}

// Nothing is read or added where any id is outside; -1 is the last row only where that is said.
TEST(embedding, ids_outside_the_table_are_refused) {
  Random random(1);
  const Array table = random_like(make_array(kF32, {5, 3}), random), dy = random_like(make_array(kF32, {2, 3}), random);
  for (const ElementType type : {ElementType::kInt32, ElementType::kInt64})
    for (const double bad : {5.0, -1.0, -6.0, 2147483647.0, -2147483648.0}) {
      const Array ids = array_of<double>(type, {2}, {0, bad});
      for (const uint32_t negative : {0u, 1u}) {
        const Code expected = negative == 1 && bad == -1 ? Code::kOk : Code::kIndex;
        std::vector<Operand> operands = {{table, Role::kIn}, {ids, Role::kIn}};
        EXPECT_EQ(run_op(Op::kEmbedding, {negative}, operands, 1, kF32), expected) << bad;
        const Array zeros = make_array(kF32, {5, 3});
        operands = {{dy, Role::kIn}, {ids, Role::kIn}, {zeros, Role::kUpdate}};
        EXPECT_EQ(run_op(Op::kEmbeddingGradient, {negative}, operands, 0, kF32), expected) << bad;
        EXPECT_EQ(operands[2].array.bytes == zeros.bytes, expected != Code::kOk) << bad;
      }
    }
}

// Every step of the tables with dims and attributes changed at random: refused by its shape rule, or it keeps to its operands
// (blocks of exactly their size: the sanitizers see).
TEST(layers, gradient_steps_take_what_their_shape_rules_accept) {
  int ran = 0, refused = 0;
  constexpr uint32_t kWords[] = {0, 1, 2, 3, 0x3F800000, 0x7FC00000, 0x80000000, 0xFFFFFFFF};
  for (const Op op : kOps)
    for (uint64_t seed = 0; seed < 300; ++seed) {
      Random random;
      const Differentiated step = random_step(op, kF32, seed, random);
      const std::vector<Array> y = step.forward(step.outputs());
      const Gradient& row = step.rule.gradients[seed % step.rule.gradients.size()];
      std::vector<Operand> operands;
      for (const GradientRead read : row.reads)
        operands.push_back({read.source == GradientRead::kForwardInput    ? step.inputs[read.index]
                            : read.source == GradientRead::kForwardOutput ? y[read.index]
                            : read.source == GradientRead::kGradient      ? y[0]
                                                                          : step.inputs[0],
                            Role::kIn});
      if (row.adds) operands.push_back({make_array(kF32, step.inputs[row.of[0]].dims), Role::kUpdate});
      std::vector<uint32_t> words = step.words;
      words.resize(2);
      if (random() % 2 == 0) words[random() % 2] = kWords[random() % std::size(kWords)];
      for (int changes = pick(random, 0, 2); changes > 0; --changes) {
        Operand& operand = operands[random() % operands.size()];
        std::vector<int32_t> dims = operand.array.dims;
        if (!operand.array.present() || dims.empty()) continue;
        if (random() % 4 == 0) dims.push_back(2);
        else if (random() % 3 == 0) dims.pop_back();
        else dims[random() % dims.size()] = pick(random, 1, 12);
        if (dims.size() > size_t(kMaxRank)) continue;
        operand.array = make_array(operand.array.element, dims);
      }
      const Code code = run_op(row.by, words, operands, row.adds ? 0 : step.outputs_of(row), kF32);
      ++(code == Code::kOk || code == Code::kIndex ? ran : refused);
    }
  EXPECT_GT(ran, 300);
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace nacre::tests
