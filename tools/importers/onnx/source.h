// Nodes of an ONNX file, what they read and write, and the names around them. Private to tools/importers/onnx.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <onnx/onnx_pb.h>

#include "tools/graph/graph.h"

namespace nacre::tools::onnx_import {

struct Operand;
using OperandPtr = std::shared_ptr<Operand>;

// A change that an importer makes to a constant before it stores it. Two constants are one parameter if the same
// changes made both from one initializer.
struct Move {
  enum Kind : uint8_t { kTranspose, kReshape, kOther } kind;
  std::vector<int64_t> to;  // kTranspose: the permutation; kReshape: the dims
  std::string what = {};    // kOther: names it; no step does it again

  static Move transpose(const std::vector<int>& perm) { return {kTranspose, {perm.begin(), perm.end()}}; }
  static Move reshape(std::vector<int64_t> dims) { return {kReshape, std::move(dims)}; }
  static Move other(std::string what) { return {kOther, {}, std::move(what)}; }
  bool operator==(const Move&) const = default;
};
using Moves = std::vector<Move>;

// A tensor of the source. Exactly one of these is true when it is made: it has `constant`, or `plain` or
// `channels_last`, or it is `quantized` (codes that no step has needed so far), or it is `dynamic` (what only a whole
// layer has a use for), or an earlier refusal means that nothing is known of it.
struct Operand {
  std::string name = {};
  ElementType type = ElementType::kFloat32;
  // Type of reals that are float16, bfloat16 or float64 in the source. `type` and constants are then float32; the
  // policy of a layer that reads them says what is computed.
  ElementType kept = ElementType::kNone;
  std::vector<int64_t> dims = {};  // in the source's order
  std::shared_ptr<const Value> constant = nullptr;
  std::shared_ptr<const Value> exact = nullptr;  // a float64 constant as it is, for what is computed of it at import
  ValueId plain = kNone, channels_last = kNone;
  // Codes of a matrix that the file has in 4 bits, with a scale and a zero point per block along an axis. They are
  // for the layer that reads the matrix as it is (ops/block.cc).
  struct Blocks {
    int axis;
    int64_t block;
    std::vector<int8_t> codes, zero;  // from -8 to 7; zero, scale: one per block, in the order of the matrix
    std::vector<float> scale;
  };
  std::shared_ptr<const Blocks> blocks = nullptr;
  // Texts of a stored list of strings; `constant` counts 0, 1, 2, .. in their place.
  std::shared_ptr<const std::vector<std::string>> names = nullptr;
  int uses = 0;  // by nodes and outputs of the source

  // Constants that are to be trained: what this one is made of and how; as what it stands in the graph, and for which
  // node.
  struct Form {
    Moves moves;
    ValueId value;
    const ::onnx::NodeProto* node;
  };
  OperandPtr origin = nullptr;  // null: it is an initializer, or is computed by other than moves
  Moves moves = {};
  std::vector<Form> forms = {};
  // Initializers that this operand depends on, if other operators than moves compute it. `places`: where each element
  // comes from (int64, ::first_place and on of an initializer, -1: of none); null where numbers are computed.
  std::vector<OperandPtr> roots = {};
  std::shared_ptr<const Value> places = nullptr;
  int64_t first_place = -1;  // of an initializer

  struct Quantized {
    OperandPtr real;
    Quantizer quantizer;
  };
  std::optional<Quantized> quantized = {};

  // Role of an operand between DynamicQuantizeLinear and the product of sums and scales: ops/dynamic.cc.
  struct Dynamic {
    enum Part : uint8_t { kCodes, kScale, kZero, kSums, kScales } part;
    OperandPtr x = nullptr;                    // what is quantized at run time
    OperandPtr w = nullptr, w_zero = nullptr;  // kSums: codes, and their zero point if it is given
    OperandPtr w_scale = nullptr;              // kScales
    const ::onnx::NodeProto* node = nullptr;   // DynamicQuantizeLinear; of kSums MatMulInteger or ConvInteger
  };
  std::optional<Dynamic> dynamic = {};

  std::shared_ptr<const std::vector<OperandPtr>> sequence = nullptr;  // of tensors: ops/sequence.cc

  int rank() const { return int(dims.size()); }
  const Value& numbers() const { return exact ? *exact : *constant; }  // of a constant, as they are
  bool known() const {
    return constant || plain != kNone || channels_last != kNone || quantized || dynamic || sequence;
  }
  bool prefers_channels_last() const { return channels_last != kNone && rank() > 2; }
  // Codes with one scale that no step has needed so far.
  bool codes() const { return quantized && plain == kNone && quantized->quantizer.scale.size() == 1; }
};

// One node of the file with its operands and attributes.
class Source {
 public:
  using Attributes = std::map<std::string, const ::onnx::AttributeProto*>;

  using Uses = std::unordered_map<std::string, int>;

  // `uses`: how often names are read in the graph around the node; null: whoever made the node reads all its outputs.
  Source(const ::onnx::NodeProto& proto, int opset, const Attributes* bound, const Uses* uses = nullptr);

  // Attributes. An attribute in a function's body may refer to an attribute of the call (`bound`).
  bool has(const char* key) const { return find(key) != nullptr; }
  int64_t integer(const char* key, int64_t otherwise) const;
  float real(const char* key, float otherwise) const;
  std::string text(const char* key, const std::string& otherwise) const;
  std::vector<int64_t> integers(const char* key, std::vector<int64_t> otherwise = {}) const;
  const ::onnx::GraphProto& graph(const char* key) const;
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
  ElementType kept() const;  // Operand::kept of its reals
  // It has a name, and a node that an output depends on reads it, or it is an output itself.
  bool wants(int output) const;

  [[noreturn]] void refuse(const std::string& reason, const std::string& remedy = "") const;
  [[noreturn]] void malformed(const std::string& fact) const;

  const ::onnx::NodeProto& proto;
  const int opset;
  const std::string name;   // the node's own, else that of its first output
  const std::string place;  // name (op), for errors
  std::vector<OperandPtr> inputs;
  const bool main;  // it is of ONNX's own domain

 private:
  const Attributes* bound_;
  const Uses* uses_;
};

// The names of the graph, of a graph inside a node, or of one call of a function.
struct Scope {
  std::unordered_map<std::string, OperandPtr> operands;
  std::unordered_map<std::string, const ::onnx::TensorProto*> initializers;
  Source::Uses uses;
  std::map<std::string, int> opsets;
  Source::Attributes attributes;
  int depth = 0;
  Scope* outer = nullptr;  // a graph inside a node sees its names
};
void read_initializers(Scope& scope, const ::onnx::GraphProto& graph);  // inputs.cc

// The node that is being imported.
struct CurrentNode {
  void enter(Scope& around, const Source& node) { scope = &around, source = &node, layer = kNone; }

  Scope* scope = nullptr;
  const Source* source = nullptr;
  int layer = kNone;     // of its steps
  std::string layer_op;  // of the node that is expanded
};

// An operator in terms of others, as a function of a file would say it. Node names and outputs are those of the source.
class Body {
 public:
  explicit Body(const Source& source);

  std::string take(const OperandPtr& x);  // the name by which the nodes know an operand of the source
  ::onnx::NodeProto& node(const char* op, const std::vector<std::string>& inputs, const std::string& output);
  ::onnx::NodeProto& add(const ::onnx::NodeProto& given);  // a copy
  // A node with the attributes of `from`, but for those of the list.
  ::onnx::NodeProto& node_like(const ::onnx::NodeProto& from, const char* op, const std::vector<std::string>& inputs,
                               const std::string& output, const std::vector<std::string>& without = {});
  std::string fresh(const std::string& wanted);  // with a suffix if something in the body has the name
  void give(const std::string& value);           // the next output
  void give_as(const std::string& value, const std::string& wanted);  // and that is its name

  const ::onnx::FunctionProto& function() const { return function_; }
  const std::vector<OperandPtr>& operands() const { return operands_; }

  int opset = 0;                // of the ONNX operators in it; 0: the file's
  std::string name, source_op;  // of the layer in the file

 private:
  ::onnx::FunctionProto function_;
  std::vector<OperandPtr> operands_;
  std::map<std::string, int> names_;
};
void set_attribute(::onnx::NodeProto& node, const char* key, int64_t value);
void set_attribute(::onnx::NodeProto& node, const char* key, const std::vector<int64_t>& values);
OperandPtr constant_operand(Value value);

}  // namespace nacre::tools::onnx_import
