// Handles constants of an ONNX graph that is to be trained. Private to tools/importers/onnx.
//
//   parameters.cc  which constants are one parameter, and which are two
//   computed.cc    constants that are computed from others: folded at import, or computed by nodes of the graph
#pragma once

#include <set>

#include "tools/importers/onnx/operators.h"
#include "tools/importers/onnx/source.h"
#include "tools/importers/onnx/torch.h"

namespace nacre::tools::onnx_import {

// Names of trained initializers. From an initializer in `computed`, nodes of the graph compute other constants. An
// initializer in `shared` is read elsewhere in the file too.
struct SplitParameters {
  std::set<std::string> computed, shared;
};

class Parameters {
 public:
  Parameters(Import& import, const TorchConstants& torch, SplitParameters split);

  bool of_torch() const { return torch_.wrote; }
  bool is_trainable(const Value& v) const;
  bool is_variable(const Value& v) const;       // the current operator trains this constant
  bool is_variable(const OperandPtr& x) const;  // x is such a constant, or is made of one
  bool is_shared(const OperandPtr& x) const;    // the file reads an initializer that x is made of elsewhere too
  bool is_literal(const std::string& name, const Value& constant) const;
  // Adds `made`, the constant x after `moves`, for a node that reads it. A graph that is to be trained gets one value
  // for all readers with the same moves. Transposes and reshapes make any other order or shape from that value.
  ValueId parameter(const OperandPtr& x, const Moves& moves, Value made);
  // Returns the constant x after `move`, without a name.
  OperandPtr moved(const OperandPtr& x, const Move& move, Value made) const;
  OperandPtr under_new_name(const OperandPtr& x);  // output of an Identity; a constant may be trained apart from x
  void keep_steps_of_constants(const Node& node);

  OperandPtr computed(const OperandPtr& x, Value made);  // a constant that an importer computes of the constant x
  // Returns a key that is equal for two nodes with one operator, one set of attributes and the same constants.
  // Returns "" for an Identity and for nodes that compute no trained constant.
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
  // repeated_: names of initializers that an Expand or Tile repeats, or whose rows repeated positions choose.
  // of_batch_: names of values that depend on an Expand or Tile.
  std::set<std::string> repeated_, of_batch_;
  std::map<ValueId, ValueId> moved_from_;  // the constant that a value was transposed or reshaped from
  int64_t places_ = 0;                     // number of elements numbered so far (Operand::first_place)
};

}  // namespace nacre::tools::onnx_import
