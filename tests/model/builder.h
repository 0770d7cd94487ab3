// Builder of small valid models, without the converter. A test changes any one fact of a draft; then pack() makes the
// bytes, with the right length and CRC. So the changed fact is the only fault, and the engine must notice it.
//
//   Draft draft = dense_int8();
//   draft.tensors[3].dims[0] = -1;
//   const Buffer file = pack(draft);       // exact-size heap block: a read one byte beyond it is seen by ASan
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/layout.h"
#include "engine/model/model.h"
#include "engine/numeric/policy.h"
#include "engine/ops/op.h"

namespace nacre::test {

// A heap block of exactly `size` bytes that starts at a multiple of 64.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t size, std::byte fill = std::byte{0});
  explicit Buffer(std::span<const std::byte> bytes);
  Buffer(const Buffer& other) : Buffer(other.bytes()) {}
  Buffer(Buffer&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr, other.size_ = 0; }
  Buffer& operator=(Buffer other) noexcept;
  ~Buffer();

  std::byte* data() { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

using Strings = std::vector<std::string>;

struct ProgramDraft {
  uint8_t entry = 0;
  std::string target;
  uint32_t first_step = 0, step_count = 0, first_tensor = 0, tensor_count = 0, batch = 1;
  std::vector<uint64_t> banks;
  Strings bank_names;
  std::vector<uint32_t> inputs, outputs;
  Strings input_names, output_names, input_layouts, output_layouts;
};

struct LayerDraft {
  std::string name, source_op;
  Policy policy;
};

struct GoldenDraft {
  uint32_t program = 0;
  std::vector<uint8_t> inputs, outputs;
  float tolerance = 0;
};

struct Draft {
  std::vector<TensorRecord> tensors;
  std::vector<QuantizerRecord> quantizers;
  std::vector<StepRecord> steps;
  std::vector<uint32_t> words, operands;
  std::vector<std::vector<std::byte>> segments;  // contents
  std::vector<ProgramDraft> programs;
  std::vector<LayerDraft> layers;
  uint64_t region_bytes[4] = {};  // state, stream, derived, step
  Strings tensor_names;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<GoldenDraft> golden;

  // pack() calls these to change the segment records, CRCs included, and the header, before the header's CRC is made.
  std::function<void(std::vector<SegmentRecord>&)> edit_segments;
  std::function<void(FileHeader&)> edit_header;
  size_t trailing_bytes = 0;  // after the last segment
  // How often the vector holds the first program, or the first layer: FlatBuffers may share a table.
  size_t program_copies = 1, layer_copies = 1;

  // ---- Functions that the cases below use. ----
  uint32_t quantizer(float scale, int32_t zero, ElementType codes = ElementType::kInt8);
  template <class T>
  uint32_t weights(std::vector<int32_t> dims, const std::vector<T>& values, uint32_t quantizer = kNoIndex);
  uint32_t weights(ElementType type, std::vector<int32_t> dims, std::span<const std::byte> values, uint32_t quantizer);
  uint32_t global(Region region, ElementType type, std::vector<int32_t> dims, uint16_t flags = 0,
                  Layout layout = Layout::kRowMajor);
  // Adds a tensor to the arena of the program being built, at `offset` in bank `bank`.
  uint32_t arena(ElementType type, std::vector<int32_t> dims, uint32_t first, uint32_t last, uint64_t offset,
                 uint32_t quantizer = kNoIndex, uint16_t flags = 0, uint8_t bank = 0);
  uint32_t alias(uint32_t of, std::vector<int32_t> dims, uint32_t first, uint32_t last, uint64_t offset = 0);
  uint32_t step(Op op, std::vector<uint32_t> step_words, std::vector<uint32_t> in, std::vector<uint32_t> out,
                Rounding rounding = Rounding::kNone);
  // Closes the program. It gets all tensors, steps, inputs and outputs that were added since the previous program.
  void program(Entry entry, const std::string& target, std::vector<uint64_t> banks, uint32_t batch = 1);
  void layer(const std::string& name, const std::string& source_op, const Policy& policy = {});

  uint32_t global_count() const { return programs.empty() ? uint32_t(tensors.size()) : programs[0].first_tensor; }

 private:
  uint32_t add(TensorRecord record, const std::vector<int32_t>& dims);
  uint32_t first_arena() const;
};

uint32_t update(uint32_t id);  // an operand that is read and written
inline constexpr uint32_t kAbsent = kNoOperand;

template <class T>
struct ElementOf;
template <>
struct ElementOf<float> {
  static constexpr ElementType kType = ElementType::kFloat32;
};
template <>
struct ElementOf<double> {
  static constexpr ElementType kType = ElementType::kFloat64;
};
template <>
struct ElementOf<int8_t> {
  static constexpr ElementType kType = ElementType::kInt8;
};
template <>
struct ElementOf<uint8_t> {
  static constexpr ElementType kType = ElementType::kUint8;
};
template <>
struct ElementOf<uint16_t> {
  static constexpr ElementType kType = ElementType::kFloat16;
};
template <>
struct ElementOf<int32_t> {
  static constexpr ElementType kType = ElementType::kInt32;
};
template <>
struct ElementOf<uint32_t> {
  static constexpr ElementType kType = ElementType::kUint32;
};

template <class T>
uint32_t Draft::weights(std::vector<int32_t> dims, const std::vector<T>& values, uint32_t quantizer) {
  return weights(ElementOf<T>::kType, std::move(dims), std::as_bytes(std::span(values)), quantizer);
}

Buffer pack(const Draft& draft);

// Corrects length and CRC after a change of the bytes. A file that is shorter than its header is left as it is.
void repair(std::span<std::byte> file);
FileHeader& header_of(std::span<std::byte> file);

// Returns the two bytes of a table's vtable that locate a field. `slot` is the generated VT_ number. Tables with the
// same layout share their vtable.
std::span<std::byte> vtable_entry(const void* table, uint16_t slot);

// ---- Cases: each opens, binds and runs. ----

Draft dense_int8();     // two dense steps, quantizers, layers with policies, names, metadata, a golden pair
Draft conv_add_int8();  // conv2d, add in place of its first operand, a reshape as alias, dense, softmax
Draft float_chain();    // conv2d, depthwise, max pool, mean, dense, softmax in float32
Draft two_banks();      // float tensors in two banks of the arena
Draft multi_input();    // two inputs, two outputs, broadcast
Draft batched();        // dense, clamp in a compiled batch of 4
Draft moves();          // pad, transpose, slice with a negative step, concat
Draft elided_concat();  // two steps write the halves of one tensor through aliases
Draft stateful();       // weights in state with an initial value, a table in stream, and a program `derive`
Draft packed();         // a weight that `derive` packs for another kernel, and pixels in panels of channels
Draft guarded();        // a step that runs only if an input says so
Draft two_targets();    // one entry compiled twice over the same weights
Draft per_channel();    // a quantizer with one scale per channel; conv with as many multipliers
Draft reshaped();       // a reshape as a step
Draft casts();          // quantize, requantize, dequantize, dynamic quantize with hybrid dense

// Drafts of cases_training.cc: softmax regression of 4 features into 3 classes, with the programs infer, gradients,
// update and derive for "host". Tensors: 2 is w, 3 b, 4 velocity, 5 steps, 6 scale, 7 counters.
Draft training();
Draft training_immediate();  // the same without gradients: update does all

// Drafts of cases_forms.cc: models with the number formats that policies make.
Draft network_f16();  // conv2d, depthwise, both pools, batch_norm, mean, dense, softmax
Draft network_bf16();
Draft network_f64();
Draft moves_f16();        // pad, transpose, slice, concat, reshape, copy
Draft pointwise_bf16();   // add, sub, mul, clamp and the activations
Draft weight_only();      // int8 and int4 weights, both forms of scale
Draft grouped_int4();     // a scale and a zero point per group
Draft dynamic_int8();     // Keras' int8: a scale per row, per image, for all
Draft float8_static();    // static scales, quantized output, E5M2
Draft float8_current();   // scales from the values at hand
Draft fused_casts();      // outputs of another type, and casts
Draft dynamic_batched();  // dynamic scales in a compiled batch of 4
Draft hybrid();           // TFLite's, with zero points at the ends of int32

struct ModelCase {
  const char* name;
  Draft (*make)();
};
std::span<const ModelCase> form_cases();  // those of cases_forms.cc
const std::vector<ModelCase>& cases();    // all

}  // namespace nacre::test
