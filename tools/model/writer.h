// Writes graphs after plan_memory as the bytes of a model file (schema/FORMAT.md). Equal graphs and options give equal
// bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "tools/files/element_bytes.h"
#include "tools/graph/graph.h"
#include "tools/graph/operands.h"

namespace nacre::tools {

struct ProgramSource {
  const Graph* graph;
  Entry entry = Entry::kInfer;
  std::string target = "host";
  KernelSets kernels = reference_sets();  // of the target
  std::span<const uint8_t> places = {};   // of each node; none: 0, or the GPU's where the target is one
};

struct GoldenPair {
  uint32_t program = 0;
  std::vector<uint8_t> inputs, outputs;  // of all bindings, in order
  float tolerance = 0;                   // of the outputs' largest magnitude; 0: equal to the byte
};

struct WriteOptions {
  bool names = true;  // of tensors, for dumps and comparisons: not needed to run
  std::vector<GoldenPair> golden;
};

// Constants of equal type, shape and bytes are stored once, for all programs.
std::vector<uint8_t> write_model(std::span<const ProgramSource> programs, const WriteOptions& options = {});

// Lower-case hexadecimal SHA-256.
std::string sha256(std::span<const uint8_t> bytes);
std::string sha256_of_elements(const ElementBytes& bytes);  // the same, read part by part

}  // namespace nacre::tools
