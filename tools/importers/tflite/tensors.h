// Tensors reads the tensors of one graph of the file (tensors.cc): names, shapes, types, quantizers, constants.
#pragma once

#include "tools/importers/tflite/file.h"

namespace nacre::tools::tflite {

class Tensors {
 public:
  Tensors(File& file, const SubGraph& graph);  // throws if there are too many

  const SubGraph& graph() const { return *graph_; }
  size_t size() const { return beside_quantize_.size(); }
  const Tensor& operator[](int index) const { return *graph_->tensors()->Get(flatbuffers::uoffset_t(index)); }
  std::vector<int> operands(const flatbuffers::Vector<int32_t>* ids, const std::string& place) const;

  std::string name(int index) const;
  std::vector<int64_t> dims(int index) const;  // as in the file, with 1 for -1
  ElementType type(int index) const;           // as in the file
  bool is_list(int index) const { return (*this)[index].type() == TensorType::VARIANT; }
  bool has_scale(int index) const;
  bool has_data(int index) const;
  Value value(int index) const;                                // has type and quantizer; throws kUnsupported
  Value constant(int index) const;                             // without a name
  Quantizer loop_codes(const Operation& op, int index) const;  // for a tensor of int8 or int16

 private:
  std::optional<Quantizer> quantizer(int index, ElementType stored) const;

  File* file_;
  const SubGraph* graph_;
  std::vector<bool> beside_quantize_, beside_signal_;  // a QUANTIZE, or a Signal operator, reads or writes the tensor
};

}  // namespace nacre::tools::tflite
