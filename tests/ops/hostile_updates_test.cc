// Runs kernels of losses, optimizers and commits on values, attributes and shapes that no converter writes. The shape
// rule refuses them, or the kernel writes its own operands and nothing else. Under ASan and UBSan each operand is a
// block of exactly its size.
#include <gtest/gtest.h>

#include <map>

#include "engine/kernels/training.h"
#include "tests/cases.h"
#include "tests/cases_random.h"

namespace nacre::test {
namespace {

// Returns dims of operand i that the op's rule accepts. `base` are the dims of the gradient, the logits or x.
std::vector<int32_t> wanted(const KernelEntry& entry, int i, const std::vector<int32_t>& base) {
  const auto op = int(entry.op);
  const bool updated = (entry.operands[i].role & 3) == uint8_t(Role::kUpdate);
  if (op < int(Op::kSgd)) {
    if (i > 1) return {1};
    return entry.operands[i].element == ElementType::kInt32 ? std::vector<int32_t>(base.begin(), base.end() - 1) : base;
  }
  if (op < int(Op::kOnnxMomentum)) return i == 0 || updated ? base : std::vector<int32_t>{i == 1 ? 4 : 1};
  if (entry.op == Op::kSgdCodes)
    return i == 2 ? std::vector<int32_t>{base[0], 2} : i % 2 == 1 ? std::vector<int32_t>{i == 1 ? 4 : 2} : base;
  if (entry.op == Op::kPendingCodes) return i < 2 ? base : std::vector<int32_t>{base[0]};
  if (entry.op == Op::kWriteCodes) return i == 0 ? std::vector<int32_t>{base[0]} : base;
  if (op < int(Op::kVerdict)) return i < 2 ? std::vector<int32_t>{} : base;
  switch (entry.op) {
    case Op::kUpdateStatistics: return i == 1 ? std::vector<int32_t>{1} : base;
    case Op::kUpdateErrorRange: return {i == 0 ? 1 : 2};
    case Op::kUpdateRange: return {i == 1 ? 1 : 2};
    case Op::kUpdateScales: return {i == 2 ? base[0] : i == 3 ? 6 : 1};
    case Op::kAdjustLossScale: return {i == 3 ? 3 : 1};
    case Op::kCountStep: return {1};
    default: return i == 0 ? base : std::vector<int32_t>{1};  // verdict
  }
}

std::vector<uint32_t> words_of(const OpRule& rule, Random& random) {
  constexpr uint32_t kReals[] = {0x3F000000, 0x3F000000, 0, 0x3F800000, 0x40000000};  // 0.5, 0, 1, 2
  constexpr uint32_t kWild[] = {0x7FC00000, 0x7F800000, 0xFF800000, 0xBF800000, 0x7F7FFFFF, 1,
                                0x80000000, 0xFFFFFFFF, 255,        128,        3};
  std::vector<uint32_t> words;
  for (const Attribute& attribute : rule.attributes)
    words.push_back(attribute.coding == Coding::kReal ? kReals[pick(random, 0, 4)] : uint32_t(pick(random, 0, 2)));
  if (!words.empty() && pick(random, 0, 3) == 0)
    words[size_t(pick(random, 0, int(words.size()) - 1))] = kWild[pick(random, 0, 10)];
  if (!words.empty() && pick(random, 0, 9) == 0) words.resize(size_t(pick(random, 0, int(words.size()) + 2)));
  return words;
}

void fill_hostile(Array& array, Random& random) {
  constexpr uint32_t kEnds[] = {0,          1,          2,          0x7F800000, 0xFF800000,
                                0x7FC00000, 0xFFFFFFFF, 0x80000000, 0x7F7FFFFF, 0x00000001};
  const int kind = pick(random, 0, 2);
  for (size_t i = 0; i < array.bytes.size(); ++i) {
    const uint32_t end = kEnds[random() % 10];
    array.bytes[i] = kind == 0 ? uint8_t(0) : kind == 1 ? uint8_t(random()) : uint8_t(end >> i % 4 * 8);
  }
}

uint64_t work(const KernelEntry& entry, const std::vector<uint32_t>& words,
              const std::vector<std::vector<int32_t>>& dims) {
  std::vector<TensorRecord> records(dims.size());
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < dims.size(); ++i) {
    records[i].rank = uint8_t(dims[i].size());
    std::ranges::copy(dims[i], records[i].dims);
    tensors.push_back({nullptr, &records[i]});
  }
  return entry.work({words.data(), int(words.size())}, {tensors.data(), int(tensors.size()), 0});
}

// The limit on work bounds a file's running time, so it counts the elements that a step visits, not those that it
// writes.
TEST(training_kernels, work_is_what_they_visit) {
  EXPECT_EQ(work(reference::kGruGradientBiasF32, {}, {{2, 100, 6}, {2, 100, 6}, {6}}), 2u * 100 * 6);
  EXPECT_EQ(work(reference::kUpdateScalesF32, {}, {{1}, {1}, {1024}, {6}}), 1024u);
  const auto max_pool = [](uint32_t kernel, int in, int channels) {
    const int out = in - int(kernel) + 1;
    const std::vector<int32_t> x = {1, in, in, channels};
    return work(reference::kMaxPoolGradientF32, {0, 0, 0, 0, 0, 0, 0, 0, kernel - 1, kernel - 1},
                {{1, out, out, channels}, x, x});
  };
  EXPECT_EQ(max_pool(3, 10, 2), 64u * 2 * 9 * 9);
  EXPECT_EQ(max_pool(1 << 8, 1 << 13, 4), 4 * (uint64_t{7937 * 7937} << 32)) << "below 2^63";
  EXPECT_EQ(max_pool(1 << 13, 1 << 14, 1), ~uint64_t{0}) << "8193^2 2^52";
}

TEST(update_kernels, run_or_are_refused_whatever_they_are_given) {
  std::map<Op, int> ran;
  int refused = 0;
  for (const reference::NamedEntry& named : reference::training_list()) {
    const KernelEntry& entry = *named.entry;
    if (int(entry.op) < int(Op::kSoftmaxCrossEntropy) || variadic(entry)) continue;
    const OpRule* rule = find_rule(entry.op);
    ASSERT_NE(rule, nullptr) << named.name;
    for (uint64_t trial = 0; trial < 100; ++trial) {
      Random random(trial * 131 + uint64_t(entry.op));
      std::vector<int32_t> base(size_t(pick(random, 1, 3)));
      for (int32_t& dim : base) dim = pick(random, 1, 4);
      const bool change = pick(random, 0, 2) == 0;
      std::vector<Array> inputs;
      for (int i = 0; i < input_count(entry); ++i) {
        std::vector<int32_t> dims = wanted(entry, i, base);
        if (change && pick(random, 0, 3) == 0) {
          if (dims.empty() || pick(random, 0, 1) == 0) dims.insert(dims.begin(), pick(random, 1, 6));
          else dims.pop_back();
        }
        inputs.push_back(make_array(entry.operands[i].element, dims));
        fill_hostile(inputs.back(), random);
      }
      const Execution run = execute(entry, words_of(*rule, random), inputs);
      ASSERT_FALSE(run.overrun || run.impure) << named.name << ", trial " << trial;
      if (run.code == Code::kOk || run.code == Code::kIndex) ++ran[entry.op];
      else ++refused;
    }
    EXPECT_GT(ran[entry.op], 0) << named.name;
  }
  EXPECT_GE(ran.size(), 32u);
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace nacre::test
