// Tests that the time of import and of simplify grows with the number of nodes, not with its square.
#include <gtest/gtest.h>

#include <ctime>
#include <functional>

#include "tests/importers/onnx_builder.h"
#include "tests/sanitized.h"
#include "tools/importers/importer.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

std::string name(const char* stem, int i) { return stem + std::to_string(i); }

OnnxBuilder chain(int count,
                  const std::function<void(OnnxBuilder&, const std::string& x, const std::string& y, int i)>& add) {
  OnnxBuilder b;
  b.input("x", {1, 4});
  for (int i = 0; i < count; ++i) add(b, i == 0 ? "x" : name("v", i), name("v", i + 1), i);
  b.output(name("v", count));
  return b;
}

const struct {
  const char* what;
  OnnxBuilder (*make)(int count);
} kShapes[] = {
    {"a chain of steps",
     [](int n) { return chain(n, [](OnnxBuilder& of, auto& x, auto& y, int) { of.node("Sigmoid", {x}, {y}); }); }},
    {"steps of one name",
     [](int n) {
       OnnxBuilder b = chain(n, [](OnnxBuilder& of, auto& x, auto& y, int) { of.node("Sigmoid", {x}, {y}); });
       for (auto& node : *b.model().mutable_graph()->mutable_node()) node.set_name("same");
       return b;
     }},
    {"steps with a constant each",
     [](int n) {
       return chain(n, [](OnnxBuilder& of, auto& x, auto& y, int i) {
         of.floats(name("c", i), {4}, {1, 2, 3, 4});
         of.node("Add", {x, name("c", i)}, {y});
       });
     }},
    {"identities",
     [](int n) { return chain(n, [](OnnxBuilder& of, auto& x, auto& y, int) { of.node("Identity", {x}, {y}); }); }},
    {"reshapes that cancel",
     [](int n) {
       OnnxBuilder b = chain(
           n, [](OnnxBuilder& of, auto& x, auto& y, int i) { of.node("Reshape", {x, i % 2 == 0 ? "a" : "b"}, {y}); });
       b.integers("a", {2}, {4, 1});
       b.integers("b", {2}, {1, 4});
       return b;
     }},
    {"quantizers",
     [](int n) {
       OnnxBuilder b = chain(n, [](OnnxBuilder& of, auto& x, auto& y, int i) {
         of.node("QuantizeLinear", {x, "s", "z"}, {name("q", i)});
         of.node("DequantizeLinear", {name("q", i), "s", "z"}, {name("d", i)});
         of.node("Sigmoid", {name("d", i)}, {y});
       });
       b.floats("s", {}, {0.5f});
       b.codes("z", {}, {0});
       return b;
     }},
};

double seconds(const std::vector<uint8_t>& file) {
  const std::clock_t begun = std::clock();
  Graph graph = import_onnx(file, "test.onnx");
  simplify(graph);
  check(graph);
  return double(std::clock() - begun) / CLOCKS_PER_SEC;
}

// If time is linear, 16 times as many nodes take 16 times as long; if it is quadratic, 256 times. The limit is the
// geometric mean, 64. Processor time depends little on the machine's load. The small file is timed three times and
// the best counts. If the large file is over the limit, it is timed again, up to five times in all: slowness by other
// processes' use of the caches passes, quadratic time does not.
TEST(import_time, grows_with_the_nodes_and_not_with_their_square) {
  const int less = nacre::test::generated(1000), more = 16 * less;
  for (const auto& shape : kShapes) {
    const std::vector<uint8_t> few = shape.make(less).finish(), many = shape.make(more).finish();
    const double best = std::min({seconds(few), seconds(few), seconds(few)});
    double all = seconds(many);
    for (int again = 0; again < 4 && all >= 64 * best; ++again) all = std::min(all, seconds(many));
    EXPECT_LT(all, 64 * best) << shape.what << ": " << best << " s of " << less << ", " << all << " s of " << more;
  }
}

}  // namespace
}  // namespace nacre::tools
