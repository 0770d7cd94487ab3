// Claim: the graph rewrite decides for each node (its paint: ALLOW, DENY or none) as TensorFlow's does.
//
//   hand-painted   every graph of tests/passes/rewrite_graphs.h, one or more for each step of the rewrite: each node
//                  gets the same paint, by the same step
//   TensorFlow     random graphs painted by grappler itself (tests/peers/tensorflow_rewrite.py, releases 2.15 and 2.21,
//                  both types, both editions of the lists, every level): the same nodes run in 16 bits
//   ResNet-8       the image classification network of MLPerf Tiny with batch norms, as an ONNX file. 9 convolutions
//                  and the dense are ALLOW by step 2. 7 batch norms, 7 relus, 3 adds, the pool and the flatten lie
//                  between them and are ALLOW by step 4. The softmax is DENY by the lists of 1.15; by today's lists
//                  it has no paint with float16, and is ALLOW by step 5 with bfloat16
#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include "tests/claims/claims.h"
#include "tests/importers/onnx_builder.h"
#include "tests/passes/rewrite_graphs.h"
#include "tests/passes/rewrite_peers.h"
#include "tests/project_path.h"
#include "tools/base/error.h"
#include "tools/importers/importer.h"

namespace nacre::tools {
namespace {

// ---- Graphs whose decisions (ALLOW, DENY or none, per node) are written by hand

struct Tally {
  int graphs = 0, same_graphs = 0, nodes = 0, same_nodes = 0;
  std::map<std::string, int> paints;
};

void compare(const HandPainted& painted, Tally& tally) {
  Graph graph = graph_of(painted);
  check(graph);
  const std::vector<RewriteDecision> decisions = rewrite_mixed(graph, painted.options);
  const std::string found = paints_of(decisions), expected = expected_paints(painted);
  int same = 0;
  for (size_t n = 0; n < decisions.size(); ++n) {
    const std::string paint = found.substr(3 * n, 2);
    same += 3 * n + 2 <= expected.size() && expected.substr(3 * n, 2) == paint ? 1 : 0;
    ++tally.paints[paint];
  }
  ++tally.graphs;
  tally.same_graphs += found == expected ? 1 : 0;
  tally.nodes += int(decisions.size());
  tally.same_nodes += same;
  std::printf("%-4s %2d of %2zu nodes  %s\n     %s%s%s\n", found == expected ? "same" : "BAD", same, decisions.size(),
              painted.name, found.c_str(), found == expected ? "" : "  expected  ",
              found == expected ? "" : expected.c_str());
}

// ---- ResNet-8

// A stack of 3x3 and 1x1 convolutions, whose weights are normal with variance 2 / fan-in (He et al. 2015, eq. 10).
class ResNet8 {
 public:
  std::vector<uint8_t> file() {
    b_.input("image", {1, 3, 32, 32});
    std::string x = relu(batch_norm(conv("image", 3, 16, 3, 1)));
    x = residual(x, 16, 16, 1);
    x = residual(x, 16, 32, 2);
    x = residual(x, 32, 64, 2);
    b_.node("AveragePool", {x}, {"pool"}).ints("kernel_shape", {8, 8}).ints("strides", {8, 8});
    b_.node("Flatten", {"pool"}, {"flatten"});
    normal("dense/w", {10, 64}, 64);
    normal("dense/b", {10}, 1);
    b_.node("Gemm", {"flatten", "dense/w", "dense/b"}, {"dense"}).integer("transB", 1);
    b_.node("Softmax", {"dense"}, {"softmax"}).integer("axis", 1);
    b_.output("softmax");
    for (::onnx::NodeProto& node : *b_.model().mutable_graph()->mutable_node()) node.set_name(node.output(0));
    return b_.finish();
  }

 private:
  std::string next(const char* name) { return name + std::to_string(++counts_[name]); }

  void normal(const std::string& name, const std::vector<int64_t>& dims, int fan_in) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    std::normal_distribution<float> distribution(0, std::sqrt(2.0f / float(fan_in)));
    std::vector<float> data(static_cast<size_t>(count));
    for (float& v : data) v = distribution(random_);
    b_.floats(name, dims, data);
  }

  std::string conv(const std::string& x, int64_t in, int64_t out, int64_t kernel, int64_t stride) {
    const std::string y = next("conv");
    channels_ = out;
    normal(y + "/w", {out, in, kernel, kernel}, int(in * kernel * kernel));
    normal(y + "/b", {out}, int(in * kernel * kernel));
    b_.node("Conv", {x, y + "/w", y + "/b"}, {y}).ints("strides", {stride, stride}).text("auto_pad", "SAME_UPPER");
    return y;
  }

  std::string batch_norm(const std::string& x) {
    const std::string y = next("batch_norm");
    std::vector<std::string> operands = {x};
    for (const char* parameter : {"/scale", "/bias", "/mean", "/variance"}) {
      b_.filled(y + parameter, {channels_}, parameter[1] == 's' || parameter[1] == 'v' ? 1.0f : 0.0f);
      operands.push_back(y + parameter);
    }
    b_.node("BatchNormalization", operands, {y}).real("epsilon", 1e-3f);
    return y;
  }

  std::string relu(const std::string& x) {
    const std::string y = next("relu");
    b_.node("Relu", {x}, {y});
    return y;
  }

  // Adds y = relu(f(x) + shortcut). If the shape changes, the shortcut is a 1x1 convolution.
  std::string residual(const std::string& x, int64_t in, int64_t out, int64_t stride) {
    std::string y = relu(batch_norm(conv(x, in, out, 3, stride)));
    y = batch_norm(conv(y, out, out, 3, 1));
    const std::string shortcut = in == out ? x : conv(x, in, out, 1, stride), sum = next("add");
    b_.node("Add", {shortcut, y}, {sum});
    return relu(sum);
  }

  OnnxBuilder b_;
  std::mt19937 random_{8};
  std::map<std::string, int> counts_;
  int64_t channels_ = 0;
};

// The nodes expected in ResNet-8: their number, and their paint with its step. The importer adds a transpose to NHWC
// after the image, and a reshape back to NCHW, of 1x1 pixels, before the flatten.
struct Expected {
  const char* op;
  int count;
  const char* paint;
};

constexpr Expected kResNet8[] = {
    {"Conv2D+BiasAdd", 9, "A2"}, {"FusedBatchNormV3", 7, "A4"}, {"Relu", 7, "A4"},    {"AddV2", 3, "A4"},
    {"AvgPool", 1, "A4"},        {"MatMul+BiasAdd", 1, "A2"},   {"Reshape", 2, "A4"}, {"Transpose", 1, "A6"},
};

// Returns whether every node is painted as kResNet8 says, and the softmax as `softmax` says.
bool painted_as_expected(const std::vector<RewriteDecision>& decisions, const std::string& softmax) {
  std::map<std::string, std::map<std::string, int>> found;
  for (const RewriteDecision& d : decisions) ++found[d.tensorflow_op][paints_of({d})];
  std::map<std::string, std::map<std::string, int>> expected = {{"Softmax", {{softmax, 1}}}};
  for (const Expected& e : kResNet8) expected[e.op][e.paint] = e.count;
  return found == expected;
}

struct Edition {
  RewriteOptions options;
  const char* softmax;
};

bool paint_resnet(std::string& report) {
  const Graph source = import_onnx(ResNet8().file(), "resnet8.onnx");
  check(source);
  const Edition editions[] = {
      {{}, "D3"}, {{.type = ElementType::kBfloat16}, "D3"}, {tf2(), "-0"}, {tf2(ElementType::kBfloat16), "A5"}};
  bool all = true;
  for (const Edition& edition : editions) {
    Graph graph = source;
    const std::vector<RewriteDecision> decisions = rewrite_mixed(graph, edition.options);
    check(graph);
    const bool first = &edition == editions, same = painted_as_expected(decisions, edition.softmax);
    std::printf("%s%s\n", first ? "\nResNet-8\n" : "",
                first ? explain_text(graph, edition.options, decisions, 140).c_str()
                      : rewrite_summary(graph, edition.options, decisions).c_str());
    if (first) report = std::to_string(decisions.size());
    all = all && same;
  }
  return all;
}

// ---- TensorFlow

bool compare_peers(const std::filesystem::path& root, std::string& report) {
  bool all = true;
  for (const char* release : {"2.15", "2.21"}) {
    const std::string file = std::string("tests/peers/tensorflow_rewrite_") + release + ".json";
    const PeerTally tally = compare_with_peers(root / file);
    std::printf("TensorFlow %s: %d of %d nodes the same, %d in 16 bits, in %d graphs\n", tally.release.c_str(),
                tally.same_nodes, tally.nodes, tally.allow, tally.graphs);
    if (!tally.first_difference.empty()) std::printf("  %s\n", tally.first_difference.c_str());
    all = all && tally.graphs > 0 && tally.same_nodes == tally.nodes;
    report += (report.empty() ? "" : ", ") + tally.release + " " + std::to_string(tally.same_nodes) + " of " +
              std::to_string(tally.nodes) + " nodes in " + std::to_string(tally.graphs) + " graphs";
  }
  return all;
}

int claim(const std::filesystem::path& root) {
  Tally tally;
  for (const HandPainted& painted : hand_painted()) compare(painted, tally);
  const bool hand = tally.graphs >= 12 && tally.same_graphs == tally.graphs && tally.same_nodes == tally.nodes;
  std::string nodes, peers, paints;
  const bool resnet = paint_resnet(nodes), same = compare_peers(root, peers);
  for (const auto& [paint, count] : tally.paints)
    paints += (paints.empty() ? "" : ", ") + std::to_string(count) + " " + paint;
  if (!hand || !resnet || !same) {
    std::printf("CLAIM rewrite_painting NOT SHOWN: %d of %d hand-painted graphs, ResNet-8 %s, TensorFlow %s\n",
                tally.same_graphs, tally.graphs, resnet ? "as expected" : "differs", peers.c_str());
    return kFailed;
  }
  std::printf(
      "CLAIM rewrite_painting shown: %d of %d hand-painted graphs, %d of %d nodes (%s); TensorFlow %s; ResNet-8, %s "
      "nodes, as expected in 4 of 4 editions of the lists\n",
      tally.same_graphs, tally.graphs, tally.same_nodes, tally.nodes, paints.c_str(), peers.c_str(), nodes.c_str());
  return kSuccess;
}

}  // namespace
}  // namespace nacre::tools

NACRE_CLAIM(rewrite_painting) {
  try {
    return nacre::tools::claim(nacre::tools::project_path(""));
  } catch (const std::exception& error) {
    std::printf("CLAIM rewrite_painting NOT SHOWN: %s\n", error.what());
    return 1;
  }
}
