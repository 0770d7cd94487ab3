// TensorProto -> Value: the constants of an ONNX file, whichever of its fields they stand in.
//
// Everything is checked: the number of elements against the bytes, external files against the directory of the model
// (relative names only, no "..", no way out by a link). A malformed tensor throws Error{kBadInput}, one of a type that
// the tools have no use for Error{kUnsupported}.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

#include "tools/graph/graph.h"

namespace nacre::tools::onnx_import {

// Type of TensorProto.DataType; kNone for string, complex, uint64, 2-bit types. uint16 is read as uint32.
ElementType element_type(int data_type);
std::string type_name(int data_type);

// The tensor as a constant. `directory` is where external data may stand; empty: nowhere.
Value read_tensor(const ::onnx::TensorProto& tensor, const std::string& directory);

// The bytes of a tensor whose data are in another file.
std::vector<uint8_t> external_data(const ::onnx::TensorProto& tensor, const std::string& directory);

// float16, bfloat16 and float64: constants of these become float32, which holds all numbers of the former two.
bool is_other_real(ElementType type);
Value as_float32(Value value);                 // of those three; others stay
Value rounded(Value value, ElementType type);  // a float32 constant to float16 or bfloat16; others stay

// Product of dims, each checked to be >= 0 and the product to be below 2^31 (the engine's limit).
int64_t checked_elements(const std::string& place, const std::vector<int64_t>& dims);

// Constants made by the importer. The numbers are converted to `type` as C does, saturating.
Value make_constant(const std::string& name, ElementType type, std::vector<int64_t> dims,
                    const std::vector<int64_t>& integers);
Value make_constant(const std::string& name, ElementType type, std::vector<int64_t> dims,
                    const std::vector<float>& reals);
Value make_constant(const std::string& name, ElementType type, std::vector<int64_t> dims,
                    const std::vector<double>& reals);
bool is_integer(ElementType type);

}  // namespace nacre::tools::onnx_import
