// Models and data for the claim mpi_equal: a transformer block with dropout as training models, and rows for it and
// for images of 32 x 32 x 3, whose classes can be learned.
//
//   distributed_models FOLDER SEQUENCES IMAGES SCALE POLICY..    so many rows of each
//
// Writes FOLDER/transformer_POLICY.nacre ('/' in a policy becomes '_'), sequences.npy, sequence_labels.npy, images.npy,
// image_labels.npy. The transformer takes micro-batches of 8 whole rows. SCALE: the first loss scale of
// mixed_float16.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/differentiate/networks.h"
#include "tools/base/error.h"
#include "tools/base/split_mix64.h"
#include "tools/compile/training.h"
#include "tools/files/atomic_file.h"
#include "tools/files/npy.h"
#include "tools/graph/operands.h"
#include "tools/policies/policy_request.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

Graph with_dropout_before(Graph graph, const std::string& layer) {
  const auto reader = std::ranges::find(graph.nodes, layer, &Node::name);
  Node dropout;
  dropout.op = Op::kDropout;
  dropout.name = "dropout";
  dropout.layer = graph.add_layer({.name = "dropout", .source_op = "Dropout", .policy = {}});
  Value y = graph.values[size_t(reader->inputs[0])];
  y.name = "dropout:0";
  dropout.inputs = {reader->inputs[0], kNone};
  dropout.outputs = {graph.add(std::move(y))};
  set_real(dropout, "rate", 0.1f);
  reader->inputs[0] = dropout.outputs[0];
  graph.nodes.insert(reader, dropout);
  return graph;
}

void write_model(const std::string& folder, const std::string& policy, float scale) {
  TrainingOptions options;
  options.optimizer.kind = Optimizer::kAdam;
  if (policy == "mixed_float16") {
    options.loss_scale = loss_scaler(LossScaleSystem::kNacre);
    options.loss_scale.initial = scale;
    options.loss_scale.period = 10;
  }
  CompileOptions compiling;
  compiling.policies = parse_policy_options({.policy = policy});
  const Graph graph = with_dropout_before(peer_network("transformer", {}).graph, "head");
  std::string name = policy;
  std::ranges::replace(name, '/', '_');
  AtomicFile file(folder + "/transformer_" + name + ".nacre");
  file.write(compile_training(graph, options, compiling).bytes);
  file.commit();
}

// Writes rows of noise. The class of row r, r modulo `classes`, adds 1 to one feature of each position, or subtracts 1.
void write_rows(const std::string& folder, const std::string& name, const std::string& label_name,
                std::vector<int64_t> dims, int classes, uint64_t seed) {
  SplitMix64 random(seed);
  NpyArray x = {.type = ElementType::kFloat32, .dims = dims, .data = {}};
  NpyArray y = {.type = ElementType::kInt32, .dims = {dims[0]}, .data = {}};
  const int64_t width = dims.back(), each = x.elements() / dims[0];
  for (int64_t r = 0; r < dims[0]; ++r) {
    const auto label = int32_t(r % classes);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&label);
    y.data.append({bytes, sizeof label});
    for (int64_t i = 0; i < each; ++i) {
      float v = float(random.next() >> 40) * 0x1p-23f - 1;
      if (i % width == label % width) v += label < width ? 1.0f : -1.0f;
      bytes = reinterpret_cast<const uint8_t*>(&v);
      x.data.append({bytes, sizeof v});
    }
  }
  write_npy(folder + "/" + name, x);
  write_npy(folder + "/" + label_name, y);
}

}  // namespace
}  // namespace nacre::test

int main(int argc, char** argv) {
  using namespace nacre::test;
  if (argc < 6) {
    std::fprintf(stderr, "usage: distributed_models FOLDER SEQUENCES IMAGES SCALE POLICY..\n");
    return 2;
  }
  try {
    const std::string folder = argv[1];
    for (int i = 5; i < argc; ++i) write_model(folder, argv[i], std::strtof(argv[4], nullptr));
    write_rows(folder, "sequences.npy", "sequence_labels.npy", {std::atoll(argv[2]), 6, 16}, 4, 1);
    write_rows(folder, "images.npy", "image_labels.npy", {std::atoll(argv[3]), 32, 32, 3}, 10, 2);
    return 0;
  } catch (const nacre::tools::Error& error) {
    std::fprintf(stderr, "distributed_models: %s\n", error.what());
    return 1;
  }
}
