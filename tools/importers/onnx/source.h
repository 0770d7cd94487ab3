// Declares nodes of an ONNX file, the operands that they read and write, and the names in their scope. Private to
// tools/importers.
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
  std::string what = {};    // kOther: name of the change, which no node of the graph can make

  static Move transpose(const std::vector<int>& perm) { return {kTranspose, {perm.begin(), perm.end()}}; }
  static Move reshape(std::vector<int64_t> dims) { return {kReshape, std::move(dims)}; }
  static Move other(std::string what) { return {kOther, {}, std::move(what)}; }
  bool operator==(const Move&) const = default;
};
using Moves = std::vector<Move>;

// A tensor of the source. A known operand has at first one of these: `constant`; `plain` or `channels_last`;
// `quantized` (codes that no node reads so far); `dynamic` (a part of a dynamically quantized layer); `sequence`.
// An operand without any of them is unknown because of an earlier refusal.
struct Operand {
  std::string name = {};
  ElementType type = ElementType::kFloat32;
  // Type of reals that are float16, bfloat16 or float64 in the source. `type` and constants are then float32. The
  // policy of a layer that reads them says in which type it computes.
  ElementType kept = ElementType::kNone;
  std::vector<int64_t> dims = {};  // sizes, in the source's order
  std::shared_ptr<const Value> constant = nullptr;
  std::shared_ptr<const Value> exact = nullptr;  // a float64 constant unrounded, for computations at import
  ValueId plain = kNone, channels_last = kNone;
  // Codes of a matrix that the file stores in 4 bits, with a scale and a zero point per block along an axis. They are
  // for the layer that reads the matrix unchanged (ops/block.cc).
  struct Blocks {
    int axis;
    int64_t block;
    std::vector<int8_t> codes, zero;  // codes -8 to 7; zero, scale: one per block, in the order of the matrix
    std::vector<float> scale;
  };
  std::shared_ptr<const Blocks> blocks = nullptr;
  // The strings of a stored list. `constant` holds their indices 0, 1, 2, ..
  std::shared_ptr<const std::vector<std::string>> names = nullptr;
  int uses = 0;  // number of nodes and outputs of the source that read it

  // For constants that are to be trained: the origin and the moves that made this constant from it. Each Form of an
  // origin is a value in the graph that holds it after some moves, and the node that first read the value.
  struct Form {
    Moves moves;
    ValueId value;
    const ::onnx::NodeProto* node;
  };
  OperandPtr origin = nullptr;  // null for an initializer, or if other operators than moves compute this constant
  Moves moves = {};
  std::vector<Form> forms = {};
  // Initializers that this operand depends on, if other operators than moves compute it. `places` says where each
  // element comes from (int64): an initializer's elements count from its first_place on, and -1 comes from none. It
  // is null if numbers are computed.
  std::vector<OperandPtr> roots = {};
  std::shared_ptr<const Value> places = nullptr;
  int64_t first_place = -1;  // place of an initializer's first element

  struct Quantized {
    OperandPtr real;
    Quantizer quantizer;
  };
  std::optional<Quantized> quantized = {};

  // The part that an operand plays between DynamicQuantizeLinear and the product of sums and scales (ops/dynamic.cc).
  struct Dynamic {
    enum Part : uint8_t { kCodes, kScale, kZero, kSums, kScales } part;
    OperandPtr x = nullptr;                    // the value that is quantized at run time
    OperandPtr w = nullptr, w_zero = nullptr;  // for kSums: codes, and their zero point if it is given
    OperandPtr w_scale = nullptr;              // for kScales
    const ::onnx::NodeProto* node = nullptr;   // DynamicQuantizeLinear, for kSums the product, for kScales null
  };
  std::optional<Dynamic> dynamic = {};

  std::shared_ptr<const std::vector<OperandPtr>> sequence = nullptr;  // tensors of a sequence: ops/sequence.cc

  int rank() const { return int(dims.size()); }
  const Value& numbers() const { return exact ? *exact : *constant; }  // the numbers of a constant, unrounded
  bool known() const {
    return constant || plain != kNone || channels_last != kNone || quantized || dynamic || sequence;
  }
  bool prefers_channels_last() const { return channels_last != kNone && rank() > 2; }
  // Returns whether the operand holds codes with one scale that no node of the graph reads so far.
  bool codes() const { return quantized && plain == kNone && quantized->quantizer.scale.size() == 1; }
};

// One node of the file with its operands and attributes.
class Source {
 public:
  using Attributes = std::map<std::string, const ::onnx::AttributeProto*>;

  using Uses = std::unordered_map<std::string, int>;

  // `uses` counts the readers of each name in the graph around the node. If it is null, all outputs of the node are
  // read.
  Source(const ::onnx::NodeProto& proto, int opset, const Attributes* bound, const Uses* uses = nullptr);

  // Attributes. In a function's body an attribute may refer to an attribute of the call (`bound`).
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
  const Value& constant(int input, const char* what) const;  // refuses an operand that is not constant
  std::vector<int64_t> constant_integers(int input, const char* what) const;
  float constant_real(int input, const char* what) const;  // an operand of one element
  // Returns attribute `key` of older opsets or constant input `input` of newer ones, or nullopt if neither is there.
  std::optional<std::vector<int64_t>> integers_or_input(const char* key, int input) const;
  // Returns `axis`, which is in [-rank, rank), as an index from 0 on. Throws for another axis.
  int axis(int64_t axis, int rank) const;
  ElementType kept() const;  // Operand::kept of the node's reals
  // Returns whether the output has a name and is needed: it is an output of the graph around the node, or a node that
  // such an output depends on reads it.
  bool wants(int output) const;

  [[noreturn]] void refuse(const std::string& reason, const std::string& remedy = "") const;
  [[noreturn]] void malformed(const std::string& fact) const;

  const ::onnx::NodeProto& proto;
  const int opset;
  const std::string name;   // the node's own, or else that of its first output
  const std::string place;  // name (op), for errors
  std::vector<OperandPtr> inputs;
  const bool main;  // the operator is in ONNX's own domain

 private:
  const Attributes* bound_;
  const Uses* uses_;
};

// The names that are known in the graph, in a graph inside a node, or in one call of a function.
struct Scope {
  std::unordered_map<std::string, OperandPtr> operands;
  std::unordered_map<std::string, const ::onnx::TensorProto*> initializers;
  Source::Uses uses;
  std::map<std::string, int> opsets;
  Source::Attributes attributes;
  int depth = 0;
  Scope* outer = nullptr;  // a graph inside a node sees the names of this scope
};
void read_initializers(Scope& scope, const ::onnx::GraphProto& graph);  // inputs.cc

// The node that is being imported.
struct CurrentNode {
  void enter(Scope& around, const Source& node) { scope = &around, source = &node, layer = kNone; }

  Scope* scope = nullptr;
  const Source* source = nullptr;
  int layer = kNone;     // the graph's layer for the nodes that it becomes
  std::string layer_op;  // operator of the file's node that a Body replaces; "" if none does
};

// An operator written as several others, in the form of an ONNX function. Its nodes have the name of the source node.
class Body {
 public:
  explicit Body(const Source& source);

  std::string take(const OperandPtr& x);  // returns the name by which the nodes read an operand of the source
  ::onnx::NodeProto& node(const char* op, const std::vector<std::string>& inputs, const std::string& output);
  ::onnx::NodeProto& add(const ::onnx::NodeProto& given);  // a copy
  // Adds a node with the attributes of `from` except those listed in `without`.
  ::onnx::NodeProto& node_like(const ::onnx::NodeProto& from, const char* op, const std::vector<std::string>& inputs,
                               const std::string& output, const std::vector<std::string>& without = {});
  std::string fresh(const std::string& wanted);  // returns `wanted`, with a suffix if the name is taken already
  void give(const std::string& value);           // makes `value` the next output
  void give_as(const std::string& value, const std::string& wanted);  // also renames it to `wanted`

  const ::onnx::FunctionProto& function() const { return function_; }
  const std::vector<OperandPtr>& operands() const { return operands_; }

  int opset = 0;                // opset of the ONNX operators in it; 0 means the file's
  std::string name, source_op;  // name and operator of the file's node

 private:
  ::onnx::FunctionProto function_;
  std::vector<OperandPtr> operands_;
  std::map<std::string, int> names_;
};
void set_attribute(::onnx::NodeProto& node, const char* key, int64_t value);
void set_attribute(::onnx::NodeProto& node, const char* key, const std::vector<int64_t>& values);
OperandPtr constant_operand(Value value);

}  // namespace nacre::tools::onnx_import
