// Constants of an ONNX graph that is to be trained. Private to tools/importers/onnx.
//
//   parameters.cc  which constants are one parameter, and which are two
//   computed.cc    constants that are computed from others: folded, or by steps
#pragma once

#include <set>

#include "tools/importers/onnx/operators.h"
#include "tools/importers/onnx/source.h"
#include "tools/importers/onnx/torch.h"

namespace nacre::tools::onnx_import {

// Names of trained initializers. Steps compute other constants from those in `computed`. The file reads those in
// `shared` elsewhere too.
struct SplitParameters {
  std::set<std::string> computed, shared;
};

class Parameters {
 public:
  Parameters(Import& import, const TorchConstants& torch, SplitParameters split);

  bool of_torch() const { return torch_.wrote; }
  bool is_trainable(const Value& v) const;
  bool is_variable(const Value& v) const;       // the operator trains this constant if its gradient exists
  bool is_variable(const OperandPtr& x) const;  // a constant that is such a one, or is made of one
  bool is_shared(const OperandPtr& x) const;    // the file reads the initializers that x is made of elsewhere too
  bool is_literal(const std::string& name, const Value& constant) const;
  // Adds `made`, the constant x after `moves`, for a step that reads it. A graph that is to be trained gets one value
  // for all readers with the same moves. A step makes any other order or shape from that value.
  ValueId parameter(const OperandPtr& x, const Moves& moves, Value made);
  // Returns the constant x after `move`, without a name.
  OperandPtr moved(const OperandPtr& x, const Move& move, Value made) const;
  OperandPtr under_new_name(const OperandPtr& x);  // an Identity gives it; a constant is then trained apart from x
  void keep_steps_of_constants(const Node& node);

  OperandPtr computed(const OperandPtr& x, Value made);  // a constant that an importer computes of the constant x
  // Returns a key that is equal for two nodes with one operator, one set of attributes and the same constants.
  // Returns "" for nodes that compute no trained constant.
  std::string key_of_computed(const Source& source) const;
  bool reuse_computed(const std::string& key);
  void keep_computed(Scope& scope, const Source& source, const std::string& key);
  void note_computed(Scope& scope, const Source& source, const OperatorImporter* importer);
  void note_folded(const ::onnx::GraphProto& graph);
  SplitParameters split() const;  // as far as the file was read

 private:
  void note_equal(const Operand& x);
  static bool computes(const std::vector<OperandPtr>& roots, const std::set<std::string>& names);
  void number(const std::vector<OperandPtr>& roots);
  bool repeats(const ::onnx::NodeProto& node);

  Import& import_;
  Graph& graph_;
  const TorchConstants& torch_;
  const SplitParameters split_;
  const bool train_;
  struct Computed {
    std::vector<OperandPtr> inputs, outputs;
  };
  std::map<std::string, Computed> computed_;  // results of nodes on constants alone, by key_of_computed
  std::vector<OperandPtr> read_;              // constants of the graph that are to be trained
  std::set<std::string> noted_;
  // Names of initializers that a batch repeats or whose rows it chooses, and of outputs that a batch repeats. A batch
  // of one counts too.
  std::set<std::string> repeated_, of_batch_;
  std::map<ValueId, ValueId> moved_from_;  // the constant that a value was transposed or reshaped from
  int64_t places_ = 0;                     // elements so far of initializers that constants are computed from
};

}  // namespace nacre::tools::onnx_import
