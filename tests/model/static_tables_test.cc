#include "tools/model/static_tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/nacre_c.h"
#include "engine/run/self_test.h"
#include "tests/model/builder.h"
#include "tests/refused_with.h"
#include "tools/model/golden.h"

namespace nacre::tools {
namespace {

using test::Draft;

const TargetMachine& m4() { return *find_machine("arm/m4"); }

struct StaticModel {
  test::Buffer file;
  LoadedModel loaded;
  StaticTables tables;

  explicit StaticModel(const Draft& draft)
      : file(test::pack(draft)), loaded({reinterpret_cast<const uint8_t*>(file.data()), file.size()}, "draft", ""),
        tables(static_tables(loaded, 0, m4())) {}
};

// Runs seeded inputs through the tables and through the program that they are made of. Runs twice, because streams
// continue.
void expect_same_outputs(const Draft& draft) {
  StaticModel m(draft);
  const BoundTables bound(m.tables);
  BoundProgram reference(m.loaded, 0);
  for (const uint64_t seed : {uint64_t{1}, uint64_t{2}}) {
    const std::vector<uint8_t> inputs = seeded_inputs(m.loaded, 0, seed);
    const uint8_t* from = inputs.data();
    for (const std::span<std::byte> input : bound.program().inputs) {
      std::memcpy(input.data(), from, input.size());
      from += input.size();
    }
    ASSERT_EQ(bound.program().run(), Code::kOk);
    std::vector<uint8_t> found;
    for (const std::span<std::byte> output : bound.program().outputs)
      found.insert(found.end(), reinterpret_cast<const uint8_t*>(output.data()),
                   reinterpret_cast<const uint8_t*>(output.data()) + output.size());
    EXPECT_EQ(found, reference.run(inputs)) << "seed " << seed;
  }
}

TEST(static_tables, outputs_are_those_of_the_bound_program) {
  for (const Draft& draft :
       {test::dense_int8(), test::conv_add_int8(), test::float_chain(), test::two_banks(), test::multi_input(),
        test::batched(), test::moves(), test::elided_concat(), test::guarded(), test::per_channel(), test::reshaped(),
        test::casts(), test::network_f16(), test::weight_only(), test::dynamic_int8(), test::float8_static()})
    expect_same_outputs(draft);
}

// Builds y = x + m; m = y. The next run reads the m that this run wrote.
Draft running_sum() {
  Draft d;
  const uint32_t memory = d.global(Region::kStream, ElementType::kFloat32, {1, 2});
  const uint32_t x = d.arena(ElementType::kFloat32, {1, 2}, 0, 0, 0, kNoIndex, kInput);
  const uint32_t sum = d.arena(ElementType::kFloat32, {1, 2}, 0, 1, 16);
  const uint32_t y = d.arena(ElementType::kFloat32, {1, 2}, 1, 1, 32, kNoIndex, kOutput);
  d.step(Op::kAdd, {}, {x, memory}, {sum});
  d.step(Op::kStore, {}, {sum, test::update(memory)}, {y});
  d.program(Entry::kInfer, "", {48});
  return d;
}

TEST(static_tables, streams_go_on_until_they_begin_again) {
  expect_same_outputs(running_sum());
  StaticModel m(running_sum());
  const BoundTables bound(m.tables);
  const std::span<float> x(reinterpret_cast<float*>(bound.program().inputs[0].data()), 2);
  const std::span<const float> y(reinterpret_cast<const float*>(bound.program().outputs[0].data()), 2);
  for (const float expected : {1.5f, 3.0f}) {
    x[0] = 1.5f;
    ASSERT_EQ(bound.program().run(), Code::kOk);
    EXPECT_EQ(y[0], expected);
  }
  start_stream(bound.program());
  x[0] = 1.5f;
  ASSERT_EQ(bound.program().run(), Code::kOk);
  EXPECT_EQ(y[0], 1.5f);
}

TEST(static_tables, hold_what_the_target_takes) {
  const StaticModel m(test::conv_add_int8());
  EXPECT_EQ(m.tables.infer().call_bytes, measure(m.loaded, 0, {.pointer_bytes = 4}).bytes[kCalls]);
  EXPECT_EQ(m.tables.scratch_bytes, measure(m.loaded, 0).bytes[kScratch]);
  EXPECT_LT(m.tables.records.size(), m.loaded.model().tensors().size());  // tensors of one shape and type share theirs
  for (const StaticTables::BoundStep& step : m.tables.infer().calls) EXPECT_FALSE(step.function.empty());
}

// Returns the CRC of the tables after `change`.
template <class Change>
uint32_t crc_after(const Draft& draft, const Change& change) {
  StaticModel m(draft);
  change(m.tables);
  return table_crc(BoundTables(m.tables).program());
}

std::vector<StaticTables::BoundStep>& calls_of(StaticTables& t) { return t.programs.at(Entry::kInfer).calls; }

TEST(static_tables, any_changed_constant_of_the_image_changes_the_crc) {
  size_t general = 0, ready = 0;
  for (const Draft& draft : {test::conv_add_int8(), test::moves(), test::multi_input()}) {
    const StaticModel m(draft);
    const auto expect_other = [&](const auto& change, const char* what, size_t i) {
      EXPECT_NE(crc_after(draft, change), m.tables.infer().crc) << what << " " << i;
    };
    for (size_t i = 0; i < m.tables.infer().calls.size(); ++i) {
      const StaticTables::BoundStep& call = m.tables.infer().calls[i];
      ++(call.op == kNoIndex ? general : ready);
      const StepRecord& step = m.tables.steps[call.step];
      expect_other([&](StaticTables& t) { t.steps[call.step].rounding = Rounding::kFloatEven; }, "step", i);
      for (uint32_t k = step.first_word; k < step.first_word + step.word_count; ++k)
        expect_other([k](StaticTables& t) { t.words[k] ^= 1; }, "word", k);
      if (call.op != kNoIndex && m.tables.ops.size() > 1)
        expect_other([&, i](StaticTables& t) { calls_of(t)[i].op = (call.op + 1) % uint32_t(t.ops.size()); }, "op", i);
      for (size_t k = 0; k < call.operands.size(); ++k) {
        const StaticTables::Operand& o = call.operands[k];
        if (o.place.block != kNoIndex)
          expect_other([i, k](StaticTables& t) { calls_of(t)[i].operands[k].place.offset += 1; }, "operand", i);
        if (o.record != kNoIndex) expect_other([&](StaticTables& t) { t.records[o.record].dims[0] += 1; }, "record", i);
      }
    }
    expect_other([](StaticTables& t) { t.weights.bytes().back() ^= std::byte{1}; }, "weight", 0);
    expect_other([](StaticTables& t) { t.hash[15] ^= 1; }, "hash", 0);
    expect_other([](StaticTables& t) { t.programs.at(Entry::kInfer).outputs[0].bytes -= 1; }, "output", 0);
  }
  EXPECT_GT(general, 0u);
  EXPECT_GT(ready, 0u);
}

TEST(static_tables, steps_of_one_kind_share_their_op) {
  const StaticModel m(test::dense_int8());
  const StaticModel again(test::dense_int8());
  EXPECT_LE(m.tables.ops.size(), m.tables.infer().calls.size());
  EXPECT_FALSE(m.tables.infer().keeps_records());  // only the compiler has them
  EXPECT_EQ(m.tables.infer().crc, again.tables.infer().crc);
  for (const StaticTables::BoundStep& call : m.tables.infer().calls)
    EXPECT_TRUE(call.function.starts_with("reference::ready::kDense"));
}

TEST(static_tables, the_padding_of_an_op_stays_zero) {
  for (const Draft& draft : {test::conv_add_int8(), test::float_chain(), test::casts(), test::network_f16()}) {
    StaticModel m(draft);
    for (const StaticTables::ReadyOp& op : m.tables.ops) {
      std::vector<Tensor> operands;
      for (const uint32_t record : op.records)
        operands.push_back({nullptr, record == kNoIndex ? nullptr : &m.tables.records[record]});
      std::vector<uint64_t> zeros(op.bytes / 8 + 1), ones(op.bytes / 8 + 1, ~uint64_t{0});
      for (auto* storage : {&zeros, &ones})
        op.make(storage->data(), {m.tables.words.data() + op.first_word, int(op.word_count)},
                {operands.data(), int(operands.size()), 0});
      const auto *a = reinterpret_cast<const uint8_t*>(zeros.data()),
                 *b = reinterpret_cast<const uint8_t*>(ones.data());
      for (size_t i = 0; i < op.bytes; ++i) EXPECT_TRUE(a[i] == b[i] || (a[i] == 0 && b[i] == 0xFF)) << op.type << i;
    }
  }
}

TEST(static_tables, self_test_tells_constants_and_outputs_apart) {
  static std::string said;
  const auto print = [](const char* text) { said += text; };
  StaticModel m(test::dense_int8());
  const std::vector<GoldenPair> made = make_golden(m.loaded, 0, 1);
  const BoundTables bound(m.tables);
  const GoldenPairs golden = {made[0].inputs.data(), made[0].outputs.data(), 1, same_bytes};
  EXPECT_EQ(self_test(bound.program(), golden, print), 0);
  EXPECT_TRUE(said.starts_with("model ") && said.size() == 39) << said;

  std::vector<uint8_t> other = made[0].outputs;
  other.back() ^= 1;
  EXPECT_EQ(self_test(bound.program(), {made[0].inputs.data(), other.data(), 1, same_bytes}, print), 1);
  EXPECT_NE(said.find("another output than the PC's\n"), std::string::npos);
  m.tables.steps.back().rounding = Rounding::kFloatEven;
  EXPECT_GE(self_test(bound.program(), golden, print), 1);
  EXPECT_NE(said.find("constants are not those that the PC wrote\n"), std::string::npos);
}

TEST(static_tables, c_reads_and_runs_them) {
  StaticModel m(test::dense_int8());
  const BoundTables bound(m.tables);
  const nacre_static_program* const program = &bound.program();
  const std::vector<GoldenPair> golden = make_golden(m.loaded, 0, 1);
  size_t size = 1;
  EXPECT_EQ(nacre_static_input(program, 1, &size), nullptr);
  EXPECT_EQ(size, 0u);
  void* const input = nacre_static_input(program, 0, &size);
  ASSERT_EQ(size, golden[0].inputs.size());
  std::memcpy(input, golden[0].inputs.data(), size);
  nacre_static_start(program);
  ASSERT_EQ(nacre_static_run(program), 0);
  const void* const output = nacre_static_output(program, 0, &size);
  ASSERT_EQ(size, golden[0].outputs.size());
  EXPECT_EQ(std::memcmp(output, golden[0].outputs.data(), size), 0);
}

TEST(static_tables, floats_are_compared_by_the_largest) {
  const float expected[] = {1, -100, 0}, close[] = {1.0009f, -100, 0.0009f}, apart[] = {1, -100, 0.0011f};
  const float infinite[] = {1, -100, INFINITY}, none[] = {NAN, -100, 0};
  const auto equal = [&](const float(&found)[3]) {
    return close_floats(reinterpret_cast<const std::byte*>(found), reinterpret_cast<const uint8_t*>(expected), 12);
  };
  EXPECT_TRUE(equal(expected) && equal(close));
  EXPECT_FALSE(equal(apart) || equal(infinite) || equal(none));
}

TEST(static_tables, what_is_not_static_is_refused) {
  EXPECT_NE(refused_with([] { StaticModel m(test::training()); }, kUnsupported).find("what training learns"),
            std::string::npos);
  EXPECT_NE(refused_with([] { StaticModel m(test::packed()); }, kUnsupported).find("a static program"),
            std::string::npos);
}

}  // namespace
}  // namespace nacre::tools
