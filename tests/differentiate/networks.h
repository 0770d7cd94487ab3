// The five networks of claim framework_parity: four small ones of different kinds, and ResNet-8 with its trained
// weights. tests/peers/training_parity.json has JAX's numbers. tests/peers/training_parity.py says how weights and
// data follow from seeds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::test {

struct PeerNetwork {
  std::string name;
  int index = 0;       // k of the seeds
  tools::Graph graph;  // real-valued, constant parameters, one layer per node; the loss reads its output
  std::vector<std::string> parameters;  // names of the values, in the order of the peer
  bool squared_error = false;           // else softmax cross-entropy
  bool adam = false;                    // else momentum
  float learning_rate = 0;
  int batch = 0, batches = 0, classes = 0;
  bool pixels = false;
};

struct PeerBatch {
  std::vector<float> x, targets;  // targets of squared_error
  std::vector<int32_t> labels;    // of softmax cross-entropy
};

inline constexpr const char* kPeerNetworks[] = {"mlp", "cnn", "resnet8", "transformer", "lstm"};

// `models` is the folder of pretrainedResnet.tflite. Throws if the file or an op of the network is missing.
PeerNetwork peer_network(const std::string& name, const std::filesystem::path& models);

PeerBatch peer_batch(const PeerNetwork& network, int step);

// Returns the indices of those of the `elements` numbers of parameter i whose gradients the table holds.
std::vector<size_t> peer_places(const PeerNetwork& network, size_t i, size_t elements);

}  // namespace nacre::test
