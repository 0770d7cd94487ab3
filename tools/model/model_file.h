// Turns the complete tables of a model file into its bytes. Only tools/model/writer.cc uses it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "tools/model/writer.h"

namespace nacre::tools {

struct ModelTables {
  struct ProgramRecord {
    uint32_t first_step, step_count, first_tensor, tensor_count;
    std::vector<uint32_t> inputs, outputs;
  };

  uint64_t region_bytes[size_t(Region::kCount)] = {};
  std::vector<TensorRecord> tensors;
  std::vector<std::string> names;  // of tensors
  std::vector<QuantizerRecord> quantizers;
  std::vector<StepRecord> steps;
  std::vector<uint32_t> words, operands;
  std::vector<ProgramRecord> programs;
  std::vector<Layer> layers;
  std::vector<uint8_t> weights;
};

// Returns the file's bytes. `sources` are those of tables.programs, in the same order.
std::vector<uint8_t> model_file(const ModelTables& tables, std::span<const ProgramSource> sources,
                                const WriteOptions& options);

}  // namespace nacre::tools
