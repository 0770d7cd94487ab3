// The five networks of claim framework_parity: small ones of every kind, and ResNet-8 with its trained weights. The
// numbers that JAX makes of them are in tests/peers/training_parity.json; tests/peers/training_parity.py says how
// weights and data follow from seeds.
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
  tools::Graph graph;  // real-valued, parameters constant, one layer per node; the output is what the loss looks at
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

// `models`: the folder of pretrainedResnet.tflite. Throws where an op of the network is not there, or the file.
PeerNetwork peer_network(const std::string& name, const std::filesystem::path& models);

PeerBatch peer_batch(const PeerNetwork& network, int step);

// Places in parameter i, of so many elements, whose gradients the table holds.
std::vector<size_t> peer_places(const PeerNetwork& network, size_t i, size_t elements);

}  // namespace nacre::test
