// Tests that the networks of claim framework_parity are those that the peer trained: compares their first loss with
// its table.
#include "tests/differentiate/networks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/graph/run_graph.h"
#include "tests/project_path.h"
#include "tools/base/print.h"
#include "tools/files/npy.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

std::filesystem::path models() { return shared_path("models/mlperf_tiny"); }

double loss_of(const PeerNetwork& network, const PeerBatch& batch, const std::vector<float>& y) {
  double sum = 0;
  if (network.squared_error) {
    for (size_t i = 0; i < y.size(); ++i) sum += std::pow(double(y[i]) - double(batch.targets[i]), 2);
    return sum / double(y.size());
  }
  const auto classes = size_t(network.classes);
  for (size_t n = 0; n < batch.labels.size(); ++n) {
    double exponentials = 0;
    for (size_t k = 0; k < classes; ++k) exponentials += std::exp(double(y[n * classes + k]));
    sum += std::log(exponentials) - double(y[n * classes + size_t(batch.labels[n])]);
  }
  return sum / double(batch.labels.size());
}

// Compares the loss of a forward pass in float32 with the first loss of the peer's float64 curve. A sum of K terms
// has a relative error of the order eps sqrt(K), eps = 2^-24. The deepest network has 9 sums of at most 576 terms:
// 2e-5 allows for cancellation.
class FirstLoss : public testing::TestWithParam<const char*> {};

TEST_P(FirstLoss, is_the_peers) {
  const std::string name = GetParam();
  if (name == "resnet8" && !std::filesystem::exists(models())) GTEST_SKIP() << models() << " is not there";
  const Json table = Json::parse(read_file(project_path("tests/peers/training_parity.json")));
  const PeerNetwork network = peer_network(name, models());
  const Json& record = table.at("networks").at(size_t(network.index - 1));
  ASSERT_EQ(record.at("name"), name);
  EXPECT_EQ(record.at("learning_rate").get<float>(), network.learning_rate);
  EXPECT_EQ(record.at("optimizer"), network.adam ? "adam" : "momentum");
  EXPECT_EQ(record.at("loss"), network.squared_error ? "squared_error" : "softmax_cross_entropy");
  ASSERT_EQ(record.at("gradients").size(), network.parameters.size());

  const PeerBatch batch = peer_batch(network, 0);
  const Graph run = run_graph(network.graph, {bytes_of(batch.x)});
  const double expected = record.at("float64").at(0);
  EXPECT_NEAR(loss_of(network, batch, reals(run.values[size_t(run.outputs.at(0).value)])), expected, 2e-5 * expected);
}

// cnn is left out, because it trains with its batches' statistics but infers with running ones.
INSTANTIATE_TEST_SUITE_P(networks, FirstLoss, testing::Values("mlp", "resnet8", "transformer", "lstm"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace nacre::test
