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
  KernelSets kernels = reference_sets();  // of the target's kernels
  std::span<const uint8_t> places = {};   // place of each node; empty: 0, or the GPU's place if the target is a GPU
};

struct GoldenPair {
  uint32_t program = 0;
  std::vector<uint8_t> inputs, outputs;  // bytes of all inputs, and of all outputs, in order
  float tolerance = 0;                   // relative to the outputs' largest magnitude; 0: equal to the byte
};

struct WriteOptions {
  bool names = true;  // of tensors, for dumps and comparisons; running does not need them
  std::vector<GoldenPair> golden;
};

// Returns the file's bytes. Constants of equal type, layout, shape and bytes are stored once, for all programs.
std::vector<uint8_t> write_model(std::span<const ProgramSource> programs, const WriteOptions& options = {});

// Returns the SHA-256 in lower-case hexadecimal.
std::string sha256(std::span<const uint8_t> bytes);
std::string sha256_of_elements(const ElementBytes& bytes);  // the same, read part by part

}  // namespace nacre::tools
