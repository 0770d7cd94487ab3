// A step by hand: runs one KernelEntry on arrays, as bind and run would, without a model file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/kernels/kernel.h"

namespace nacre::test {

struct Array {
  ElementType element = ElementType::kNone;  // kNone: an optional operand that is absent
  std::vector<int32_t> dims;
  std::vector<uint8_t> bytes;

  bool present() const { return element != ElementType::kNone; }
  int64_t elements() const;
  double real(int64_t i) const;       // any element type
  int64_t integer(int64_t i) const;   // integer types
  void set(int64_t i, double value);  // integers round towards zero, floats to the nearest
  std::string text() const;           // "int8 [2, 3]"
};

Array make_array(ElementType element, std::vector<int32_t> dims);
TensorRecord record_of(const Array& array);
template <class T>
Array array_of(ElementType element, std::vector<int32_t> dims, const std::vector<T>& values) {
  Array array = make_array(element, std::move(dims));
  for (size_t i = 0; i < values.size(); ++i) array.set(int64_t(i), double(values[i]));
  return array;
}

// Applies the entry's shape rule to the inputs, which include the updated operands, then runs its kernel.
// Outputs have the size that the rule gives, lie between guard bytes and are poisoned before. `overrun` is set if a
// guard byte changed, `impure` if an input did.
struct Execution {
  Code code = Code::kOk;
  std::vector<Array> outputs;
  std::vector<Array> updated;  // the updated operands after the run, in order
  bool overrun = false, impure = false;
};
Execution execute(const KernelEntry& entry, const std::vector<uint32_t>& words, const std::vector<Array>& inputs);

// Executes the step with its first output in the bytes of input `slot`; the entry must allow that.
Execution execute_in_place(const KernelEntry& entry, const std::vector<uint32_t>& words,
                           const std::vector<Array>& inputs, int slot);

int input_count(const KernelEntry& entry);  // of an entry that is not variadic; updated operands included
bool variadic(const KernelEntry& entry);
std::string type_name(ElementType element);

}  // namespace nacre::test
