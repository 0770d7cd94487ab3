// Builds small TensorFlow Lite files in memory.
//
//   TfliteBuilder b;
//   const int x = b.activation("x", {1, 4}), w = b.floats("w", {2, 4}, {...}), y = b.activation("y", {1, 2});
//   b.op(BuiltinOperator::FULLY_CONNECTED, {x, w, -1}, {y}, CreateFullyConnectedOptions(b.fbb()));
//   const std::vector<uint8_t> file = b.finish({x}, {y});
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tflite_generated.h"

namespace nacre::tools::tflite {

struct Codes {  // real = scale * (code - zero)
  std::vector<float> scale;
  std::vector<int64_t> zero;
  int axis = 0;
};

struct TensorSpec {
  std::string name;
  TensorType type = TensorType::FLOAT32;
  std::vector<int32_t> shape;
  std::vector<uint8_t> data;  // empty: not a constant, unless `buffer` is a constant's
  Codes codes;
  std::vector<int32_t> signature;  // shape_signature; empty if equal to the shape
  bool variable = false;
  uint32_t buffer = 0;  // another tensor's buffer, or 0 for one of its own
};

class TfliteBuilder {
 public:
  flatbuffers::FlatBufferBuilder& fbb() { return fbb_; }

  int tensor(const TensorSpec& spec);  // its index
  int activation(const std::string& name, const std::vector<int32_t>& shape);
  int activation(const std::string& name, const std::vector<int32_t>& shape, float scale, int64_t zero);  // int8
  int floats(const std::string& name, const std::vector<int32_t>& shape, const std::vector<float>& data);
  int codes(const std::string& name, const std::vector<int32_t>& shape, const std::vector<int8_t>& data,
            const Codes& codes);
  int int32s(const std::string& name, const std::vector<int32_t>& shape, const std::vector<int32_t>& data,
             const Codes& codes = {});

  void op(BuiltinOperator code, const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs);
  template <class Options>
  void op(BuiltinOperator code, const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs,
          flatbuffers::Offset<Options> options) {
    add(operator_code(code), inputs, outputs, BuiltinOptionsTraits<Options>::enum_value, options.Union());
  }
  void custom(const std::string& name, const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs,
              const std::vector<uint8_t>& options = {});

  // Adds the operators of `build` as a subgraph with these inputs and outputs. Returns the index by which operators
  // call it.
  struct Ends {
    std::vector<int32_t> inputs, outputs;
  };
  int graph(const std::function<Ends()>& build);

  // variable() returns a handle, as VAR_HANDLE gives it. once() adds a CALL_ONCE of a subgraph that assigns the
  // variable `initial`.
  int variable(const std::string& name);
  void once(const std::string& name, const std::vector<float>& initial);

  // Sets the names of inputs and outputs, {tensor, name}.
  void signature(const std::vector<std::pair<uint32_t, std::string>>& inputs,
                 const std::vector<std::pair<uint32_t, std::string>>& outputs);

  // Settings of the next finish().
  bool old_codes = false;     // opcodes in the deprecated byte only
  bool data_outside = false;  // buffers behind the FlatBuffer, by offset
  uint32_t version = 3;
  std::vector<uint8_t> metadata;  // of the entry TFLITE_METADATA; no entry if empty

  std::vector<uint8_t> finish(const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs);

 private:
  uint32_t operator_code(BuiltinOperator code, const std::string& custom = "");
  void add(uint32_t code, const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs, BuiltinOptions type,
           flatbuffers::Offset<void> options);
  std::vector<flatbuffers::Offset<Buffer>> make_buffers(uint64_t first_offset);

  struct Code {
    BuiltinOperator code;
    std::string custom;
  };
  flatbuffers::FlatBufferBuilder fbb_;
  std::vector<flatbuffers::Offset<Tensor>> tensors_;
  std::vector<flatbuffers::Offset<Operator>> operators_;
  std::vector<flatbuffers::Offset<SignatureDef>> signatures_;
  std::vector<flatbuffers::Offset<SubGraph>> called_;
  std::vector<std::vector<uint8_t>> buffers_ = {{}};  // 0 is empty by definition
  std::vector<Code> codes_;
};

}  // namespace nacre::tools::tflite
