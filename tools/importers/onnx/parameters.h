// Constants of an ONNX graph that is to be trained. Private to tools/importers/onnx.
//
//   parameters.cc  which of them are one parameter, and which are two
//   computed.cc    constants that are computed of them: folded, or by steps
#pragma once

#include <set>

#include "tools/importers/onnx/operators.h"
#include "tools/importers/onnx/source.h"
#include "tools/importers/onnx/torch.h"

namespace nacre::tools::onnx_import {

// Trained initializers: steps compute other constants of `computed`. The file reads `shared` elsewhere too.
struct SplitParameters {
  std::set<std::string> computed, shared;
};

class Parameters {
 public:
  Parameters(Import& import, const TorchConstants& torch, SplitParameters split);

  bool of_torch() const { return torch_.wrote; }
  bool is_trainable(const Value& v) const;
  bool is_variable(const Value& v) const;       // the operator trains this constant where it has its gradient
  bool is_variable(const OperandPtr& x) const;  // a constant that is, or is made of, one
  bool is_shared(const OperandPtr& x) const;    // the file reads the initializers elsewhere too that x is made of
  bool is_literal(const std::string& name, const Value& constant) const;
  // Adds `made`, the constant x after `moves`, for a step that reads it. A graph that is to be trained gets one value
  // for all readers of one form. A step makes another order or shape of it.
  ValueId parameter(const OperandPtr& x, const Moves& moves, Value made);
  // Gives the constant x after `move`, without a name.
  OperandPtr moved(const OperandPtr& x, const Move& move, Value made) const;
  OperandPtr under_new_name(const OperandPtr& x);  // an Identity gives it: a constant is then trained apart from x
  void keep_steps_of_constants(const Node& node);

  OperandPtr computed(const OperandPtr& x, Value made);  // a constant that an importer computes of the constant x
  // Equal for two nodes with one operator, one set of attributes and the same constants; empty for other nodes.
  std::string key_of_computed(const Source& source) const;
  bool reuse_computed(const std::string& key);
  void keep_computed(Scope& scope, const Source& source, const std::string& key);
  void note_computed(Scope& scope, const Source& source, const OperatorImporter* importer);
  void note_folded(const ::onnx::GraphProto& graph);
  SplitParameters split() const;  // of what was read so far

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
  std::map<std::string, Computed> computed_;  // what nodes made of constants alone, by what they do and read
  std::vector<OperandPtr> read_;              // constants to be trained that stand in the graph
  std::set<std::string> noted_;
  // Initializers that a batch repeats, or whose rows it chooses; outputs that a batch repeats. A batch of one does too.
  std::set<std::string> repeated_, of_batch_;
  std::map<ValueId, ValueId> moved_from_;  // the constant of which transposes and reshapes made a value
  int64_t places_ = 0;                     // elements of initializers of which others are computed
};

}  // namespace nacre::tools::onnx_import
