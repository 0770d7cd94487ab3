// Reader reads the graphs of a file from their inputs to their outputs (reader.cc).
#pragma once

#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {

class Reader {
 public:
  Reader(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options);
  Graph run();
  void read_operations();  // reads those of the graph in scope

 private:
  void find_batch();
  void find_open_axes(int id);
  void read_inputs();
  Value input_value(int id);
  Operation read_operation(size_t index) const;
  void convert(Operation& op);
  void log_change(const Operation& op, size_t steps);
  void check_outputs(const Operation& op);
  std::string problem(const Operation& op, std::string what) const;
  ValueId stand_in(int id);
  void read_outputs();
  void name_bindings();
  void describe();

  File file_;
  Importer importer_;
  Scope& scope_;
  Graph& graph_;
  const Tensors& tensors_;  // tensors of the graph in scope
};

}  // namespace nacre::tools::tflite
