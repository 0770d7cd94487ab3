// What the parts of the ONNX importer share. Private to tools/importers/onnx; the door is tools/importers/importer.h.
//
//   file.cc                the file: opsets, inputs, outputs, functions, the walk over the nodes
//   import.cc              operands: where a value stands, in which layout; steps
//   source.h               one node of the file: its attributes and operands, checked; bodies
//   unknown.cc             what is not supported, and what stands for it
//   log.cc                 what became of nodes that no step tells of
//   body.cc                operators that are others in one: bodies, as functions of a file have them
//   formula.cc             bodies written as formulas
//   tensor.cc              TensorProto -> Value
//   parameters.cc          constants that are to be trained: which are one, which are two
//   torch.h                constants of PyTorch's exporter: which are parameters
//   computed.cc            constants that are computed of them: folded, or by steps
//   fold.cc                moves and arithmetic on constants, for the importers
//   evaluator.h            operators on constants, computed at import
//   order.h                nodes in order
//   control.cc             If, Loop and Scan, known at import
//   ml/trees.h             decision trees; ml/classes.h  labels and scores of classifiers
//   ops/<subject>.cc  one function per operator; their tables: operators.h
//
// Layout. ONNX puts channels on axis 1 (NCHW), the graph on the last axis. An operand therefore has up to two values:
// `plain` (the source's order) and `channels_last` (axis 1 moved to the end). Each is made when a step asks for it, by
// one transpose of the other. Ops that care take channels_last, ops that do not care take what is there, so a
// convolutional network has transposes at its inputs and outputs and before what flattens, and nowhere else.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <onnx/onnx_pb.h>

#include "tools/base/error.h"
#include "tools/graph/graph.h"
#include "tools/importers/importer.h"
#include "tools/importers/onnx/operators.h"
#include "tools/importers/onnx/order.h"
#include "tools/importers/onnx/source.h"
#include "tools/importers/onnx/torch.h"
#include "tools/importers/shared/open_shape.h"

namespace nacre::tools::onnx_import {

std::vector<int64_t> channels_last_dims(const std::vector<int64_t>& dims);
int channels_last_axis(int axis, int rank);  // where a source's axis stands in channels_last
std::vector<int> to_channels_last(int rank);
std::vector<int> from_channels_last(int rank);

// Initializers that are to be trained and of which others are computed, by steps: `computed`; of them those that are
// read elsewhere too.
struct SplitParameters {
  std::set<std::string> computed, shared;
};

class Import {
 public:
  Import(const std::string& name, const ImportOptions& options, const TorchConstants& torch, SplitParameters split);

  Graph run(const ::onnx::ModelProto& model);

  // What stands around the current node by that name, which a graph in it may read; null if nothing does.
  OperandPtr outer(const std::string& name) { return find(*scope_, name); }
  // The current node as the nodes of `body`, whose outputs are its own.
  void expand(const Source& source, const Body& body);

  // The value of an operand in one of the two layouts; added to the graph on first use.
  ValueId plain(const OperandPtr& operand);
  ValueId channels_last(const OperandPtr& operand);
  bool prefers_channels_last(const Operand& operand) const {
    return operand.channels_last != kNone && operand.rank() > 2;
  }

  // A step of the current source node, and its one output, named `name`.
  Node step(Op op);
  ValueId append(Node node, const std::string& name, ElementType type = ElementType::kFloat32);
  ValueId transposed(ValueId x, const std::vector<int>& perm, const std::string& name);
  // Parts, one after another along an axis; many of them by steps that each join what one step can.
  ValueId concatenation(std::vector<ValueId> parts, int axis, const std::string& name);
  ValueId reshaped(ValueId x, const std::vector<int64_t>& dims, const std::string& name);
  ValueId reals(const std::string& name, std::vector<int64_t> dims, const std::vector<float>& data);
  // ops/random.cc
  ValueId count_of_runs();  // int32 [1] of the stream region: how many runs there were
  int next_draw() { return draws_++; }

  // parameters.cc. `made`: the constant x after `moves`, as a step is to read it. In a graph that is to be
  // trained, one value for all that read x so, and where others read it in another order or shape, a step that makes
  // this one of theirs.
  ValueId parameter(const OperandPtr& x, const Moves& moves, Value made);
  // the constant x after `move`; without a name
  OperandPtr moved(const OperandPtr& x, const Move& move, Value made) const;
  OperandPtr under_new_name(const OperandPtr& x);  // what an Identity gives: of a constant one that is trained apart
  bool to_train() const { return options_.train; }
  bool of_torch() const { return torch_; }
  bool is_variable(const Value& v) const;  // a constant that the operator trains where it has its gradient
  bool keeps_division() const { return options_.keep_division; }

  // computed.cc.
  OperandPtr computed(const OperandPtr& x, Value made);  // a constant that an importer computes of the constant x
  SplitParameters split_parameters() const;              // of what was read so far

  // quantizers.cc: scale and zero point (null if it is omitted) with which a later node reads codes of that name;
  // of a graph that is no function.
  std::pair<OperandPtr, OperandPtr> scale_of_codes(const std::string& name);

  // What output `index` of the current source node is.
  const std::string& output_name(int index = 0) const { return source_->proto.output(index); }
  void give(int index, OperandPtr operand);
  void give_plain(int index, ValueId value);
  void give_channels_last(int index, ValueId value);
  void give_constant(int index, Value value);
  void give_stored(const ::onnx::TensorProto& tensor);  // output 0: a tensor in the node
  OperandPtr operand_of(Value constant) const;          // of the file's types
  void give_moved(int index, const OperandPtr& x, const Move& move, Value made);

  ElementType kept_by_source() const;  // Operand::kept of the current node's reals
  Value& value(ValueId id) { return graph_.values[size_t(id)]; }
  bool is_input(ValueId id) const;
  Graph& graph() { return graph_; }
  void log(const std::string& what);  // of the current node
  void log(const std::string& place, const std::string& what);
  void note_batch_statistics();        // ops/norm.cc
  void note(const std::string& what);  // of a graph that is to be trained, for the user in any case
  // Asks for the nodes of a function or graph that is imported once more: those that call each other grow fast.
  void spend_nodes(int64_t count);
  // Asks for the bytes of a constant before it is computed: hostile files ask for gigabytes in a few bytes.
  void spend(uint64_t bytes);
  // computed in int64 or float64
  void spend_elements(const Value& constant) { spend(uint64_t(constant.elements()) * 8); }

 private:
  struct Scope {  // the names of the graph, or of one call of a function
    std::unordered_map<std::string, OperandPtr> operands;
    std::unordered_map<std::string, const ::onnx::TensorProto*> initializers;
    std::unordered_map<std::string, int> uses;
    std::map<std::string, int> opsets;
    Source::Attributes attributes;
    std::string prefix;  // of node names
    int depth = 0;
    Scope* outer = nullptr;  // whose names the graph inside a node sees
  };

  void read_opsets(Scope& scope, const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto>& imports);
  void read_functions(const ::onnx::ModelProto& model);
  void read_inputs(Scope& scope, const ::onnx::GraphProto& graph);
  void read_initializers(Scope& scope, const ::onnx::GraphProto& graph);
  void read_input(Scope& scope, const ::onnx::ValueInfoProto& input);
  ValueId as_real(ValueId input);
  void read_open_axes(const ::onnx::GraphProto& graph);
  std::vector<int64_t> input_dims(const ::onnx::ValueInfoProto& input);
  void tell_rows(const std::string& input, int axis);
  void read_node(Scope& scope, const ::onnx::NodeProto& node);
  void read_supported(Scope& scope, const ::onnx::NodeProto& node);
  void call_function(Scope& scope, const ::onnx::NodeProto& node, const ::onnx::FunctionProto& function);
  void run_body(Scope& scope, Scope& inner, const Source& call, const ::onnx::FunctionProto& function,
                const std::vector<OperandPtr>& inputs);
  bool evaluate(const Source& source, bool imported);  // evaluator.cc
  // ops/dynamic.cc: parts of a dynamically quantized layer that a node which is no part of it reads become values.
  void read_dynamic(Source& source);
  OperandPtr value_of_part(const OperandPtr& part);
  void quantize_dynamically(const OperandPtr& x, const ::onnx::NodeProto& proto);
  // control.cc
  bool run_control_flow(Scope& scope, const Source& source);
  void run_if(Scope& scope, const Source& source);
  void run_loop(Scope& scope, const Source& source);
  void run_scan(Scope& scope, const Source& source);
  std::vector<OperandPtr> run_graph(Scope& outer, const ::onnx::GraphProto& graph,
                                    const std::vector<OperandPtr>& inputs, const std::function<bool(int)>& wanted);
  void give_results(Scope& scope, const ::onnx::NodeProto& node, const std::vector<OperandPtr>& results);
  void give_turns(Scope& scope, const Source& source, const std::vector<OperandPtr>& carried,
                  const std::vector<std::vector<OperandPtr>>& turns, const std::vector<int64_t>& axes);
  OperandPtr turn_of(Scope& scope, const Source& source, const OperandPtr& x, int64_t axis, int64_t i);
  void write_output(Scope& scope, const ::onnx::ValueInfoProto& output);
  OperandPtr operand_like(const Value& v) const;
  Value storable(const Operand& operand) const;  // its constant, checked
  bool is_trainable(const Value& v) const;
  bool is_literal(const std::string& name, const Value& constant) const;
  // Equal for nodes that compute the same of the same constants; empty for what is not computed of constants.
  std::string key_of_computed(const Source& source) const;
  bool reuse_computed(const std::string& key);
  void keep_computed(Scope& scope, const Source& source, const std::string& key);
  bool computes(const std::vector<OperandPtr>& roots, const std::set<std::string>& names) const;
  void number(const std::vector<OperandPtr>& roots);
  void note_equal(const Operand& x);
  void note_folded(const ::onnx::GraphProto& graph);
  void keep_steps_of_constants(const Node& node);
  std::shared_ptr<const Value> places_of(const OperandPtr& x);
  std::vector<OperandPtr> outputs_with(const Source& source, const OperatorImporter* importer,
                                       std::vector<OperandPtr> inputs);
  void note_computed(Scope& scope, const Source& source, const OperatorImporter* importer);
  ValueId rearranged(const Operand::Form& from, const Moves& to, const Operand& origin, const std::string& name);
  OperandPtr find(Scope& scope, const std::string& name);
  Value read_stored(const ::onnx::TensorProto& tensor) const;
  // unknown.cc
  void note_refusal(const Error& error);
  void leave_unknown(Scope& scope, const ::onnx::NodeProto& node);
  void count_runs();  // ops/random.cc: at the end of each, where something reads the count
  // of a network that is to be trained: random numbers stay where the model infers, and masks of dropouts may not
  void judge_draws();
  void read_declared(const ::onnx::GraphProto& graph);
  OperandPtr stand_in(const std::string& name, ElementType type, const std::vector<int64_t>& dims);
  OperandPtr stand_in(const ::onnx::ValueInfoProto& declared, bool guess);
  int64_t size_of(const ::onnx::TensorShapeProto::Dimension& dim) const;
  bool is_known(const ::onnx::NodeProto& node) const;
  // log.cc
  void log_node(Scope& scope, const Source& source, size_t steps, size_t lines);
  void log_order(const Nodes& nodes, const NodeList& order, const NodeList& live);
  void log_unread(const Scope& scope);

  const ImportOptions& options_;
  const TorchConstants& torch_constants_;
  Graph graph_;
  std::map<std::pair<std::string, std::string>, const ::onnx::FunctionProto*> functions_;
  std::map<std::string, int64_t> symbols_;  // symbolic dims that stand for the batch
  std::vector<OpenShape> shapes_;           // of the inputs, with the sizes that the user gave
  struct Computed {
    std::vector<OperandPtr> inputs, outputs;
  };
  std::map<std::string, Computed> computed_;  // what nodes made of constants alone, by what they do and read
  const SplitParameters split_;
  std::vector<OperandPtr> read_;  // constants to be trained that stand in the graph
  std::unordered_map<const ::onnx::TensorProto*, OperandPtr> tensors_;  // of the file; each is read once
  std::set<std::string> noted_;
  NodeList live_;                          // of the file's graph
  std::map<ValueId, ValueId> moved_from_;  // the constant of which transposes and reshapes made a value
  int64_t nodes_ = 0;                      // of functions and of graphs in nodes, imported so far
  bool torch_ = false;  // PyTorch wrote the file: its literals are Constant nodes, its parameters are not
  int64_t places_ = 0;  // elements of initializers of which others are computed
  std::vector<std::string> refusals_;
  std::set<std::string> said_, logged_;                                      // refusals and lines of the log
  std::unordered_map<std::string, const ::onnx::ValueInfoProto*> declared_;  // types of values between nodes
  bool symbolic_batch_ = false;
  bool rows_elsewhere_ = false;  // an input has the batch on another axis than the first
  bool images_ = false;          // some step works on channels_last of rank 4
  ValueId runs_ = kNone;
  int draws_ = 0;

  Scope* scope_ = nullptr;  // of the node that is being imported
  const Source* source_ = nullptr;
  int layer_ = kNone;
  std::string layer_op_;  // of the node that is expanded
};

// The file as a message; refuses what is none, and one without a graph.
void parse_model(std::span<const uint8_t> bytes, const std::string& name, ::onnx::ModelProto& model);

inline constexpr int64_t kOpenSize = 64;  // stands for a size that is not known: most windows fit into it

// Types that values at run time have; constants may have others until they are stored.
bool at_run_time(ElementType type);

bool is_whole(ElementType type);  // int32 and int64: indices are computed with

// quantizers.cc
bool is_code_type(ElementType type);
bool is_float8(ElementType type);                   // of the two kinds whose codes weights may have
Quantizer as_int8(Quantizer quantizer);             // uint8 codes c with zero z are the int8 codes c - 128 with z - 128
bool same(const Quantizer& a, const Quantizer& b);  // the same reals for the same codes, or for codes 128 lower
// Scales (input 1) and zero points (input 2) of a tensor of `dims`.
Quantizer read_quantizer(const Source& source, const std::vector<int64_t>& dims, ElementType codes);
// Quantizers of values after Relu and the like, onto the values before.
void move_quantizers_back(Graph& graph);
// What chooses or moves elements does so with codes as with reals: true, if the node is imported so.
bool import_on_codes(Import& import, const Source& source);
// A Gather from stored codes by indices of run time; true if a later node says what they stand for.
bool gather_codes(Import& import, const Source& source);
// The value of codes that an output of the file gives out, if a step can write them; else kNone.
ValueId codes_value(Import& import, const OperandPtr& codes);

// ops/dynamic.cc. Cast and Mul of parts of a dynamically quantized layer: true if the node is such a one.
bool cast_dynamic(Import& import, const Source& source, ElementType type);
bool multiply_dynamic(Import& import, const Source& source);
// ops/norm.cc: a BatchNormalization in training_mode.
void normalize_by_batch(Import& import, const Source& source);
// ops/formula.cc: a Clip with a bound of run time; true if the node is one.
bool clip_by_computed(Import& import, const Source& source);
// ops/reduce.cc: a ReduceMax over any axes.
void maximum_over_axes(Import& import, const Source& source);
// ops/indexed.cc: Gather, GatherND, ScatterND and ScatterElements by indices of run time.
void gather_at_run_time(Import& import, const Source& source);
void gather_tuples_at_run_time(Import& import, const Source& source);
void scatter_rows_at_run_time(Import& import, const Source& source);
void scatter_elements_at_run_time(Import& import, const Source& source);

// True, if the node is one on such integers of run time and is imported so: ops/whole.cc and ops/integer.cc.
bool import_on_whole_numbers(Import& import, const Source& source);
bool import_on_narrow_integers(Import& import, const Source& source);
// ops/lengths.cc: true, if the node is an LSTM or GRU over sequences of several lengths, and is imported so.
bool import_with_lengths(Import& import, const Source& source);

void count_runs();  // ops/random.cc: at the end of each, where something reads the count
// ops/block.cc: a DequantizeLinear with one scale per block, on constants.
void dequantize_blocks(Import& import, const Source& source, const Value& codes, int64_t block);
// The weights of the dense `node`, [out, in], are x, [in, out] or [out, in] where `transposed`: its blocks become the
// codes of the layer, and int4 in such blocks its policy.
void keep_blocks(Import& import, const Node& node, const Operand& x, bool transposed);

// ml/classes.cc: strings that are stored, for the operators that take some of them: the names of classes.
OperandPtr read_names(const ::onnx::TensorProto& tensor);
void check_names(const Source& source);  // refuses other operators on them

// Refuses what is not float32: arithmetic is done in no other type.
void need_float32(const Source& source, const Operand& operand);

}  // namespace nacre::tools::onnx_import
