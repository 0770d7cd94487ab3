// Tests the loss scale of tf.keras's policies in a policy file.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "tests/policies/refusal.h"
#include "tools/policies/policy_loss_scale.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {
namespace {

class ScaleFile {
 public:
  explicit ScaleFile(const std::string& text) : path_(testing::TempDir() + "/nacre_loss_scale_file.json") {
    std::ofstream(path_) << text;
  }
  ~ScaleFile() { std::remove(path_.c_str()); }
  PolicyRequest request() const { return parse_policy_options({.file = path_}); }

 private:
  std::string path_;
};

Graph one_dense_layer() {
  Graph graph;
  Node node;
  node.op = Op::kDense;
  node.name = "dense_1";
  node.layer = graph.add_layer({.name = "dense_1", .source_op = "Gemm", .policy = {}});
  graph.nodes.push_back(node);
  return graph;
}

// The loss scale of a tf.keras policy becomes the training's.
TEST(tf_loss_scale, a_loss_scale_of_tensorflow_is_kept) {
  const auto scale_of = [](const std::string& loss_scale) {
    const ScaleFile file(R"({"class_name": "PolicyV1", "config": {"name": "mixed_float16", "loss_scale": )" +
                         loss_scale + "}}");
    const PolicyRequest wanted = file.request();
    Graph graph = one_dense_layer();
    resolve_policies(graph, wanted);
    return loss_scale_of_policies(graph, wanted);
  };
  EXPECT_EQ(scale_of("null").kind, LossScale::kNone);
  EXPECT_TRUE(scale_of("null").said);
  EXPECT_EQ(scale_of("128").value, 128);
  const std::string dynamic = R"({"class_name": "DynamicLossScale", "config": {"initial_loss_scale": 1024}})";
  EXPECT_EQ(scale_of(dynamic).kind, LossScale::kDynamic);
  EXPECT_EQ(scale_of(dynamic).numbers, "=1024");
  const std::string own =
      R"({"class_name": "PolicyV1", "config": {"name": "mixed_float16", "loss_scale": )" + dynamic + "}}";
  const ScaleFile file(own);
  Graph graph = one_dense_layer();
  const PolicyRequest wanted = file.request();
  resolve_policies(graph, wanted);
  EXPECT_EQ(refusal([&] { policy_json(graph, wanted); }).label, "NotConvertible");
  const ScaleFile of_layer(R"({"layers": {"dense_1": )" + own + "}}");
  const Refusal refused_layer = refusal([&] { of_layer.request(); });
  EXPECT_EQ(refused_layer.label, "Contradiction");
  EXPECT_NE(refused_layer.text.find("--loss-scale dynamic=1024"), std::string::npos) << refused_layer.text;
}

}  // namespace
}  // namespace nacre::tools
