#include "engine/model/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>
#include <string>

#include "engine/base/crc32c.h"
#include "engine/model/verify_limits.h"
#include "tests/model/execute.h"
#include "tests/model/exercise.h"
#include "tests/model/networks.h"
#include "tests/project_path.h"
#include "tools/model/loaded_model.h"

namespace nacre::test {
namespace {

TEST(crc32c, equals_the_published_check_value) {  // RFC 3720 and Koopman's tables: "123456789" gives E3069283
  constexpr char kText[] = "123456789";
  const auto bytes = std::as_bytes(std::span(kText, 9));
  EXPECT_EQ(crc32c(bytes), 0xE3069283u);
  EXPECT_EQ(crc32c(bytes.subspan(4), crc32c(bytes.first(4))), 0xE3069283u) << "continued";
  const std::byte zeros[32] = {};
  EXPECT_EQ(crc32c(zeros), 0x8A9136AAu) << "RFC 3720, B.4: 32 bytes of zeros";
}

TEST(status, every_code_has_a_sentence_of_its_own) {
  std::set<std::string> seen;
  for (int code = 0; code < int(Code::kCodeCount); ++code) {
    const std::string text = sentence(Code(code));
    EXPECT_FALSE(text.empty()) << code;
    EXPECT_TRUE(seen.insert(text).second) << code << ": " << text;
  }
  EXPECT_STREQ(sentence(Code::kCodeCount), "");
  EXPECT_STREQ(table_name(Table(200)), "");
}

TEST(low_word, holds_what_a_machine_of_32_bits_can_add_up) {
  const std::pair<uint64_t, bool> cases[] = {{0, true},
                                             {1, true},
                                             {0x7FFFFFFF, true},
                                             {0x80000000, false},
                                             {0xFFFFFFFF, false},
                                             {uint64_t{1} << 32, false},
                                             {~uint64_t{0}, false}};
  for (const auto& [bytes, holds] : cases) {
    const LowWord word = bytes;
    EXPECT_EQ(computable(word), holds) << bytes;
    EXPECT_EQ(uint32_t(word), uint32_t(bytes)) << bytes;
    uint64_t stored = 0;
    static_assert(sizeof word == sizeof stored && alignof(LowWord) == 8);
    std::memcpy(&stored, &word, sizeof stored);
    EXPECT_EQ(stored, bytes);
  }
}

TEST(model, every_case_opens_and_its_weights_are_good) {
  for (const ModelCase& c : cases()) {
    const Buffer file = pack(c.make());
    Model model;
    const Status s = model.open(file.bytes());
    ASSERT_TRUE(s.ok()) << c.name << ": " << sentence(s.code) << " at " << table_name(s.table) << " " << s.index;
    EXPECT_TRUE(model.check_weights().ok()) << c.name;
  }
}

// A mask may hold infinity. The sentence of a refused weight must not name it.
TEST(model, weights_may_be_infinite_and_not_nan) {
  for (const bool nan : {false, true}) {
    Draft draft = float_chain();
    const float number = nan ? std::numeric_limits<float>::quiet_NaN() : -std::numeric_limits<float>::infinity();
    std::memcpy(draft.segments[0].data() + 20, &number, sizeof number);
    const Buffer file = pack(draft);
    Model model;
    ASSERT_TRUE(model.open(file.bytes()).ok());
    EXPECT_EQ(model.check_weights().code, nan ? Code::kNotFinite : Code::kOk);
  }
  EXPECT_STREQ(sentence(Code::kNotFinite), "a weight is NaN");
}

TEST(model, scales_that_a_run_makes_are_not_read_from_the_file) {
  Draft d;
  const uint32_t q = d.quantizer(0, 0);
  const uint32_t w = d.weights<int8_t>({3, 4}, std::vector<int8_t>(12, 1), q);
  d.quantizers[q].scales = d.global(Region::kDerived, ElementType::kFloat32, {3});
  d.tensors[d.quantizers[q].scales].offset = 1 << 20;  // far beyond the weights
  d.region_bytes[2] = (1 << 20) + 16;
  const uint32_t x = d.arena(ElementType::kFloat32, {4}, 0, 0, 0, kNoIndex, kInput);
  const uint32_t y = d.arena(ElementType::kFloat32, {4}, 0, 0, 16, kNoIndex, kOutput);
  d.step(Op::kTanh, {}, {x}, {y});
  d.program(Entry::kInfer, "host", {32});
  const Buffer file = pack(d);
  const auto* bytes = reinterpret_cast<const uint8_t*>(file.bytes().data());
  const tools::LoadedModel loaded({bytes, file.size()}, "model", "");
  EXPECT_FALSE(loaded.scales(w).has_value());
}

TEST(model, packing_is_a_function_of_the_draft) {
  for (const ModelCase& c : cases()) {
    const Buffer a = pack(c.make()), b = pack(c.make());
    ASSERT_EQ(a.size(), b.size());
    EXPECT_EQ(std::memcmp(a.bytes().data(), b.bytes().data(), a.size()), 0) << c.name;
  }
}

TEST(model, is_closed_after_a_refusal_and_safe_to_ask) {
  const Buffer good = pack(dense_int8());
  Buffer bad = good;
  bad.data()[100] ^= std::byte{1};
  Model model;
  ASSERT_TRUE(model.open(good.bytes()).ok());
  ASSERT_EQ(model.open(bad.bytes()).code, Code::kCrc);
  EXPECT_FALSE(model.opened());
  EXPECT_EQ(model.program_count(), 0u);
  EXPECT_EQ(model.program(0).step_count, 0u);
  EXPECT_EQ(model.region_bytes(Region::kState), 0u);
  EXPECT_TRUE(model.tensors().empty());
  EXPECT_EQ(model.check_weights().code, Code::kNotBound);
  EXPECT_EQ(model.attach(0, good.bytes()).code, Code::kNotBound);
  uint32_t index = 7;
  EXPECT_EQ(model.find(Entry::kInfer, "", &index).code, Code::kNoEntry);
  Sizes sizes;
  EXPECT_EQ(Program::measure(model, 0, reference_kernels(), &sizes).code, Code::kNotBound);
}

TEST(model, finds_programs_by_kind_and_target) {
  const Buffer file = pack(two_targets());
  Model model;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  uint32_t index = 7;
  EXPECT_TRUE(model.find(Entry::kInfer, "arm/m4", &index).ok());
  EXPECT_EQ(index, 1u);
  EXPECT_TRUE(model.find(Entry::kInfer, nullptr, &index).ok());
  EXPECT_EQ(index, 0u) << "any target: the first";
  EXPECT_EQ(model.find(Entry::kInfer, "arm/m", &index).code, Code::kNoEntry);
  EXPECT_EQ(model.find(Entry::kInfer, "", &index).code, Code::kNoEntry) << "the target that is called nothing";
  EXPECT_EQ(model.find(Entry::kUpdate, "", &index).code, Code::kNoEntry);
}

TEST(model, reads_attached_weights_instead_of_the_file) {
  const Draft draft = dense_int8();
  const Buffer file = pack(draft);
  Model model;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  Buffer apart{std::span<const std::byte>(draft.segments[0])};
  ASSERT_TRUE(model.attach(0, apart.bytes()).ok());
  EXPECT_TRUE(model.check_weights().ok());
  EXPECT_EQ(model.weights(0), apart.data());
  apart.data()[0] ^= std::byte{1};
  EXPECT_EQ(model.check_weights().code, Code::kSegmentCrc);

  const Status less = model.attach(0, apart.bytes().first(apart.size() - 1));
  EXPECT_EQ(less.code, Code::kMemorySize);
  EXPECT_EQ(less.needed, apart.size());
  EXPECT_EQ(less.given, apart.size() - 1);
  Buffer moved(apart.size() + 16);
  EXPECT_EQ(model.attach(0, moved.bytes().subspan(16)).code, Code::kMemoryAlignment);
  EXPECT_EQ(model.attach(1, apart.bytes()).code, Code::kIndex);
}

// Tries zero points from -33,000 to 33,000 and, for int32, its ends.
TEST(quantizer, zero_points_are_codes) {
  const struct {
    ElementType type;
    int64_t low, high;
  } rows[] = {{ElementType::kInt4, -8, 7},   {ElementType::kUint4, 0, 15},         {ElementType::kInt8, -128, 127},
              {ElementType::kUint8, 0, 255}, {ElementType::kInt16, -32768, 32767}, {ElementType::kFloat8E4M3, 0, 0},
              {ElementType::kTernary, 0, 0}, {ElementType::kFloat32, 0, 0}};
  for (const auto& row : rows)
    for (int64_t zero = -33000; zero <= 33000; ++zero)
      ASSERT_EQ(is_zero_point(row.type, int32_t(zero)), zero >= row.low && zero <= row.high)
          << int(row.type) << " " << zero;
  for (const int32_t zero : {INT32_MIN, INT32_MAX}) {
    EXPECT_TRUE(is_zero_point(ElementType::kInt32, zero));
    EXPECT_FALSE(is_zero_point(ElementType::kInt8, zero));
    EXPECT_FALSE(is_zero_point(ElementType::kUint8, zero));
  }
}

// Returns a convolution with one filter of ones and the bias 5 over these dims.
Draft filter(std::vector<int32_t> x_dims, std::vector<int32_t> w_dims, std::vector<uint32_t> words, int32_t out_w) {
  Draft d;
  const auto taps = size_t(w_dims[1]) * size_t(w_dims[2]) * size_t(w_dims[3]);
  const uint32_t w = d.weights<float>(w_dims, std::vector<float>(taps, 1)), b = d.weights<float>({1}, {5});
  const uint32_t x = d.arena(ElementType::kFloat32, x_dims, 0, 0, 0, kNoIndex, kInput);
  const uint64_t end = d.tensors[x].bytes;
  const uint32_t y = d.arena(ElementType::kFloat32, {1, 1, out_w, 1}, 0, 0, end, kNoIndex, kOutput);
  d.step(Op::kConv2d, words, {x, w, b}, {y});
  d.program(Entry::kInfer, "", {end + 64});
  return d;
}

// A step of 2^14 rows of 2^18 elements exceeds int. The kernel must not compute it if the filter has one row, or if
// the only tap after it is padding.
TEST(conv2d, steps_beyond_int_are_not_taken) {
  constexpr int32_t kWide = 1 << 18;
  constexpr uint32_t kFar = (1 << 14) - 1;
  const struct {
    const char* text;
    Draft draft;
    float y;
  } rows[] = {
      {"rows that are padding", filter({1, 1, kWide, 1}, {1, 2, 1, 1}, {0, kFar, kFar, 0, 1, 0, kFar, 0}, 16), 5},
      {"a kernel of one row", filter({1, 1, kWide, 1}, {1, 1, 1, 1}, {0, kFar, kFar}, 16), 6},
      {"columns that are padding", filter({1, 1, 1, kWide}, {1, 1, 2, kWide}, {0, 0, 0, kFar, 0, 1, 0, kFar}, 1), 5},
      {"a kernel of one column", filter({1, 1, 1, kWide}, {1, 1, 1, kWide}, {0, 0, 0, kFar}, 1), 5 + kWide}};
  for (const auto& row : rows) {
    const Buffer file = pack(row.draft);
    Bound bound;
    const Status s = bound.open(file.bytes());
    ASSERT_TRUE(s.ok()) << row.text << ": " << sentence(s.code);
    const std::span<std::byte> x = bound.program.input(0);
    for (size_t i = 0; i < x.size(); i += 4) std::memcpy(x.data() + i, "\0\0\x80\x3F", 4);  // 1
    ASSERT_TRUE(bound.program.run().ok()) << row.text;
    const auto y = bound.program.output(0);
    for (size_t i = 0; i < y.size(); i += 4) {
      float v;
      std::memcpy(&v, y.data() + i, 4);
      ASSERT_EQ(v, row.y) << row.text;
    }
  }
}

// A hybrid step's zero points are data: x - zero exceeds 2^31, and sums of it wrap.
TEST(hybrid, zero_points_at_the_ends_of_int32_wrap) {
  const Buffer file = pack(hybrid());
  Bound bound;
  ASSERT_TRUE(bound.open(file.bytes()).ok());
  for (const int v : {-128, 0, 127}) {
    const std::span<std::byte> x = bound.program.input(0);
    std::fill(x.begin(), x.end(), std::byte(v));
    ASSERT_TRUE(bound.program.run().ok());
    const auto* y = reinterpret_cast<const float*>(bound.program.bytes(7).data());
    const auto* w = reinterpret_cast<const int8_t*>(bound.model.weights(3));
    for (int i = 0; i < 8; ++i) {
      const int32_t zero = i < 4 ? INT32_MIN : INT32_MAX;
      uint32_t sum = 0;
      for (int j = 0; j < 3; ++j) sum += (uint32_t(v) - uint32_t(zero)) * uint32_t(w[i % 4 * 3 + j]);
      const float scale = i < 4 ? 0.125f : 0.25f;  // the row's scale; that of the weights is 0.125
      EXPECT_EQ(y[i], float(int32_t(sum)) * (scale * 0.125f)) << v << ", output " << i;
    }
  }
}

// Each row of codes has its own scale, which does not depend on other rows or on whether they are run.
TEST(dynamic_quantize, lowered_rows_are_those_of_the_whole_batch) {
  const Buffer file = pack(dynamic_batched());
  Bound bound;
  ASSERT_TRUE(bound.open(file.bytes()).ok());
  const std::span<std::byte> x = bound.program.input(0);
  for (size_t i = 0; i < x.size() / 4; ++i) {
    const float v = 1.5f * float(i % 5) - float(i);
    std::memcpy(x.data() + 4 * i, &v, 4);
  }
  ASSERT_TRUE(bound.program.run().ok());
  const auto y = bound.program.output(0);
  const std::vector<std::byte> whole(y.begin(), y.end());
  for (const uint32_t rows : {1u, 2u, 3u}) {
    std::fill_n(bound.blocks->block[kArena].data() + x.size(), bound.blocks->block[kArena].size() - x.size(),
                std::byte{0x5A});
    const Status s = bound.program.run_rows(rows);
    ASSERT_TRUE(s.ok()) << rows << ": " << sentence(s.code);
    EXPECT_EQ(std::memcmp(y.data(), whole.data(), rows * 8), 0) << rows;
  }
}

// Small files that would keep a checker busy if it followed every reference: they are refused after bounded work.
TEST(model, sharing_does_not_multiply_work) {
  Draft draft = dense_int8();  // 64 programs that share one table with 20,000 names
  draft.program_copies = 64;
  draft.programs[0].bank_names.assign(20000, "n");
  Model model;
  EXPECT_EQ(model.open(pack(draft).bytes()).code, Code::kCount);
}

TEST(model, aliases_do_not_multiply_work) {
  Draft draft =
      elided_concat();  // with 1,500 more aliases and 1,000 more steps that share 255 operands: 382 million visits
  const uint32_t x = 0, both = 1, y = 2;
  for (int i = 0; i < 1500; ++i) draft.alias(both, {1, 1}, 0, 2);
  for (const uint32_t id : {x, both, y}) draft.tensors[id].last_step = 1002;
  StepRecord step = draft.steps[2];
  step.first_operand = uint32_t(draft.operands.size());
  step.operand_count = 255;
  draft.operands.insert(draft.operands.end(), 255, both);
  draft.steps.insert(draft.steps.end(), 1000, step);
  draft.programs[0].tensor_count += 1500;
  draft.programs[0].step_count += 1000;
  const Buffer file = pack(draft);
  Model model;
  const Status s = model.open(file.bytes(), {.tensors = 2048});
  EXPECT_EQ(s.code, Code::kCount);
  EXPECT_EQ(s.table, Table::kStep);
}

TEST(corpus, every_kept_input_is_a_model_or_a_refusal) {
  const std::filesystem::path folder = tools::project_path("tests/corpus/open");
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    Buffer file;
    ASSERT_TRUE(read_file(entry.path().string(), &file)) << entry.path();
    SCOPED_TRACE(entry.path().string());
    exercise(file.bytes());
    ++count;
  }
  EXPECT_GT(count, 14) << "more than the cases they began with";
}

}  // namespace
}  // namespace nacre::test
