// What the parts of the ONNX importer share. Private to tools/importers/onnx*.cc; the door is importer.h.
//
//   onnx.cc               the file: opsets, inputs, outputs, functions, the walk over the nodes
//   onnx_import.cc        operands: where a value stands, in which layout; steps
//   onnx_tensor.cc        TensorProto -> Value
//   onnx_fold.cc          arithmetic on constants: what PyTorch exports compute shapes with
//   onnx_ops_<subject>.cc one function per operator
//
// Layout. ONNX puts channels on axis 1 (NCHW), the graph on the last axis. An operand therefore has up to two values:
// `plain` (the source's order) and `channels_last` (axis 1 moved to the end). Each is made when a step asks for it, by
// one transpose of the other. Ops that care take channels_last, ops that do not care take what is there, so a
// convolutional network has transposes at its inputs and outputs and before what flattens, and nowhere else.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <onnx/onnx_pb.h>

#include "tools/graph/graph.h"
#include "tools/importers/importer.h"

namespace nacre::tools::onnx_import {

struct Operand;
using OperandPtr = std::shared_ptr<Operand>;

// A tensor of the source. Exactly one of these is true when it is made: it has `constant`, or `plain` or
// `channels_last`, or it is `quantized` (codes that no step has needed so far), or an earlier refusal means that
// nothing is known of it.
struct Operand {
  std::string name;
  ElementType type = ElementType::kFloat32;
  std::vector<int64_t> dims;  // in the source's order
  std::shared_ptr<const Value> constant;
  ValueId plain = kNone, channels_last = kNone;
  int uses = 0;  // by nodes and outputs of the source

  struct Quantized {
    OperandPtr real;
    Quantizer quantizer;
  };
  std::optional<Quantized> quantized;

  int rank() const { return int(dims.size()); }
  bool known() const { return constant || plain != kNone || channels_last != kNone || quantized; }
};

// One node of the file with its operands and attributes.
class Source {
 public:
  using Attributes = std::map<std::string, const ::onnx::AttributeProto*>;

  Source(const ::onnx::NodeProto& proto, int opset, const Attributes* bound);

  // Attributes. Those of a function's body may refer to the attributes of the call (`bound`).
  bool has(const char* key) const { return find(key) != nullptr; }
  int64_t integer(const char* key, int64_t otherwise) const;
  float real(const char* key, float otherwise) const;
  std::string text(const char* key, const std::string& otherwise) const;
  std::vector<int64_t> integers(const char* key, std::vector<int64_t> otherwise = {}) const;
  const ::onnx::AttributeProto* find(const char* key) const;

  // Operands. `given` is false for an optional input that is omitted.
  bool given(int input) const { return size_t(input) < inputs.size() && inputs[size_t(input)] != nullptr; }
  const OperandPtr& operand(int input) const;
  const Value& constant(int input, const char* what) const;  // refuses what is not constant
  std::vector<int64_t> constant_integers(int input, const char* what) const;
  float constant_real(int input, const char* what) const;  // of one element
  // Attribute `key` of older opsets, constant input `input` of newer ones; nullopt if neither is there.
  std::optional<std::vector<int64_t>> integers_or_input(const char* key, int input) const;
  // `axis` in [-rank, rank) as an index; refuses others.
  int axis(int64_t axis, int rank) const;
  bool wants(int output) const { return output < proto.output_size() && !proto.output(output).empty(); }

  [[noreturn]] void refuse(const std::string& reason, const std::string& remedy = "") const;
  [[noreturn]] void malformed(const std::string& fact) const;

  const ::onnx::NodeProto& proto;
  const int opset;
  const std::string name;   // the node's own, else that of its first output
  const std::string place;  // name (op), for errors
  std::vector<OperandPtr> inputs;

 private:
  const Attributes* bound_;
};

std::vector<int64_t> channels_last_dims(const std::vector<int64_t>& dims);
int channels_last_axis(int axis, int rank);  // where a source's axis stands in channels_last
std::vector<int> to_channels_last(int rank);
std::vector<int> from_channels_last(int rank);

class Import {
 public:
  Import(const std::string& name, const ImportOptions& options);

  Graph run(const ::onnx::ModelProto& model);

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
  ValueId reshaped(ValueId x, const std::vector<int64_t>& dims, const std::string& name);
  ValueId reals(const std::string& name, std::vector<int64_t> dims, const std::vector<float>& data);

  // What output `index` of the current source node is.
  const std::string& output_name(int index = 0) const { return source_->proto.output(index); }
  void give(int index, OperandPtr operand);
  void give_plain(int index, ValueId value);
  void give_channels_last(int index, ValueId value);
  void give_constant(int index, Value value);

  void rename(ValueId id, const std::string& name);  // unless another value has the name
  Value& value(ValueId id) { return graph_.values[size_t(id)]; }
  Graph& graph() { return graph_; }
  void log(const std::string& what);
  // Accounts for bytes of constants that the importer computes: hostile files ask for gigabytes in a few bytes.
  void spend(uint64_t bytes);

 private:
  struct Scope {  // the names of the graph, or of one call of a function
    std::unordered_map<std::string, OperandPtr> operands;
    std::unordered_map<std::string, const ::onnx::TensorProto*> initializers;
    std::unordered_map<std::string, int> uses;
    std::map<std::string, int> opsets;
    Source::Attributes attributes;
    std::string prefix;  // of node names
    int depth = 0;
  };

  void read_opsets(Scope& scope, const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto>& imports);
  void read_functions(const ::onnx::ModelProto& model);
  void read_inputs(Scope& scope, const ::onnx::GraphProto& graph);
  void read_input(Scope& scope, const ::onnx::ValueInfoProto& input);
  std::vector<int64_t> input_dims(const ::onnx::ValueInfoProto& input);
  void read_node(Scope& scope, const ::onnx::NodeProto& node);
  void read_supported(Scope& scope, const ::onnx::NodeProto& node);
  void call_function(Scope& scope, const ::onnx::NodeProto& node, const ::onnx::FunctionProto& function);
  void write_output(Scope& scope, const ::onnx::ValueInfoProto& output);
  Value storable(const Operand& operand) const;  // its constant, checked
  OperandPtr find(Scope& scope, const std::string& name);
  void leave_unknown(Scope& scope, const ::onnx::NodeProto& node);
  void report_refusals() const;

  const ImportOptions& options_;
  Graph graph_;
  std::map<std::pair<std::string, std::string>, const ::onnx::FunctionProto*> functions_;
  std::map<std::string, int64_t> symbols_;  // symbolic dims that stand for the batch
  std::vector<std::string> refusals_;
  uint64_t spent_bytes_ = 0;
  bool symbolic_batch_ = false;
  bool images_ = false;  // some step works on channels_last of rank 4

  Scope* scope_ = nullptr;  // of the node that is being imported
  const Source* source_ = nullptr;
  int layer_ = kNone;
};

// How operators are imported. A function reads the node and calls append() and give().
struct OperatorImporter {
  const char* op;
  void (*run)(Import& import, const Source& source);
};
std::span<const OperatorImporter> window_importers();     // onnx_ops_window.cc: Conv, pools
std::span<const OperatorImporter> dense_importers();      // onnx_ops_dense.cc: Gemm, MatMul
std::span<const OperatorImporter> pointwise_importers();  // onnx_ops_pointwise.cc
std::span<const OperatorImporter> reduce_importers();     // onnx_ops_reduce.cc: softmax, norms, means
std::span<const OperatorImporter> shape_importers();      // onnx_ops_shape.cc: reshape family, Transpose, Shape
std::span<const OperatorImporter> move_importers();       // onnx_ops_move.cc: Concat, Pad, Slice, Split
std::span<const OperatorImporter> quantize_importers();   // onnx_ops_quantize.cc
std::span<const OperatorImporter> constant_importers();   // onnx_ops_constant.cc: on constants only
const OperatorImporter* find_importer(const std::string& op);

// Types that values at run time have; constants may have others until they are stored.
bool at_run_time(ElementType type);

// onnx_ops_quantize.cc: quantizers of values after Relu and the like, onto the values before.
void move_quantizers_back(Graph& graph);

// Refuses what is not float32: arithmetic is done in no other type.
void need_float32(const Source& source, const Operand& operand);

}  // namespace nacre::tools::onnx_import
