// Converts TensorProto to Value: reads the constants of an ONNX file, whichever fields they are in.
//
// The number of elements must fit the bytes. External files must lie in the model's directory, or in the Hugging Face
// cache around it (relative names only, no "..", no link that leads out). A malformed tensor throws Error{kBadInput}.
// A tensor of a type that the tools do not support throws Error{kUnsupported}.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

#include "tools/graph/graph.h"

namespace nacre::tools::onnx_import {

// Returns the type of a TensorProto.DataType, or kNone for string, complex, 2-bit and unknown types. uint16 is read
// as uint32, and uint64 as int64.
ElementType element_type(int data_type);
std::string type_name(int data_type);

// Returns the tensor as a constant. `directory` may hold external data; if it is empty, external data are refused.
Value read_tensor(const ::onnx::TensorProto& tensor, const std::string& directory);

// Returns the bytes of a tensor whose data are in another file.
std::vector<uint8_t> external_data(const ::onnx::TensorProto& tensor, const std::string& directory);

// Returns whether the type is float16, bfloat16 or float64. Constants of these types become float32, which holds all
// numbers of the first two.
bool is_other_real(ElementType type);
Value as_float32(Value value);                 // converts these three types; others stay
Value rounded(Value value, ElementType type);  // rounds float32 to float16 or bfloat16; others stay

// Returns the product of dims. Throws unless each dim is >= 0 and the product is below 2^31 (the engine's limit).
int64_t checked_elements(const std::string& place, const std::vector<int64_t>& dims);

// Make constants of the type `type`. Reals are cut to integers, and numbers beyond an integer type saturate.
Value make_constant(const std::string& name, ElementType type, std::vector<int64_t> dims,
                    const std::vector<int64_t>& integers);
Value make_constant(const std::string& name, ElementType type, std::vector<int64_t> dims,
                    const std::vector<float>& reals);
Value make_constant(const std::string& name, ElementType type, std::vector<int64_t> dims,
                    const std::vector<double>& reals);
bool is_integer(ElementType type);

}  // namespace nacre::tools::onnx_import
