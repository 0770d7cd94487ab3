#include <gtest/gtest.h>

#include <functional>

#include "tools/base/error.h"
#include "tools/graph/graph.h"

namespace nacre::tools {
namespace {

const char kText[] = R"(graph "net.onnx" batch=2 liveness_bound=96
bank "tcm" limit=64 used=32
bank "sram" limit=0 used=96
meta "labels" "a\nb"
layer "conv1" source="Conv" compute=int8 quantization=int8/static margin=-2 rounding=double loss_scale_value=0.5
layer "fc" source="MatMul"
value %x float32 [2, 4, 4, 1] batched bank=1 offset=16 steps=[0, 3]
value %w float32 [2, 3, 3, 1] codes=int8 axis=0 scale=[0.5, 0.25] zero=[0, 0] region=weights data=int8 {)"
                     R"(1, -2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}
value %"b 1" float32 [2] region=weights data=float32 {0.1, -0}
value %y float32 [2, 2, 2, 2] batched codes=int8 axis=0 scale=[0.1] zero=[-128]
value %z float32 [2, 8] batched alias=%y
value %v float32 [2, 8] batched
input "image" %x layout="NHWC"
output "scores" %v
%y = conv2d(%x, %w, %"b 1") stride_h=2 clamp=1 high=6 name="conv 1" layer="conv1"
%z = reshape(%y) rank=2 dims=[2, 8]
%v = clamp(%z) clamp=1 low=-inf high=0.1 rounding=half_even layer="fc"
log "one \"line\""
)";

TEST(text, dump_of_parse_is_the_text) { EXPECT_EQ(dump(parse(kText)), kText); }

TEST(text, comments_and_blank_lines_are_skipped) {
  EXPECT_EQ(dump(parse("# a graph\n\n" + std::string(kText) + "  # end\n")), kText);
}

TEST(text, attributes_are_decoded_by_their_coding) {
  const Graph g = parse(kText);
  EXPECT_EQ(get_integer(g.nodes[0], "stride_h"), 2);
  EXPECT_EQ(g.nodes[0].words[0], 1u);
  EXPECT_EQ(get_real(g.nodes[0], "high"), 6.0f);
  EXPECT_EQ(g.nodes[0].layer, 0);
  EXPECT_EQ(g.values[4].alias_of, 3);
}

TEST(text, bounds_of_an_int8_step_are_codes) {
  const char text[] =
      "graph \"\" batch=1\nbank \"arena\" limit=0 used=0\nvalue %x int8 [1]\nvalue %y int8 [1]\n"
      "%y = clamp(%x) clamp=1 low=-7 high=127\n";
  const Graph g = parse(text);
  EXPECT_EQ(g.nodes[0].words[1], uint32_t(-7));
  EXPECT_EQ(dump(g), text);
}

// Changes every field of the IR. Each change must change the dump, and the dump must parse to itself.
TEST(text, every_field_survives) {
  const std::vector<std::function<void(Graph&)>> changes = {
      [](Graph& g) { g.source = "other\x01\\\""; },
      [](Graph& g) { g.batch = 7; },
      [](Graph& g) { g.liveness_bound = 1u << 31; },
      [](Graph& g) { g.banks.pop_back(); },
      [](Graph& g) { g.banks[0].name = "x y"; },
      [](Graph& g) { g.metadata[0].second = ""; },
      [](Graph& g) { g.log.clear(); },
      [](Graph& g) { g.inputs[0].name = "%"; },
      [](Graph& g) { g.inputs[0].value = 5; },
      [](Graph& g) { g.outputs[0].layout = "NCHW"; },
      [](Graph& g) { g.layers[1].source_op = "Gemm"; },
      [](Graph& g) { g.layers[1].policy.variable = ElementType::kBfloat16; },
      [](Graph& g) { g.layers[1].policy.output = ElementType::kFloat16; },
      [](Graph& g) { g.layers[1].policy.quantization = Quantization::kFloat8Current; },
      [](Graph& g) { g.layers[1].policy.amax_history_length = 1024; },
      [](Graph& g) { g.layers[1].policy.update_order = UpdateOrder::kKeras; },
      [](Graph& g) { g.layers[1].policy.amax_rule = AmaxRule::kMostRecent; },
      [](Graph& g) { g.layers[1].policy.scale_form = ScaleForm::kReciprocal; },
      [](Graph& g) { g.layers[1].policy.loss_scale = LossScale::kDynamic; },
      [](Graph& g) { g.layers[1].policy.block = 32; },
      [](Graph& g) { g.values[0].name = "a b"; },
      [](Graph& g) { g.values[0].type = ElementType::kFloat8E5M2Fnuz; },
      [](Graph& g) { g.values[0].dims.clear(); },
      [](Graph& g) { g.values[0].batched = false; },
      [](Graph& g) { g.values[0].region = Region::kStream; },
      [](Graph& g) { g.values[0].bank = 0; },
      [](Graph& g) { g.values[0].offset = uint64_t{1} << 40; },
      [](Graph& g) { g.values[0].last_step = 9; },
      [](Graph& g) { g.values[0].stored = ElementType::kInt8; },
      [](Graph& g) { g.values[0].alias_of = 3; },
      [](Graph& g) { g.values[1].quantizer->codes = ElementType::kInt4; },
      [](Graph& g) { g.values[1].quantizer->axis = 3; },
      [](Graph& g) { g.values[1].quantizer->scale[1] = 1e-30f; },
      [](Graph& g) { g.values[1].quantizer->zero[1] = -(int64_t{1} << 40); },
      [](Graph& g) { g.values[1].stored = ElementType::kUint8; },
      [](Graph& g) { g.values[1].data = std::make_shared<std::vector<uint8_t>>(3); },
      [](Graph& g) { g.values[1].stored = ElementType::kFloat16; },
      [](Graph& g) {
        g.values[1].data = std::make_shared<std::vector<uint8_t>>();
        g.values[1].stored = ElementType::kInt4;
      },
      [](Graph& g) { g.values[1].data = std::make_shared<std::vector<uint8_t>>(1000, 0xA5); },
      [](Graph& g) { g.values[2].data = nullptr; },
      [](Graph& g) { g.nodes[0].name.clear(); },
      [](Graph& g) { g.nodes[0].layer = kNone; },
      [](Graph& g) { g.nodes[0].rounding = Rounding::kFloatEven; },
      [](Graph& g) { g.nodes[0].inputs[2] = kNone; },
      [](Graph& g) { g.nodes[0].outputs.push_back(kNone); },
      [](Graph& g) { g.nodes[0].outputs[0] = kNone; },
      [](Graph& g) { g.nodes[0].op = Op(999); },
      [](Graph& g) { g.nodes[0].words = {0, 0, 5, 0, uint32_t(-3)}; },
      [](Graph& g) { g.nodes[0].words.resize(40, 77); },
      [](Graph& g) { g.nodes[2].words[1] = 0x7FC00001; },  // a NaN with its payload
      [](Graph& g) { g.nodes[2].words[1] = 0x00000001; },  // the smallest float
      [](Graph& g) { g.nodes[1].words = {6, 1, 1, 1, 1, 1, 32}; },
  };
  const std::string before = dump(parse(kText), true);
  for (size_t i = 0; i < changes.size(); ++i) {
    Graph g = parse(kText);
    changes[i](g);
    const std::string text = dump(g, true);
    EXPECT_NE(text, before) << "change " << i;
    EXPECT_EQ(dump(parse(text), true), text) << "change " << i;
  }
}

TEST(text, large_constants_are_a_hash_unless_asked_in_full) {
  Graph g;
  g.constant("w", {65}, std::vector<float>(65, 1.5f));
  EXPECT_NE(dump(g).find("hash "), std::string::npos);
  EXPECT_THROW(static_cast<void>(parse(dump(g))), Error);
  EXPECT_EQ(reals(parse(dump(g, true)).values[0]), std::vector<float>(65, 1.5f));
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(parse(text));
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(text, mistakes_are_named_with_their_line) {
  const std::pair<const char*, const char*> cases[] = {
      {"grph \"a\"", "line 1: unknown record 'grph'"},
      {"\n\nvalue x float32 []", "line 3: expected '%' before 'x float32 []'"},
      {"value %x float33 []", "line 1: 'float33' is not an element type"},
      {"value %x float32 [1, 2", "line 1: expected ',' before ''"},
      {"value %x float32 [99999999999999999999]", "line 1: '99999999999999999999' is not an integer in range"},
      {"value %x float32 []\nvalue %x float32 []", "line 2: two values are named x"},
      {"value %x float32 [] alias=%q", "line 1: no value is named q"},
      {"value %x float32 [] steps=[1]", "line 1: steps needs a first and a last step"},
      {"value %x float32 [] data=float32 {1, x}", "line 1: 'x' is not a float32"},
      {"value %x int8 [] data=int8 {128}", "line 1: '128' is not an integer in range"},
      {"value %x int8 [] data=int8 hex 0", "line 1: hex data has an odd number of digits"},
      {"value %x int8 [] data=int8 hex 0g", "line 1: hex data has another character"},
      {"value %x int8 [] data=int8 hash 12", "line 1: data given as a hash: this text was not dumped in full"},
      {"value %x float16 [] data=float16 {1}", "line 1: elements of type float16 are given as hex"},
      {"value %x int8 [] colour=3", "line 1: unknown field 'colour'"},
      {"%y = relu(%x)", "line 1: no value is named y"},
      {"value %y int8 []\n%y = relu(%y)", "line 2: unknown op 'relu'"},
      {"value %y int8 []\n%y = clamp(%y) stride_h=2", "line 2: unknown field 'stride_h'"},
      {"value %y int8 []\n%y = transpose(%y) perm=[1,2,3,4,5,6,7,8,9]", "line 2: perm has at most 8 numbers"},
      {"value %y int8 []\n%y = clamp(%y) layer=\"l\"", "line 2: no layer is named l"},
      {"log \"a", "line 1: the string has no end"},
      {"log \"a\\x1\"", "line 1: \\x needs two hex digits"},
      {"log \"a\" b", "line 1: more text after the end of the record"},
      {"layer \"a\" source=\"b\" margin=200", "line 1: '200' is not an integer in range"},
  };
  for (const auto& [text, error] : cases) EXPECT_EQ(error_of(text), error);
}

// Any prefix of a good text, and any text with one changed byte, is parsed or refused with an Error.
TEST(text, damaged_text_never_crashes) {
  const std::string good = kText;
  int refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    refused += error_of(good.substr(0, i)) != "accepted";
    for (const char c : {'\0', ' ', '"', '\\', '%', '9', '[', '}', '\xFF'}) {
      std::string bad = good;
      bad[i] = c;
      refused += error_of(bad) != "accepted";
    }
  }
  EXPECT_GT(refused, int(good.size()));
}

TEST(text, what_persists_and_what_only_updates_is_read_back) {
  const std::string text =
      "graph \"train\" batch=1\n"
      "bank \"arena\" limit=0 used=0\n"
      "value %w float32 [2] region=state kept=parameter trainable initial={1, -2}\n"
      "value %count uint32 [1] region=state kept=counter\n"
      "value %g float32 [2] region=step\n"
      "value %part float32 [1] region=step offset=4 alias=%g\n"
      "value %x float32 [2]\n"
      "value %apply uint32 [1]\n"
      "input \"x\" %x\n"
      "input \"apply\" %apply\n"
      "none = accumulate(%x, %g)\n"
      "none = count_step(%count) guard=%apply\n";
  const Graph graph = parse(text);
  EXPECT_EQ(dump(graph, true), text);
  EXPECT_TRUE(graph.nodes[0].outputs.empty());
  EXPECT_EQ(graph.nodes[1].guard, 5);
  EXPECT_TRUE(graph.values[0].persists());
  EXPECT_FALSE(graph.values[0].constant());
  check(graph);
}

TEST(text, an_update_of_what_does_not_persist_is_refused) {
  Graph graph = parse(
      "graph \"train\" batch=1\nvalue %x float32 [2]\nvalue %s float32 [2]\ninput \"x\" %x\ninput \"s\" %s\nnone = "
      "accumulate(%x, %s)\n");
  EXPECT_THROW(check(graph), Error);
  graph.values[1].initial = std::make_shared<const std::vector<uint8_t>>(8);
  EXPECT_THROW(check(graph), Error);
}

}  // namespace
}  // namespace nacre::tools
