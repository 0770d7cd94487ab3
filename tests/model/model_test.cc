#include "engine/model/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>

#include "engine/base/crc32c.h"
#include "tests/model/execute.h"
#include "tests/model/exercise.h"
#include "tests/model/networks.h"

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

TEST(model, every_case_opens_and_its_weights_are_good) {
  for (const Case& c : cases()) {
    const Buffer file = pack(c.make());
    Model model;
    const Status s = model.open(file.bytes());
    ASSERT_TRUE(s.ok()) << c.name << ": " << sentence(s.code) << " at " << table_name(s.table) << " " << s.index;
    EXPECT_TRUE(model.check_weights().ok()) << c.name;
  }
}

TEST(model, packing_is_a_function_of_the_draft) {
  for (const Case& c : cases()) {
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

// Zero points at the ends of every integer type, and one beyond.
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

// Files that are small but would keep a checker busy that follows everything they name: refused after bounded work.
TEST(model, sharing_does_not_multiply_work) {
  Draft draft = dense_int8();  // 64 programs that share one table with 20,000 names
  draft.program_copies = 64;
  draft.programs[0].bank_names.assign(20000, "n");
  Model model;
  EXPECT_EQ(model.open(pack(draft).bytes()).code, Code::kCount);
}

TEST(model, aliases_do_not_multiply_work) {
  Draft draft =
      elided_concat();  // 1,500 more aliases, and 1,000 more steps that share 255 operands: 382 million visits
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
  const char* given = std::getenv("NACRE_ROOT");
  const std::filesystem::path folder =
      std::filesystem::path(given != nullptr ? given : NACRE_ROOT) / "tests/corpus/open";
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
