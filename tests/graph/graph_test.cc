#include "tools/graph/graph.h"

#include <gtest/gtest.h>

#include "tests/graph/run_graph.h"
#include "tools/base/error.h"

namespace nacre::tools {
namespace {

TEST(graph, names_are_made_unique) {
  Graph g;
  g.constant("w", {1}, std::vector<float>{1});
  g.constant("w", {1}, std::vector<int32_t>{1});
  g.constant("w_2", {1}, std::vector<int8_t>{1});
  g.add(Value());
  EXPECT_EQ(g.values[0].name, "w");
  EXPECT_EQ(g.values[1].name, "w_2");
  EXPECT_EQ(g.values[2].name, "w_2_2");
  EXPECT_EQ(g.values[3].name, "value");
  g.add_layer({"a", "Conv", {}});
  g.add_layer({"a", "Conv", {}});
  EXPECT_EQ(g.layers[1].name, "a_2");
}

TEST(graph, constants_need_as_many_elements_as_their_shape) {
  Graph g;
  EXPECT_THROW(g.constant("w", {2, 2}, std::vector<float>{1, 2, 3}), Error);
}

TEST(graph, attributes_are_coded_as_the_table_says) {
  Node n;
  n.op = Op::kConv2d;
  set_integer(n, "stride_w", 1);  // stored as 0: nothing to store
  EXPECT_TRUE(n.words.empty());
  set_integer(n, "stride_w", 3);
  EXPECT_EQ(n.words, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(get_integer(n, "stride_w"), 3);
  EXPECT_EQ(get_integer(n, "groups"), 1);
  set_real(n, "high", 6.0f);
  EXPECT_EQ(get_real(n, "high"), 6.0f);
  EXPECT_THROW(get_integer(n, "axis"), Error);
  EXPECT_THROW(get_integer(n, "groups", 1), Error);
}

Value constant_of(ElementType stored, std::vector<int64_t> dims, std::vector<uint8_t> bytes) {
  Value v;
  v.name = "v";
  v.stored = stored;
  v.dims = std::move(dims);
  v.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  return v;
}

TEST(graph, reals_decode_every_stored_type) {
  EXPECT_EQ(reals(constant_of(ElementType::kFloat32, {1}, {0, 0, 0x80, 0x3F})), std::vector<float>{1});
  EXPECT_EQ(reals(constant_of(ElementType::kFloat64, {1}, {0, 0, 0, 0, 0, 0, 0xF8, 0x3F})), std::vector<float>{1.5});
  EXPECT_EQ(reals(constant_of(ElementType::kBfloat16, {1}, {0xC0, 0xBF})), std::vector<float>{-1.5});
  EXPECT_EQ(reals(constant_of(ElementType::kInt16, {1}, {0xFE, 0xFF})), std::vector<float>{-2});
  EXPECT_EQ(reals(constant_of(ElementType::kUint8, {2}, {1, 255})), (std::vector<float>{1, 255}));
  EXPECT_EQ(integers(constant_of(ElementType::kInt4, {3}, {0x8F, 0x07})), (std::vector<int64_t>{-1, -8, 7}));
  EXPECT_EQ(integers(constant_of(ElementType::kUint4, {3}, {0x8F, 0x07})), (std::vector<int64_t>{15, 8, 7}));
}

// Compares every one of the 65536 halves with the definition, (-1)^s 2^(e-15) (1 + f/1024).
TEST(graph, every_half_is_decoded_exactly) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float got = reals(constant_of(ElementType::kFloat16, {1}, {uint8_t(bits), uint8_t(bits >> 8)}))[0];
    const int exponent = int(bits >> 10 & 31), fraction = int(bits & 1023);
    const double sign = bits >> 15 != 0 ? -1 : 1;
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(got), fraction != 0) << bits;
      if (fraction == 0) {
        EXPECT_EQ(double(got), sign * INFINITY) << bits;
      }
      continue;
    }
    const int significand = exponent == 0 ? fraction : fraction + 1024;
    EXPECT_EQ(double(got), sign * std::ldexp(significand, std::max(exponent, 1) - 25)) << bits;
  }
}

TEST(graph, codes_are_decoded_by_their_quantizer) {
  Value v = constant_of(ElementType::kInt8, {2, 2}, {1, 2, 0xFF, 0x80});
  v.quantizer = Quantizer{.codes = ElementType::kInt8, .scale = {0.5f, 2}, .zero = {0, 1}, .axis = 0};
  EXPECT_EQ(reals(v), (std::vector<float>{0.5, 1, -4, -258}));
  v.quantizer->axis = 1;
  EXPECT_EQ(reals(v), (std::vector<float>{0.5, 2, -0.5, -258}));
  v.quantizer = Quantizer{.codes = ElementType::kInt8, .scale = {0.5f}, .zero = {-1}, .axis = 0};
  EXPECT_EQ(reals(v), (std::vector<float>{1, 1.5, 0, -63.5}));
}

TEST(graph, constants_of_another_size_are_refused) {
  EXPECT_THROW(reals(constant_of(ElementType::kFloat32, {2}, {0, 0, 0, 0})), Error);
  EXPECT_THROW(reals(Value()), Error);
  EXPECT_THROW(integers(constant_of(ElementType::kFloat32, {1}, {0, 0, 0, 0})), Error);
}

const char kNet[] = R"(graph "net" batch=1
layer "l" source="Conv"
value %x float32 [1, 4, 4, 1]
value %w float32 [2, 3, 3, 1] data=float32 {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}
value %y float32 [1, 2, 2, 2]
value %z float32 [1, 8]
value %unused float32 [0] data=float32 {}
input "x" %x
output "z" %z
%y = conv2d(%x, %w) layer="l"
%z = reshape(%y) rank=2 dims=[1, 8]
)";

TEST(check, accepts_a_sound_graph) { EXPECT_NO_THROW(check(parse(kNet))); }

struct Broken {
  const char* fact;
  void (*make)(Graph&);
};

TEST(check, names_what_does_not_hold) {
  const Broken cases[] = {
      {"two values have this name", [](Graph& g) { g.values[1].name = "x"; }},
      {"two layers have this name", [](Graph& g) { g.layers.push_back(g.layers[0]); }},
      {"has no element type", [](Graph& g) { g.values[0].type = ElementType::kNone; }},
      {"more than 8 axes", [](Graph& g) { g.values[0].dims = {1, 1, 1, 1, 1, 1, 1, 1, 16}; }},
      {"outside the limits", [](Graph& g) { g.values[0].dims = {1, 4, 4, -1}; }},
      {"outside the limits", [](Graph& g) { g.values[0].dims = {1, 4, 4, 0}; }},
      {"outside the limits", [](Graph& g) { g.values[0].dims = {1 << 20, 1 << 20, 1 << 20, 1 << 20}; }},
      {"has 72 bytes of data, its shape needs 144", [](Graph& g) { g.values[1].dims[0] = 4; }},
      {"stored as int8 without a quantizer", [](Graph& g) { g.values[1].stored = ElementType::kInt8; }},
      {"has no scale", [](Graph& g) { g.values[0].quantizer = Quantizer(); }},
      {"neither one scale nor one per channel",
       [](Graph& g) { g.values[1].quantizer = Quantizer{.scale = {1, 1, 1}, .zero = {}}; }},
      {"axis is outside the rank",
       [](Graph& g) { g.values[1].quantizer = Quantizer{.scale = {1, 1}, .zero = {}, .axis = 4}; }},
      {"not a positive, normal, finite number",
       [](Graph& g) { g.values[0].quantizer = Quantizer{.scale = {0}, .zero = {}}; }},
      {"other counts of scales and zero points",
       [](Graph& g) { g.values[1].quantizer = Quantizer{.scale = {1, 1}, .zero = {1, 2, 3}}; }},
      {"is an alias of a missing value", [](Graph& g) { g.values[3].alias_of = 99; }},
      {"is batched but has no axis 0", [](Graph& g) { g.values[1].batched = true; }},
      {"input x: has no value", [](Graph& g) { g.inputs[0].value = 77; }},
      {"input x: is a constant", [](Graph& g) { g.inputs[0].value = 1; }},
      {"is two inputs", [](Graph& g) { g.inputs.push_back(g.inputs[0]); }},
      {"is never written", [](Graph& g) { g.nodes.pop_back(); }},
      {"has no value", [](Graph& g) { g.outputs[0].value = kNone; }},
      {"reads y before it is written", [](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); }},
      {"writes the constant w", [](Graph& g) { g.nodes[0].outputs[0] = 1; }},
      {"written already", [](Graph& g) { g.nodes.push_back(g.nodes[1]); }},
      {"reads value 99, which does not exist", [](Graph& g) { g.nodes[0].inputs[0] = 99; }},
      {"writes value -1, which does not exist", [](Graph& g) { g.nodes[0].outputs[0] = kNone; }},
      {"has 2 outputs, the op 1", [](Graph& g) { g.nodes[1].outputs.push_back(2); }},
      {"has 2 inputs, the op at most 1", [](Graph& g) { g.nodes[1].inputs.push_back(0); }},
      {"input w is missing", [](Graph& g) { g.nodes[0].inputs.pop_back(); }},
      {"its layer does not exist", [](Graph& g) { g.nodes[0].layer = 1; }},
      {"no rule for op 999", [](Graph& g) { g.nodes[0].op = Op(999); }},
      {"z has shape [8, 1], the op gives [1, 8]", [](Graph& g) { g.values[3].dims = {8, 1}; }},
      {"inputs [1, 4, 4, 1], [2, 9, 1, 1]", [](Graph& g) { g.values[1].dims = {2, 9, 1, 1}; }},
      {"batch: must be at least 1", [](Graph& g) { g.batch = 0; }},
  };
  for (const Broken& broken : cases) {
    Graph g = parse(kNet);
    broken.make(g);
    try {
      check(g);
      ADD_FAILURE() << "accepted: " << broken.fact;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(broken.fact), std::string::npos) << e.what();
    }
  }
}

TEST(infer, sets_the_shapes_of_all_outputs) {
  Graph g = parse(kNet);
  g.values[2].dims = g.values[3].dims = {};
  infer_shapes(g);
  EXPECT_EQ(g.values[2].dims, (std::vector<int64_t>{1, 2, 2, 2}));
  EXPECT_EQ(g.values[3].dims, (std::vector<int64_t>{1, 8}));
}

TEST(infer, says_the_shapes_it_was_given) {
  Graph g = parse(kNet);
  g.values[0].dims = {1, 2, 2, 1};
  try {
    infer_shapes(g);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, kBadInput);
    EXPECT_NE(std::string(e.what()).find("net: l (conv2d)"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("[1, 2, 2, 1], [2, 3, 3, 1]"), std::string::npos) << e.what();
  }
}

TEST(evaluate, runs_the_reference_kernel) {
  std::vector<float> x(16, 0.0f);
  x[5] = 1;  // an impulse at (1, 1): y is the reversed kernel
  const Graph g = run_graph(parse(kNet), {bytes_of(x)});
  EXPECT_EQ(reals(g.values[3]), (std::vector<float>{5, 14, 4, 13, 2, 11, 1, 10}));
}

TEST(evaluate, decodes_codes_and_takes_absent_operands) {
  Graph g = parse(R"(graph "" batch=1
value %x float32 [1, 2] codes=int8 scale=[0.5] zero=[1] data=int8 {3, 5}
value %w float32 [1, 2] data=float32 {10, 100}
value %y float32 [1, 1]
%y = dense(%x, %w, none, none, none, none)
)");
  EXPECT_EQ(evaluate(g, g.nodes[0]), std::vector<std::vector<uint8_t>>{bytes_of(std::vector<float>{210})});
}

TEST(evaluate, joins_any_number_of_inputs) {
  Graph g = parse(R"(graph "" batch=1
value %a int8 [1, 2] data=int8 {1, 2}
value %b int8 [1, 1] data=int8 {3}
value %c int8 [1, 2] data=int8 {4, 5}
value %y int8 [1, 5]
%y = concat(%a, %b, %c) axis=1
)");
  EXPECT_EQ(evaluate(g, g.nodes[0])[0], (std::vector<uint8_t>{1, 2, 3, 4, 5}));
}

TEST(evaluate, refuses_types_without_a_kernel) {
  Graph g = parse("graph \"\" batch=1\nvalue %a int64 [1] data=int64 {1}\nvalue %y int64 [1]\n%y = tanh(%a)\n");
  EXPECT_THROW(evaluate(g, g.nodes[0]), Error);
}

}  // namespace
}  // namespace nacre::tools
