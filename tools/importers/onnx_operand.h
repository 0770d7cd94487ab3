// A tensor of an ONNX file, as far as the importer has followed it. Private to tools/importers/onnx*.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

#include "tools/graph/graph.h"

namespace nacre::tools::onnx_import {

struct Operand;
using OperandPtr = std::shared_ptr<Operand>;

// What an importer does to a constant before it stores it. Two constants are one parameter if the same was done to one
// initializer.
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
  std::string name;
  ElementType type = ElementType::kFloat32;
  // Of reals whose type in the source is float16, bfloat16 or float64: that. `type` and constants are then float32;
  // the policy of a layer that reads them says what is computed.
  ElementType kept = ElementType::kNone;
  std::vector<int64_t> dims;  // in the source's order
  std::shared_ptr<const Value> constant;
  std::shared_ptr<const Value> exact = nullptr;  // a float64 constant as it is, for what is computed of it at import
  ValueId plain = kNone, channels_last = kNone;
  // Of a stored list of strings: these, and `constant` counts 0, 1, 2, .. in their place.
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
  // Of what is computed by other than moves: the initializers that it depends on, and where each of its elements comes
  // from (int64, ::first_place and on of an initializer, -1: of none); null where numbers are computed.
  std::vector<OperandPtr> roots = {};
  std::shared_ptr<const Value> places = nullptr;
  int64_t first_place = -1;  // of an initializer

  struct Quantized {
    OperandPtr real;
    Quantizer quantizer;
  };
  std::optional<Quantized> quantized;

  // What stands between DynamicQuantizeLinear and the product of sums and scales: onnx_ops_dynamic.cc.
  struct Dynamic {
    enum Part : uint8_t { kCodes, kScale, kZero, kSums, kScales } part;
    OperandPtr x = nullptr;                       // what is quantized at run time
    OperandPtr w = nullptr, w_zero = nullptr;     // kSums: codes, and their zero point if it is given
    OperandPtr w_scale = nullptr;                 // kScales
    const ::onnx::NodeProto* integers = nullptr;  // kSums: MatMulInteger or ConvInteger
  };
  std::optional<Dynamic> dynamic;

  std::shared_ptr<const std::vector<OperandPtr>> sequence = nullptr;  // of tensors: onnx_ops_sequence.cc

  int rank() const { return int(dims.size()); }
  const Value& numbers() const { return exact ? *exact : *constant; }  // of a constant, as they are
  bool known() const {
    return constant || plain != kNone || channels_last != kNone || quantized || dynamic || sequence;
  }
  // Codes with one scale that no step has needed so far.
  bool codes() const { return quantized && plain == kNone && quantized->quantizer.scale.size() == 1; }
};

}  // namespace nacre::tools::onnx_import
