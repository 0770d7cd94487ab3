// Tests import_tflite on files built in memory: operators that move elements, the batch, and names.
#include <gtest/gtest.h>

#include "tests/graph/run_graph.h"
#include "tests/importers/tflite_imports.h"

namespace nacre::tools::tflite {
namespace {

TEST(import_tflite, reshape_takes_its_target_from_input_or_options) {
  const Graph by_input = imported(with_list(BuiltinOperator::RESHAPE, {1, 6}, {1, 2, 3}, {3}, {1, -1, 3}));
  EXPECT_EQ(output(by_input, by_input.nodes[0]).dims, (Dims{1, 2, 3}));
  const Graph by_options = imported(unary(BuiltinOperator::RESHAPE, {1, 6}, {1, 2, 3}, [](auto& f) {
    return CreateReshapeOptions(f, f.CreateVector(std::vector<int32_t>{1, 2, -1}));
  }));
  EXPECT_EQ(output(by_options, by_options.nodes[0]).dims, (Dims{1, 2, 3}));
}

// Builds Flatten as Keras exports it: SHAPE -> STRIDED_SLICE (first element) -> PACK with constants -> RESHAPE.
std::vector<uint8_t> keras_flatten() {
  TfliteBuilder b;
  const int x = b.tensor({.name = "x", .shape = {1, 2, 3}, .data = {}, .codes = {}, .signature = {-1, 2, 3}});
  const auto list = [&](const char* name, const std::vector<int32_t>& shape) {
    return b.tensor(
        {.name = name, .type = TensorType::INT32, .shape = shape, .data = {}, .codes = {}, .signature = {}});
  };
  const int shape = list("shape", {3}), first = list("first", {}), target = list("target", {2}),
            y = b.activation("y", {1, 6});
  const int zero = b.int32s("zero", {1}, {0}), one = b.int32s("one", {1}, {1}), six = b.int32s("six", {}, {6});
  b.op(BuiltinOperator::SHAPE, {x}, {shape});
  b.op(BuiltinOperator::STRIDED_SLICE, {shape, zero, one, one}, {first},
       CreateStridedSliceOptions(b.fbb(), 0, 0, 0, 0, 1));
  b.op(BuiltinOperator::PACK, {first, six}, {target}, CreatePackOptions(b.fbb(), 2, 0));
  b.op(BuiltinOperator::RESHAPE, {x, target}, {y});
  return b.finish({x}, {y});
}

TEST(import_tflite, a_target_computed_from_the_shape_is_folded) {
  const Graph graph = imported(keras_flatten());
  EXPECT_EQ(ops(graph), (std::vector{Op::kReshape}));
  const Graph five = imported(keras_flatten(), {.batch = 5});
  EXPECT_EQ(value(five, "y").dims, (Dims{5, 6}));
}

TEST(import_tflite, squeeze_and_expand_dims_are_reshapes) {
  const Graph some = imported(unary(BuiltinOperator::SQUEEZE, {1, 1, 4, 1}, {1, 4, 1}, [](auto& f) {
    return CreateSqueezeOptions(f, f.CreateVector(std::vector<int32_t>{-3}));
  }));
  EXPECT_EQ(output(some, some.nodes[0]).dims, (Dims{1, 4, 1}));
  const Graph all =
      imported(unary(BuiltinOperator::SQUEEZE, {2, 1, 4, 1}, {2, 4}, [](auto& f) { return CreateSqueezeOptions(f); }));
  EXPECT_EQ(output(all, all.nodes[0]).dims, (Dims{2, 4}));
  const Graph expanded = imported(with_list(BuiltinOperator::EXPAND_DIMS, {2, 3}, {2, 3, 1}, {}, {-1}));
  EXPECT_EQ(output(expanded, expanded.nodes[0]).dims, (Dims{2, 3, 1}));
}

TEST(import_tflite, transpose_concat_and_pad) {
  const Graph transposed = imported(with_list(BuiltinOperator::TRANSPOSE, {1, 2, 3}, {1, 3, 2}, {3}, {0, 2, 1}));
  EXPECT_EQ(get_integer(transposed.nodes[0], "perm", 1), 2);
  const Graph padded = imported(with_list(BuiltinOperator::PAD, {1, 2, 3}, {1, 5, 4}, {3, 2}, {0, 0, 1, 2, 0, 1}));
  EXPECT_EQ(get_integer(padded.nodes[0], "before", 1), 1);
  EXPECT_EQ(get_integer(padded.nodes[0], "after", 1), 2);
  EXPECT_EQ(get_integer(padded.nodes[0], "mode"), 0);
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2}), c = b.floats("c", {1, 3}, {1, 2, 3}), y = b.activation("y", {1, 5});
  b.op(BuiltinOperator::CONCATENATION, {x, c}, {y}, CreateConcatenationOptions(b.fbb(), -1, Activation::RELU));
  const Graph joined = imported(b.finish({x}, {y}));
  EXPECT_EQ(ops(joined), (std::vector{Op::kConcat, Op::kClamp}));
  EXPECT_EQ(get_integer(joined.nodes[0], "axis"), 1);
}

TEST(import_tflite, tensors_have_up_to_8_axes) {
  const std::vector<int32_t> dims = {2, 1, 3, 1, 2, 1, 1, 2}, perm = {7, 4, 2, 0, 1, 3, 5, 6},
                             to = {2, 2, 3, 2, 1, 1, 1, 1};
  const Graph graph = imported(with_list(BuiltinOperator::TRANSPOSE, dims, to, {8}, perm));
  EXPECT_EQ(output(graph, graph.nodes[0]).dims, Dims(to.begin(), to.end()));
  std::vector<float> x(24), y;
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i);
  for (int h = 0; h < 2; ++h)  // axes 7, 4, 2, 0 from the outermost
    for (int e = 0; e < 2; ++e)
      for (int c = 0; c < 3; ++c)
        for (int a = 0; a < 2; ++a) y.push_back(float(((a * 3 + c) * 2 + e) * 2 + h));
  const Graph ran = run_graph(graph, {bytes_of(x)});
  EXPECT_EQ(reals(ran.values[size_t(ran.outputs[0].value)]), y);
}

TEST(import_tflite, padv2_fills_with_a_real_value) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2}, 0.5f, -3), pads = b.int32s("p", {2, 2}, {0, 0, 1, 1}),
            y = b.activation("y", {1, 4}, 0.5f, -3);
  const int outside = b.codes("outside", {1}, {5}, {{0.5f}, {-3}, 0});
  b.op(BuiltinOperator::PADV2, {x, pads, outside}, {y});
  const Graph graph = imported(b.finish({x}, {y}));
  EXPECT_EQ(get_real(graph.nodes[0], "value"), 4);  // 0.5 * (5 + 3)
}

TEST(import_tflite, mirror_pad_reflects) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 3}), pads = b.int32s("p", {2, 2}, {0, 0, 2, 1}), y = b.activation("y", {1, 6});
  b.op(BuiltinOperator::MIRROR_PAD, {x, pads}, {y}, CreateMirrorPadOptions(b.fbb(), MirrorPadMode::REFLECT));
  EXPECT_EQ(get_integer(imported(b.finish({x}, {y})).nodes[0], "mode"), 1);
}

TEST(import_tflite, slices_split_and_unpack) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 6, 4}), begin = b.int32s("begin", {3}, {0, 1, 2}),
            size = b.int32s("size", {3}, {1, 3, -1});
  const int s = b.activation("s", {1, 3, 2}), axis = b.int32s("axis", {}, {1}), sizes = b.int32s("sizes", {2}, {2, -1});
  const int a = b.activation("a", {1, 3, 4}), c = b.activation("c", {1, 3, 4}), d = b.activation("d", {1, 2, 4}),
            e = b.activation("e", {1, 4, 4});
  const int u = b.activation("u", {1, 3}), v = b.activation("v", {1, 3});
  b.op(BuiltinOperator::SLICE, {x, begin, size}, {s});
  b.op(BuiltinOperator::SPLIT, {axis, x}, {a, c}, CreateSplitOptions(b.fbb(), 2));
  b.op(BuiltinOperator::SPLIT_V, {x, sizes, axis}, {d, e}, CreateSplitVOptions(b.fbb(), 2));
  b.op(BuiltinOperator::UNPACK, {s}, {u, v}, CreateUnpackOptions(b.fbb(), 2, 2));
  const Graph graph = imported(b.finish({x}, {s, c, e, v}));
  EXPECT_EQ(get_integer(graph.nodes[0], "begin", 2), 2);
  EXPECT_EQ(get_integer(graph.nodes[0], "size", 2), 2);
  EXPECT_EQ(get_integer(graph.nodes[2], "begin", 1), 3);  // the second half
  EXPECT_EQ(get_integer(graph.nodes[4], "size", 1), 4);   // what is left
  EXPECT_EQ(value(graph, "v").dims, (Dims{1, 3}));
}

TEST(import_tflite, pack_adds_an_axis) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 3}), y = b.activation("y", {1, 2, 3});
  b.op(BuiltinOperator::PACK, {x, x}, {y}, CreatePackOptions(b.fbb(), 2, 1));
  EXPECT_EQ(ops(imported(b.finish({x}, {y}))), (std::vector{Op::kReshape, Op::kReshape, Op::kConcat}));
}

struct StridedCase {
  std::vector<int32_t> x, begin, end, step;
  int begin_mask, end_mask, ellipsis, new_axis, shrink;
  std::vector<int32_t> y;            // numpy's shape
  std::vector<int> first, size, by;  // of the slice node, per axis of x
};

TEST(import_tflite, strided_slice_takes_what_numpy_takes) {
  const StridedCase cases[] = {
      {{1, 6}, {0, 1}, {1, 5}, {1, 2}, 0, 0, 0, 0, 0, {1, 2}, {0, 1}, {1, 2}, {1, 2}},       // x[0:1, 1:5:2]
      {{1, 6}, {0, -1}, {0, -7}, {1, -1}, 1, 1, 0, 0, 0, {1, 6}, {0, 5}, {1, 6}, {1, -1}},   // x[:, ::-1]
      {{1, 6}, {0, -2}, {0, 0}, {1, -2}, 1, 3, 0, 0, 0, {1, 3}, {0, 4}, {1, 3}, {1, -2}},    // x[:, -2::-2]
      {{1, 6}, {0, 4}, {0, 1}, {1, -1}, 1, 3, 0, 0, 0, {1, 5}, {0, 4}, {1, 5}, {1, -1}},     // x[:, 4::-1]
      {{1, 6}, {0, 4}, {1, -100}, {1, -3}, 0, 0, 0, 0, 0, {1, 2}, {0, 4}, {1, 2}, {1, -3}},  // x[0:1, 4:-100:-3]
      {{1, 6}, {0, 2}, {1, 100}, {1, 1}, 0, 0, 0, 0, 0, {1, 4}, {0, 2}, {1, 4}, {1, 1}},     // x[0:1, 2:100]
      {{1, 6}, {0, 2}, {1, 99}, {1, 1}, 0, 0, 0, 0, 2, {1}, {0, 2}, {1, 1}, {1, 1}},         // x[0:1, 2]
      {{1, 6}, {0, -2}, {1, 0}, {1, 1}, 0, 0, 0, 0, 2, {1}, {0, 4}, {1, 1}, {1, 1}},         // x[0:1, -2]
      {{1, 4, 6}, {0, 3}, {0, 5}, {1, 1}, 0, 0, 1, 0, 0, {1, 4, 2}, {0, 0, 3}, {1, 4, 2}, {1, 1, 1}},  // x[..., 3:5]
      {{1, 6},
       {0, 0, 0},
       {0, 0, 4},
       {1, 1, 1},
       1,
       1,
       0,
       2,
       0,
       {1, 1, 4},
       {0, 0},
       {1, 4},
       {1, 1}},  // x[:, newaxis, 0:4]
      {{1, 4, 6},
       {0, 0, 2},
       {0, 0, 0},
       {1, 1, 1},
       3,
       3,
       0,
       0,
       4,
       {1, 4},
       {0, 0, 2},
       {1, 4, 1},
       {1, 1, 1}},                                                             // x[:, :, 2]
      {{1, 6}, {0}, {1}, {1}, 0, 0, 0, 0, 0, {1, 6}, {0, 0}, {1, 6}, {1, 1}},  // x[0:1]
  };
  for (const StridedCase& c : cases) {
    TfliteBuilder b;
    const int x = b.activation("x", c.x), y = b.activation("y", c.y);
    const auto count = int32_t(c.begin.size());
    const int begin = b.int32s("begin", {count}, c.begin), end = b.int32s("end", {count}, c.end),
              step = b.int32s("step", {count}, c.step);
    b.op(BuiltinOperator::STRIDED_SLICE, {x, begin, end, step}, {y},
         CreateStridedSliceOptions(b.fbb(), c.begin_mask, c.end_mask, c.ellipsis, c.new_axis, c.shrink));
    const Graph graph = imported(b.finish({x}, {y}));
    SCOPED_TRACE("case " + std::to_string(&c - cases));
    for (int i = 0; i < int(c.x.size()); ++i) {
      EXPECT_EQ(get_integer(graph.nodes[0], "begin", i), c.first[size_t(i)]);
      EXPECT_EQ(get_integer(graph.nodes[0], "size", i), c.size[size_t(i)]);
      EXPECT_EQ(get_integer(graph.nodes[0], "step", i), c.by[size_t(i)]);
    }
  }
}

// ---- Batch ----

TEST(import_tflite, batch_rewrites_the_first_axis_and_targets_of_reshape) {
  const std::vector<uint8_t> file = with_list(BuiltinOperator::RESHAPE, {1, 6}, {1, 2, 3}, {3}, {1, -1, 3});
  const Graph graph = imported(file, {.batch = 4});
  EXPECT_EQ(graph.batch, 4);
  EXPECT_EQ(value(graph, "y").dims, (Dims{4, 2, 3}));
  EXPECT_TRUE(value(graph, "y").batched);
  EXPECT_EQ(imported(file).batch, 1);
  EXPECT_TRUE(value(imported(file), "x").batched);
}

TEST(import_tflite, a_slice_of_the_whole_batch_stays_whole) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 6}), begin = b.int32s("begin", {2}, {0, 2}), size = b.int32s("size", {2}, {1, 3}),
            y = b.activation("y", {1, 3});
  b.op(BuiltinOperator::SLICE, {x, begin, size}, {y});
  EXPECT_EQ(value(imported(b.finish({x}, {y}), {.batch = 3}), "y").dims, (Dims{3, 3}));
}

TEST(import_tflite, a_network_that_moves_the_batch_is_fixed) {
  const Graph graph = imported(with_list(BuiltinOperator::TRANSPOSE, {1, 2}, {2, 1}, {2}, {1, 0}));
  EXPECT_FALSE(value(graph, "x").batched);
  ASSERT_EQ(graph.log.size(), 1u);
  EXPECT_EQ(graph.log[0], "batch: fixed at 1, because y moves the batch to another axis");
}

TEST(import_tflite, an_input_without_batch_refuses_one) {
  const std::vector<uint8_t> file = unary(BuiltinOperator::TANH, {3, 2}, {3, 2});
  EXPECT_FALSE(value(imported(file), "x").batched);
  EXPECT_NE(refusal(file, kUsage, {.batch = 2}).find("has no batch on its first axis"), std::string::npos);
}

// ---- The file ----

TEST(import_tflite, signatures_name_inputs_and_outputs) {
  TfliteBuilder b;
  const int x = b.activation("serving_default_x:0", {1, 2}), y = b.activation("StatefulPartitionedCall:0", {1, 2});
  b.op(BuiltinOperator::TANH, {x}, {y});
  b.signature({{uint32_t(x), "image"}}, {{uint32_t(y), "scores"}});
  const Graph graph = imported(b.finish({x}, {y}));
  EXPECT_EQ(graph.inputs[0].name, "image");
  EXPECT_EQ(graph.outputs[0].name, "scores");
  EXPECT_EQ(graph.layers[0].name, "StatefulPartitionedCall:0");
}

TEST(import_tflite, equal_and_empty_names_become_unique) {
  TfliteBuilder b;
  const int x = b.activation("t", {1, 2}), s = b.activation("t", {1, 2}), r = b.activation("", {1, 2}),
            y = b.activation("t_2", {1, 2});
  b.op(BuiltinOperator::TANH, {x}, {s});
  b.op(BuiltinOperator::TANH, {s}, {r});
  b.op(BuiltinOperator::TANH, {r}, {y});
  const Graph graph = imported(b.finish({x}, {y}));
  EXPECT_EQ(output(graph, graph.nodes[0]).name, "t_2");
  EXPECT_EQ(output(graph, graph.nodes[1]).name, "tensor_2");
  EXPECT_EQ(output(graph, graph.nodes[2]).name, "t_2_2");
}

TEST(import_tflite, buffers_may_stand_behind_the_flatbuffer) {
  TfliteBuilder b;
  b.data_outside = true;
  const int x = b.activation("x", {1, 2}), c = b.floats("c", {2}, {3, 4}), y = b.activation("y", {1, 2});
  b.op(BuiltinOperator::ADD, {x, c}, {y});
  std::vector<uint8_t> file = b.finish({x}, {y});
  EXPECT_EQ(reals(value(imported(file), "c")), (std::vector<float>{3, 4}));
  file.pop_back();
  EXPECT_NE(refusal(file, kBadInput).find("its data lie outside the file"), std::string::npos);
}

TEST(import_tflite, integers_without_scale_stay_integers_and_real_inputs_keep_their_codes) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2}, 0.5f, 3), y = b.activation("y", {1, 2}, 0.5f, 3);
  b.op(BuiltinOperator::RELU, {x}, {y});
  const Graph graph = imported(b.finish({x}, {y}));
  const Value& in = graph.values[size_t(graph.inputs[0].value)];
  EXPECT_EQ(in.type, ElementType::kFloat32);
  EXPECT_EQ(in.quantizer->codes, ElementType::kInt8);
  EXPECT_EQ(in.quantizer->zero[0], 3);
}

}  // namespace
}  // namespace nacre::tools::tflite
