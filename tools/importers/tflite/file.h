// File holds a TensorFlow Lite file: its model, the data of its buffers, and the problems found in it (file.cc).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tflite_generated.h"
#include "tools/base/error.h"
#include "tools/importers/importer.h"

namespace nacre::tools::tflite {

inline constexpr int64_t kMaxSize = int64_t{1} << 28;  // largest size of an axis: the engine's limit
inline constexpr size_t kMaxOperands = 1024;           // most operands of an operator
inline constexpr const char* kNotSupported = ", which is not supported";

struct Operation {  // an operator of the file
  const Operator* record = nullptr;
  BuiltinOperator code = BuiltinOperator::ADD;
  std::string code_name = {};                  // name of the operator's kind: "CONV_2D", "CUSTOM NAME"
  std::string name = {};                       // name of its first output, and of its layer
  std::vector<int> inputs = {}, outputs = {};  // indices of tensors; kNone if absent
  int layer = kNone;                           // set when its first node is made

  bool has_input(size_t i) const { return i < inputs.size() && inputs[i] != kNone; }
  std::string place() const { return name + " (" + code_name + ")"; }
};

struct Batch {        // facts about axis 0 of all inputs
  bool open = false;  // the axis is a batch
  bool same = true;   // the batch is that of the file
  int64_t of_file = 0;
};

template <class T>
size_t size_of(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

std::string dims_text(const std::vector<int64_t>& dims);

// Returns the model in the file's bytes, which begin at a multiple of 16. Throws if the file is damaged.
const Model& verified_model(std::span<const uint8_t> bytes, const std::string& name);

class File {
 public:
  using Data = std::shared_ptr<const std::vector<uint8_t>>;

  File(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options);
  File(const File&) = delete;

  std::span<const uint8_t> bytes() const { return bytes_; }
  const std::string& name() const { return name_; }
  const ImportOptions& options() const { return options_; }
  const Model& model() const { return *model_; }
  Batch& batch() { return batch_; }
  const SubGraph& called_graph(const Operation& op, int index) const;
  BuiltinOperator code_of(const Operator& record) const;

  // Returns the data of a buffer. Errors name the tensor `place`.
  Data data_of(uint32_t buffer, const std::string& place);
  Data unpacked(uint32_t buffer, const std::string& place, uint64_t codes);

  // Throws unless dims give at least one element and fewer than 2^31, and none is above kMaxSize.
  void check_limits(const std::vector<int64_t>& dims, const std::string& place) const;
  [[noreturn]] void unsupported(const std::string& place, const std::string& reason) const;
  [[noreturn]] void bad(const std::string& place, const std::string& fact) const;
  std::vector<std::string>& problems() { return problems_; }  // everything that is not supported

 private:
  std::span<const uint8_t> bytes_;
  std::vector<uint8_t> aligned_;  // a copy of the file if the caller's bytes are not aligned
  std::string name_;
  ImportOptions options_;
  const Model* model_ = nullptr;
  Batch batch_;
  std::map<uint32_t, Data> buffers_;
  std::map<std::pair<uint32_t, uint64_t>, Data> unpacked_;  // by buffer and number of codes
  uint64_t copied_bytes_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace nacre::tools::tflite
