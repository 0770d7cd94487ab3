// Tests import_tflite on operators that call graphs, WHILE and IF, which the importer expands, and on lists in loops.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/graph/run_graph.h"
#include "tests/importers/tflite_imports.h"

namespace nacre::tools::tflite {
namespace {

// Adds the condition graph i < turns. A loop's values are the counter i and then `rest`.
int until(TfliteBuilder& b, int turns, const std::vector<std::vector<int32_t>>& rest) {
  return b.graph([&] {
    TfliteBuilder::Ends ends;
    const int i = whole(b, "i"), most = b.int32s("most", {}, {turns}), less = bools(b, "less");
    ends.inputs = {i};
    for (const auto& shape : rest) ends.inputs.push_back(b.activation("carried", shape));
    b.op(BuiltinOperator::LESS, {i, most}, {less});
    ends.outputs = {less};
    return ends;
  });
}

int next(TfliteBuilder& b, int i) {
  const int one = b.int32s("one", {}, {1}), sum = whole(b, "next");
  b.op(BuiltinOperator::ADD, {i, one}, {sum}, CreateAddOptions(b.fbb()));
  return sum;
}

// Builds: while (i < turns) x = 2 x + 1.
std::vector<uint8_t> doubling(int turns) {
  TfliteBuilder b;
  const int cond = until(b, turns, {{1, 2}}), body = b.graph([&] {
    const int i = whole(b, "i"), x = b.activation("x", {1, 2}), two = b.floats("two", {1}, {2}),
              one = b.floats("one", {1}, {1}), twice = b.activation("twice", {1, 2}), y = b.activation("y", {1, 2});
    b.op(BuiltinOperator::MUL, {x, two}, {twice}, CreateMulOptions(b.fbb()));
    b.op(BuiltinOperator::ADD, {twice, one}, {y}, CreateAddOptions(b.fbb()));
    return TfliteBuilder::Ends{{i, x}, {next(b, i), y}};
  });
  const int x = b.activation("in", {1, 2}), zero = b.int32s("zero", {}, {0}), i = whole(b, "last"),
            y = b.activation("out", {1, 2});
  b.op(BuiltinOperator::WHILE, {zero, x}, {i, y}, CreateWhileOptions(b.fbb(), cond, body));
  return b.finish({x}, {y});
}

TEST(import_tflite_control, a_loop_is_its_body_once_per_turn) {
  const Graph graph = imported(doubling(3));
  EXPECT_EQ(ops(graph), (std::vector{Op::kMul, Op::kAdd, Op::kMul, Op::kAdd, Op::kMul, Op::kAdd, Op::kCopy}));
  EXPECT_EQ(graph.outputs[0].name, "out");
  const Graph run = run_graph(graph, {bytes_of(std::vector<float>{1, -3})});
  EXPECT_EQ(reals(value(run, "out")), (std::vector<float>{15, -17}));
}

TEST(import_tflite_control, a_loop_without_turns_gives_what_it_takes) {
  EXPECT_EQ(ops(imported(doubling(0))), std::vector{Op::kCopy});
}

TEST(import_tflite_control, weights_of_all_turns_are_one_constant) {
  const Graph graph = imported(doubling(3));
  EXPECT_EQ(graph.nodes[0].inputs[1], graph.nodes[4].inputs[1]);
}

// Builds: while (i < n) h = h + x[i], list[i] = h. TensorFlow's converter writes the lists of a recurrence like this.
std::vector<uint8_t> recurrence(int n) {
  TfliteBuilder b;
  const int cond = until(b, n, {{n, 1, 2}, {n, 1, 2}, {1, 2}});
  const int body = b.graph([&] {
    const int i = whole(b, "i"), x = b.activation("x", {n, 1, 2}), list = b.activation("list", {n, 1, 2}),
              h = b.activation("h", {1, 2});
    const int at = b.activation("at", {1, 2}), sum = b.activation("sum", {1, 2}),
              item = b.activation("item", {1, 1, 2});
    b.op(BuiltinOperator::GATHER, {x, i}, {at}, CreateGatherOptions(b.fbb()));
    b.op(BuiltinOperator::ADD, {h, at}, {sum}, CreateAddOptions(b.fbb()));
    const int zero = b.int32s("zero", {}, {0}), zeros = b.int32s("zeros", {2}, {0, 0}),
              wholes = b.int32s("wholes", {2}, {-1, -1}), start = b.int32s("start", {3}, {0, 0, 0}),
              rest = b.int32s("rest", {3}, {-1, -1, -1});
    const int more = next(b, i), i_list = whole(b, "i_list", {1}), more_list = whole(b, "more_list", {1}),
              size = whole(b, "size", {3}), begin = whole(b, "begin", {3});
    b.op(BuiltinOperator::EXPAND_DIMS, {i, zero}, {i_list});
    b.op(BuiltinOperator::EXPAND_DIMS, {more, zero}, {more_list});
    b.op(BuiltinOperator::CONCATENATION, {i_list, wholes}, {size}, CreateConcatenationOptions(b.fbb()));
    b.op(BuiltinOperator::CONCATENATION, {more_list, zeros}, {begin}, CreateConcatenationOptions(b.fbb()));
    const auto open = [&](const std::string& name) {
      return b.tensor({.name = name, .shape = {1, 1, 2}, .data = {}, .codes = {}, .signature = {-1, 1, 2}});
    };
    const int before = open("before"), after = open("after"), filled = b.activation("filled", {n, 1, 2});
    b.op(BuiltinOperator::SLICE, {list, start, size}, {before});
    b.op(BuiltinOperator::SLICE, {list, begin, rest}, {after});
    b.op(BuiltinOperator::EXPAND_DIMS, {sum, zero}, {item});
    b.op(BuiltinOperator::CONCATENATION, {before, item, after}, {filled}, CreateConcatenationOptions(b.fbb()));
    return TfliteBuilder::Ends{{i, x, list, h}, {more, x, filled, sum}};
  });
  const int x = b.activation("in", {n, 1, 2}), zero = b.int32s("start", {}, {0}),
            list_shape = b.int32s("list_shape", {3}, {n, 1, 2}), h_shape = b.int32s("h_shape", {2}, {1, 2}),
            nothing = b.floats("nothing", {}, {0}), list = b.activation("empty", {n, 1, 2}),
            h = b.activation("h0", {1, 2});
  b.op(BuiltinOperator::FILL, {list_shape, nothing}, {list});
  b.op(BuiltinOperator::FILL, {h_shape, nothing}, {h});
  const int i = whole(b, "last"), same = b.activation("same", {n, 1, 2}), y = b.activation("out", {n, 1, 2}),
            last = b.activation("h_last", {1, 2});
  b.op(BuiltinOperator::WHILE, {zero, x, list, h}, {i, same, y, last}, CreateWhileOptions(b.fbb(), cond, body));
  return b.finish({x}, {y, last});
}

TEST(import_tflite_control, a_list_is_joined_once) {
  const Graph graph = imported(recurrence(3));
  const Graph run = run_graph(graph, {bytes_of(std::vector<float>{1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(reals(value(run, "out")), (std::vector<float>{1, 2, 4, 6, 9, 12}));
  EXPECT_EQ(reals(value(run, "h_last")), (std::vector<float>{9, 12}));
  const std::vector<Op> steps = ops(graph);
  EXPECT_EQ(std::count(steps.begin(), steps.end(), Op::kConcat), 1);
}

TEST(import_tflite_control, steps_grow_with_the_turns_not_their_square) {
  const auto steps = [](int n) { return int64_t(imported(recurrence(n)).nodes.size()); };
  const int64_t a = steps(40), b = steps(80);
  EXPECT_LE(b, 2 * a + 8) << a;
  const Graph graph = imported(recurrence(40));
  std::vector<float> x(80, 1);
  const std::vector<float> y = reals(value(run_graph(graph, {bytes_of(x)}), "out"));
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], float(i / 2 + 1)) << i;
}

// Builds a recurrence on TensorFlow's own lists, which the converter keeps if the batch is open. The loop sets `set`
// of the n items.
std::vector<uint8_t> list_recurrence(int n, int set) {
  TfliteBuilder b;
  const auto list = [&](const char* name) {
    return b.tensor({.name = name, .type = TensorType::VARIANT, .shape = {}, .data = {}, .codes = {}, .signature = {}});
  };
  const int cond = b.graph([&] {
    const int i = whole(b, "i"), less = bools(b, "less");
    const int xs = list("xs"), hs = list("hs"), h = b.activation("h", {1, 2});
    b.op(BuiltinOperator::LESS, {i, b.int32s("most", {}, {set})}, {less});
    return TfliteBuilder::Ends{{i, xs, hs, h}, {less}};
  });
  const int body = b.graph([&] {
    const int i = whole(b, "i"), xs = list("xs"), hs = list("hs"), h = b.activation("h", {1, 2}),
              at = b.activation("at", {1, 2}), sum = b.activation("sum", {1, 2}), filled = list("filled"),
              shape = b.int32s("shape", {2}, {-1, 2});
    b.custom("FlexTensorListGetItem", {xs, i, shape}, {at});
    b.op(BuiltinOperator::ADD, {h, at}, {sum}, CreateAddOptions(b.fbb()));
    b.custom("FlexTensorListSetItem", {hs, i, sum}, {filled});
    return TfliteBuilder::Ends{{i, xs, hs, h}, {next(b, i), xs, filled, sum}};
  });
  const int x = b.activation("in", {n, 1, 2}), zero = b.int32s("start", {}, {0}), h = b.floats("h0", {1, 2}, {0, 0}),
            shape = b.int32s("shape", {2}, {-1, 2}), items = b.int32s("items", {}, {n}), xs = list("xs"),
            hs = list("hs"), last = whole(b, "last"), same = list("same"), filled = list("filled"),
            h_last = b.activation("h_last", {1, 2}), y = b.activation("out", {n, 1, 2});
  b.custom("FlexTensorListFromTensor", {x, shape}, {xs});
  b.custom("FlexTensorListReserve", {shape, items}, {hs});
  b.op(BuiltinOperator::WHILE, {zero, xs, hs, h}, {last, same, filled, h_last},
       CreateWhileOptions(b.fbb(), cond, body));
  b.custom("FlexTensorListStack", {filled, shape}, {y});
  return b.finish({x}, {y});
}

TEST(import_tflite_control, lists_of_tensorflow_are_lists_too) {
  const std::vector<uint8_t> x = bytes_of(std::vector<float>{1, 2, 3, 4, 5, 6});
  EXPECT_EQ(reals(value(run_graph(imported(list_recurrence(3, 3)), {x}), "out")),
            (std::vector<float>{1, 2, 4, 6, 9, 12}));
  EXPECT_EQ(reals(value(run_graph(imported(list_recurrence(3, 2)), {x}), "out")),
            (std::vector<float>{1, 2, 4, 6, 0, 0}));
  EXPECT_NE(refusal(list_recurrence(3, 4), kBadInput).find("an index that is none of its list"), std::string::npos);
}

TEST(import_tflite_control, a_list_is_no_tensor) {
  TfliteBuilder b;
  const int shape = b.int32s("shape", {1}, {2}), items = b.int32s("items", {}, {3}), x = b.activation("x", {3, 2}),
            list = b.tensor(
                {.name = "list", .type = TensorType::VARIANT, .shape = {}, .data = {}, .codes = {}, .signature = {}}),
            y = b.activation("y", {3, 2});
  b.custom("TensorListReserve", {shape, items}, {list});
  b.op(BuiltinOperator::ADD, {x, list}, {y}, CreateAddOptions(b.fbb()));
  EXPECT_NE(refusal(b.finish({x}, {y}), kBadInput).find("a list is read as a tensor"), std::string::npos);
}

TEST(import_tflite_control, a_loop_whose_turns_are_not_known_is_refused) {
  TfliteBuilder b;
  const int cond = b.graph([&] {
    const int x = b.activation("x", {1}), most = b.floats("most", {1}, {1}), less = bools(b, "less", {1});
    b.op(BuiltinOperator::LESS, {x, most}, {less});
    return TfliteBuilder::Ends{{x}, {less}};
  });
  const int x = b.activation("in", {1}), y = b.activation("out", {1});
  b.op(BuiltinOperator::WHILE, {x}, {y}, CreateWhileOptions(b.fbb(), cond, cond));
  EXPECT_NE(refusal(b.finish({x}, {y}), kUnsupported).find("out (WHILE): a loop whose number of turns is known only"),
            std::string::npos);
}

TEST(import_tflite_control, a_loop_without_end_is_refused) {
  EXPECT_NE(refusal(doubling(1 << 30), kUnsupported).find("are more than 20000 steps"), std::string::npos);
}

TEST(import_tflite_control, what_a_body_does_not_have_is_said_once) {
  TfliteBuilder b;
  const int cond = until(b, 5, {{1, 2}}), body = b.graph([&] {
    const int i = whole(b, "i"), x = b.activation("x", {1, 2}), y = b.activation("y", {1, 2});
    b.custom("Mystery", {x}, {y});
    return TfliteBuilder::Ends{{i, x}, {next(b, i), y}};
  });
  const int x = b.activation("in", {1, 2}), zero = b.int32s("zero", {}, {0}), i = whole(b, "last"),
            y = b.activation("out", {1, 2});
  b.op(BuiltinOperator::WHILE, {zero, x}, {i, y}, CreateWhileOptions(b.fbb(), cond, body));
  const std::string said = refusal(b.finish({x}, {y}), kUnsupported);
  EXPECT_NE(said.find("1 thing is not supported"), std::string::npos) << said;
  EXPECT_NE(said.find("CUSTOM Mystery"), std::string::npos) << said;
}

TEST(import_tflite_control, a_graph_that_calls_itself_or_none_is_refused) {
  for (const int called : {1, 7, 0, -3}) {
    TfliteBuilder b;
    b.graph([&] {
      const int c = bools(b, "c", {}, {1});
      const int x = b.activation("x", {1}), y = b.activation("y", {1});
      b.op(BuiltinOperator::IF, {c, x}, {y}, CreateIfOptions(b.fbb(), called, called));
      return TfliteBuilder::Ends{{x}, {y}};
    });
    const int c = bools(b, "c", {}, {1});
    const int x = b.activation("in", {1}), y = b.activation("out", {1});
    b.op(BuiltinOperator::IF, {c, x}, {y}, CreateIfOptions(b.fbb(), 1, 1));
    const std::string said = refusal(b.finish({x}, {y}), kBadInput);
    EXPECT_NE(said.find(called == 1 ? "more than 8 deep" : "calls a graph that does not exist"), std::string::npos)
        << said;
  }
}

TEST(import_tflite_control, a_stored_condition_takes_its_branch) {
  for (const bool taken : {false, true}) {
    TfliteBuilder b;
    const auto branch = [&](BuiltinOperator code) {
      return b.graph([&] {
        const int x = b.activation("x", {1, 2}), y = b.activation("y", {1, 2});
        b.op(code, {x}, {y});
        return TfliteBuilder::Ends{{x}, {y}};
      });
    };
    const int yes = branch(BuiltinOperator::NEG), no = branch(BuiltinOperator::ABS);
    const int c = bools(b, "c", {}, {uint8_t(taken ? 1 : 0)});
    const int x = b.activation("in", {1, 2}), y = b.activation("out", {1, 2});
    b.op(BuiltinOperator::IF, {c, x}, {y}, CreateIfOptions(b.fbb(), yes, no));
    const Graph run = run_graph(imported(b.finish({x}, {y})), {bytes_of(std::vector<float>{-1, 2})});
    EXPECT_EQ(reals(value(run, "out")), taken ? (std::vector<float>{1, -2}) : (std::vector<float>{1, 2}));
  }
}

TEST(import_tflite_control, codes_keep_their_scale_from_graph_to_graph) {
  TfliteBuilder b;
  const int branch = b.graph([&] {
    const int x = b.activation("x", {1, 2}, 0.25f, 3), y = b.activation("y", {1, 2}, 0.25f, 3);
    b.op(BuiltinOperator::RESHAPE, {x, b.int32s("shape", {2}, {1, 2})}, {y});
    return TfliteBuilder::Ends{{x}, {y}};
  });
  const int c = bools(b, "c", {}, {1});
  const int x = b.activation("in", {1, 2}, 0.5f, 3), y = b.activation("out", {1, 2}, 0.25f, 3);
  b.op(BuiltinOperator::IF, {c, x}, {y}, CreateIfOptions(b.fbb(), branch, branch));
  EXPECT_NE(refusal(b.finish({x}, {y}), kUnsupported).find("whose codes have another scale"), std::string::npos);
}

}  // namespace
}  // namespace nacre::tools::tflite
