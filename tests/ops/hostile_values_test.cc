// Runs every reference kernel on values that no converter writes: random bits and the ends of each type in every
// operand, with random changes of attributes and dims. If the shape rule accepts them, the kernel writes its outputs
// and nothing else. Each operand is a block of exactly its size, so that the sanitizers see undefined behaviour and
// accesses outside.
#include <gtest/gtest.h>

#include "engine/kernels/reference.h"
#include "tests/cases.h"
#include "tests/model/filling.h"
#include "tests/sanitized.h"

namespace nacre::test {
namespace {

using test::Filling;
using test::mix;

// Numbers near the limits of checks.
constexpr uint32_t kTurns[] = {0,          1,          2,          3,         7,       16,
                               127,        128,        255,        1 << 14,   1 << 24, 1 << 28,
                               0x7F800000, 0x7FC00000, 0x7FFFFFFF, 1u << 31,  0x3FFFu, 0xFF7FFFFF,
                               0xFF800000, 0xFFFFFF80, 0xFFFFFFFE, 0xFFFFFFFF};

struct Drawn {
  std::vector<uint32_t> words;
  std::vector<Array> inputs;
};

Drawn draw(const KernelEntry& entry, uint64_t seed) {
  Random random(seed);
  const Case made = random_case(entry, random);
  return {made.words, random_inputs(made, random)};
}

void fill_inputs(Drawn& drawn, uint64_t seed) {
  for (size_t i = 0; i < drawn.inputs.size(); ++i) {
    Array& input = drawn.inputs[i];
    const auto filling = Filling(mix(seed + i) % 4);  // zeros, ends of the type in stretches or one by one, random bits
    test::fill(std::as_writable_bytes(std::span(input.bytes)), input.element, filling, seed + i);
  }
}

// Changes one attribute, or the dims of one operand.
void change_dims(Drawn& drawn, Random& random) {
  const auto below = [&](uint64_t n) { return random() % n; };
  Array& input = drawn.inputs[below(drawn.inputs.size())];
  if (below(2) == 0) {
    const size_t k = below(drawn.words.size() + 2);
    if (k >= drawn.words.size()) drawn.words.resize(k + 1);
    drawn.words[k] = below(2) == 0 ? kTurns[below(std::size(kTurns))] : uint32_t(below(6));
  } else if (input.present()) {
    std::vector<int32_t> dims = input.dims;
    const uint64_t what = below(4);
    if (what == 0 && dims.size() < size_t(kMaxRank)) dims.insert(dims.begin() + long(below(dims.size() + 1)), 1);
    else if (what == 1 && !dims.empty()) dims.erase(dims.begin() + long(below(dims.size())));
    else if (!dims.empty()) dims[below(dims.size())] = int32_t(1 + below(6));
    input = make_array(input.element, dims);
  }
}

// Returns whether the shape rule accepts the step and the outputs are within the limits of a tensor and of this test.
bool accepts(const KernelEntry& entry, const Drawn& drawn) {
  constexpr int64_t kMaxElements = 1 << 14;
  constexpr uint64_t kMaxWork = 1 << 20;
  std::vector<TensorRecord> records(drawn.inputs.size() + 3, TensorRecord{});
  std::vector<Tensor> tensors;
  const auto add = [&](ElementType element, const int32_t* dims, int rank) {
    TensorRecord& record = records[tensors.size()];
    record.element = element, record.rank = uint8_t(rank);
    std::copy(dims, dims + rank, record.dims);
    tensors.push_back({nullptr, element == ElementType::kNone ? nullptr : &record});
  };
  for (const Array& input : drawn.inputs) add(input.element, input.dims.data(), int(input.dims.size()));
  const Words words = {drawn.words.data(), int(drawn.words.size())};
  Dims outputs[4] = {};
  if (entry.shapes(words, {tensors.data(), int(tensors.size()), 0}, outputs) != Code::kOk) return false;
  const int first = variadic(entry) ? 1 : input_count(entry);
  for (int i = first; i < int(entry.operand_count); ++i) {
    const Dims& y = outputs[i - first];
    int64_t elements = 1;
    for (int axis = 0; axis < y.rank; ++axis) {
      if (y.size[axis] < 1 || (elements *= y.size[axis]) > kMaxElements) return false;
    }
    add(entry.operands[i].element, y.size, y.rank);
  }
  return entry.work(words, {tensors.data(), int(tensors.size()), 0}) <= kMaxWork;
}

// Returns what the kernel did wrong, or "" if it ran (or found a bad index in the data) and wrote only its outputs.
const char* run_drawn(const KernelEntry& entry, const Drawn& drawn) {
  const Execution seen = execute(entry, drawn.words, drawn.inputs);
  if (seen.code != Code::kOk && seen.code != Code::kIndex) return "is refused";
  return seen.overrun ? "writes outside its output" : seen.impure ? "writes an input" : "";
}

TEST(kernels, take_any_bits_as_values) {
  for (const reference::NamedEntry& named : reference::list())
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Drawn drawn = draw(*named.entry, seed);
      fill_inputs(drawn, mix(seed));
      ASSERT_STREQ(run_drawn(*named.entry, drawn), "") << named.name << ", seed " << seed;
    }
}

// Some steps with one to three changes are still valid and run; the shape rule refuses the rest.
TEST(kernels, take_what_their_shape_rules_accept) {
  uint64_t ran = 0, refused = 0;
  for (const reference::NamedEntry& named : reference::list())
    for (uint64_t seed = 0; seed < uint64_t(generated(400)); ++seed) {
      Drawn drawn = draw(*named.entry, seed % 20);
      Random random(mix(seed));
      for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) change_dims(drawn, random);
      fill_inputs(drawn, mix(seed));
      if (!accepts(*named.entry, drawn)) {
        ++refused;
        continue;
      }
      ++ran;
      ASSERT_STREQ(run_drawn(*named.entry, drawn), "") << named.name << ", seed " << seed;
    }
  EXPECT_GT(ran, uint64_t(generated(10000)));
  EXPECT_GT(refused, uint64_t(generated(10000)));
  RecordProperty("ran", std::to_string(ran));
}

}  // namespace
}  // namespace nacre::test
