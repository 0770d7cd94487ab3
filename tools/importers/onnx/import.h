// Declares class Import, the graph under construction, and functions that importers share. Private to tools/importers.
//
//   import.h               class Import: operands in two layouts, nodes of the graph, outputs (import.cc)
//   parameters.h           class Parameters: trained constants (parameters.cc), what is computed of them (computed.cc)
//   declared.h             class DeclaredValues: inputs (inputs.cc), outputs of refused nodes (unknown.cc)
//   file.h                 class FileWalk: opsets, functions, nodes, outputs (file.cc); If, Loop, Scan (control.cc)
//   log.h                  class ImportLog: refusals, and facts that the graph does not show (log.cc)
//   source.h               one node of the file: its attributes and operands, checked; scopes; bodies (body.cc)
//   formula.cc             bodies written as formulas
//   tensor.cc              TensorProto -> Value
//   torch.h                constants of PyTorch's exporter: which are parameters
//   fold.cc                moves and arithmetic on constants, for the importers
//   evaluator.h            operators on constants, computed at import
//   order.h                nodes in order
//   ml/trees.h             decision trees; ml/classes.h  labels and scores of classifiers
//   ops/<subject>.cc       functions that import operators; their tables: operators.h
//
// Layout. ONNX puts channels on axis 1 (NCHW), the graph on the last axis. An operand therefore has up to two values:
// `plain` (the source's order) and `channels_last` (axis 1 moved to the end). Each is made when a step first asks for
// it, by one transpose of the other. Ops that depend on the layout take channels_last; many others take whichever
// value exists. A convolutional network therefore usually has transposes only at its inputs and outputs, and before
// steps that flatten.
#pragma once

#include <span>

#include "tools/base/error.h"
#include "tools/graph/graph.h"
#include "tools/importers/importer.h"
#include "tools/importers/onnx/log.h"
#include "tools/importers/onnx/operators.h"
#include "tools/importers/onnx/parameters.h"
#include "tools/importers/onnx/source.h"

namespace nacre::tools::onnx_import {

class FileWalk;

// State that the random steps of ops/random.cc share.
struct Draws {
  ValueId runs = kNone;  // the value that counts runs; kNone if nothing reads it
  int steps = 0;         // random steps so far: numbers the next one
};

std::vector<int64_t> channels_last_dims(const std::vector<int64_t>& dims);
int channels_last_axis(int axis, int rank);  // index of a source's axis in channels_last
std::vector<int> to_channels_last(int rank);
std::vector<int> from_channels_last(int rank);

class Import {
 public:
  Import(FileWalk& walk, const std::string& name, const ImportOptions& options, const TorchConstants& torch,
         SplitParameters split);

  const ImportOptions& options() const { return options_; }
  Graph& graph() { return graph_; }
  Value& value(ValueId id) { return graph_.values[size_t(id)]; }
  CurrentNode& current() { return current_; }
  Parameters& parameters() { return parameters_; }
  ImportLog& log() { return log_; }
  Draws& draws() { return draws_; }
  FileWalk& walk() { return walk_; }
  bool has_images() const { return images_; }  // channels_last() was asked for an operand of rank 4

  // Returns the operand of that name in a scope or around it, or null if there is none. The first use reads an
  // initializer.
  OperandPtr find(Scope& scope, const std::string& name);
  OperandPtr find(const std::string& name) { return find(*current_.scope, name); }
  OperandPtr operand_of(Value constant) const;  // the constant's type is one of the file's types
  // Imports the nodes of `body` in place of the current node. The outputs of `body` are the node's outputs.
  void expand(const Source& source, const Body& body);

  // Return the value of an operand in one of the two layouts. The first use adds it to the graph.
  ValueId plain(const OperandPtr& operand);
  ValueId channels_last(const OperandPtr& operand);

  // step() makes a node of the graph for the current source node, append() adds it and returns its one output `name`.
  Node step(Op op);
  ValueId append(Node node, const std::string& name, ElementType type = ElementType::kFloat32);
  ValueId transposed(ValueId x, const std::vector<int>& perm, const std::string& name);
  // Joins the parts along an axis, one after another. If there are more parts than one step takes, several steps join
  // them.
  ValueId concatenation(std::vector<ValueId> parts, int axis, const std::string& name);
  ValueId reshaped(ValueId x, const std::vector<int64_t>& dims, const std::string& name);
  ValueId reals(const std::string& name, std::vector<int64_t> dims, const std::vector<float>& data);

  // Returns the name of output `index` of the current source node. The `give` functions set the operand of that
  // output.
  const std::string& output_name(int index = 0) const { return current_.source->proto.output(index); }
  void give(int index, OperandPtr operand);
  void give_plain(int index, ValueId value);
  void give_channels_last(int index, ValueId value);
  void give_constant(int index, Value value);
  void give_stored(const ::onnx::TensorProto& tensor);  // output 0 is a tensor stored in the node
  void give_moved(int index, const OperandPtr& x, const Move& move, Value made);

  // Asks for the bytes of a constant before it is computed, because hostile files ask for gigabytes in a few bytes.
  void spend(uint64_t bytes);

 private:
  FileWalk& walk_;
  const ImportOptions& options_;
  Graph graph_;
  CurrentNode current_;
  Parameters parameters_;
  ImportLog log_;
  Draws draws_;
  std::unordered_map<const ::onnx::TensorProto*, OperandPtr> tensors_;  // each tensor is read once
  bool images_ = false;
};

// Asks for the memory of a constant's elements, which are computed in int64 or float64.
inline void spend_elements(Import& import, const Value& constant) { import.spend(uint64_t(constant.elements()) * 8); }

bool is_input(const Graph& graph, ValueId id);

// ops/random.cc: adds graph nodes that count runs, if something reads the count.
void count_runs(Import& import);
// Judges the random numbers of a network that is to be trained, and refuses masks of dropouts (ops/random.cc).
void judge_draws(Import& import);

inline constexpr int64_t kOpenSize = 64;  // stands for an unknown size; most windows fit into it

// Returns whether values at run time may have the type. Constants may have other types until they are stored.
bool at_run_time(ElementType type);

bool is_whole(ElementType type);  // int32 or int64, the types of indices

// quantizers.cc
bool is_code_type(ElementType type);
bool is_float8(ElementType type);                   // one of the two kinds that codes of weights may have
Quantizer as_int8(Quantizer quantizer);             // uint8 codes c with zero z are the int8 codes c - 128 with z - 128
bool same(const Quantizer& a, const Quantizer& b);  // the same reals for the same codes, or for codes 128 lower
// Reads the scales (input 1) and zero points (input 2) of a tensor of shape `dims`.
Quantizer read_quantizer(const Source& source, const std::vector<int64_t>& dims, ElementType codes);
// Copies the quantizer of the output of Relu and similar nodes to their input, so that the node before has one.
void move_quantizers_back(Graph& graph);
// Imports a node that chooses or moves elements if it reads quantized codes. Returns whether it did.
bool import_on_codes(Import& import, const Source& source);
// Imports a Gather from stored codes by indices of run time. Returns true if a later node says what the codes stand
// for.
bool gather_codes(Import& import, const Source& source);
// Returns the value for an output of the file that gives out codes, or kNone if no node can write these codes.
ValueId codes_value(Import& import, const OperandPtr& codes);

// ops/dynamic.cc: replaces parts of a dynamically quantized layer by values, for a node outside of the layer.
void read_dynamic(Import& import, Source& source);
OperandPtr value_of_part(Import& import, const OperandPtr& part);
// Import a Cast or Mul of parts of such a layer. Return whether the node is one.
bool cast_dynamic(Import& import, const Source& source, ElementType type);
bool multiply_dynamic(Import& import, const Source& source);
// ops/norm.cc: imports a BatchNormalization in training_mode.
void normalize_by_batch(Import& import, const Source& source);
// ops/formula.cc: imports a Clip with a bound of run time. Returns whether the node is one.
bool clip_by_computed(Import& import, const Source& source);
// ops/reduce.cc: imports a ReduceMax over any axes.
void maximum_over_axes(Import& import, const Source& source);
// ops/indexed.cc: import Gather, GatherND, ScatterND and ScatterElements by indices of run time.
void gather_at_run_time(Import& import, const Source& source);
void gather_tuples_at_run_time(Import& import, const Source& source);
void scatter_rows_at_run_time(Import& import, const Source& source);
void scatter_elements_at_run_time(Import& import, const Source& source);

// ops/whole_numbers.cc (int32, int64) and ops/integer.cc (narrow types): import the node if it works on integers at
// run time. Return whether they did.
bool import_on_whole_numbers(Import& import, const Source& source);
bool import_on_narrow_integers(Import& import, const Source& source);
// ops/lengths.cc: imports the node if it is an LSTM or GRU over sequences of several lengths. Returns whether it is
// one.
bool import_with_lengths(Import& import, const Source& source);

// ops/block.cc: imports a DequantizeLinear with one scale per block, on constants.
void dequantize_blocks(Import& import, const Source& source, const Value& codes, int64_t block);
// Keeps the 4-bit codes of x for the weights [out, in] of the dense layer `node`, if their blocks lie along `in`, the
// graph is not trained and computes in float32. x is [in, out], or [out, in] if `transposed`. Sets the policy int4.
void keep_blocks(Import& import, const Node& node, const Operand& x, bool transposed);

// ml/classes.cc: reads stored strings, the names of classes, for the operators that take them.
OperandPtr read_names(const ::onnx::TensorProto& tensor);
void check_names(const Source& source);  // refuses stored strings as inputs of other operators

// Refuses an operand that is not float32 or has more than 8 axes, for an operator that computes in float32 alone.
void need_float32(const Source& source, const Operand& operand);

}  // namespace nacre::tools::onnx_import
