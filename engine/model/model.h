// Model is a checked view of a model file's bytes, read in place. It owns nothing and copies nothing.
//
// Example:
//   Model model;
//   NACRE_TRY(model.open(bytes, {.steps = 1000}));      // any bytes: a model, or one refusal
//   NACRE_TRY(model.check_weights());                   // reads the whole file: once after a download
//   uint32_t index = 0;
//   if (!model.find(Entry::kInfer, "x86/avx2", &index).ok()) NACRE_TRY(model.find(Entry::kInfer, nullptr, &index));
//   const TensorRecord& x = model.tensors()[model.program(index).inputs[0]];
//   std::printf("%s: %d axes, %u bytes\n", model.target(index), x.rank, unsigned(x.bytes));
//
// open() trusts no byte. If it succeeds, every index, offset and lifetime in the file is proven to lie where
// FORMAT.md says, so later calls need not check again. open() reads no weight. check_weights() reads all, in time
// proportional to the file. Model knows no op; Program::measure and bind check the contents of steps.
//
// All spans, records and texts that a Model returns lie in the file's bytes and are valid as long as these. Several
// threads may call const functions of one Model. While open or attach runs, no other thread may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/status.h"
#include "engine/base/tensor.h"
#include "engine/numeric/policy.h"
#include "engine/ops/op.h"

namespace nacre::schema {
struct Model;
struct Program;
}  // namespace nacre::schema

namespace nacre {

// Values of FileHeader in the files that this library opens. kSegmentAlignment: each segment of weights starts at a
// multiple of so many bytes.
inline constexpr char kMagic[4] = {'N', 'A', 'C', 'R'};
inline constexpr uint16_t kFileVersion = 2;
inline constexpr uint16_t kByteOrderMark = 0x0102;
inline constexpr uint32_t kKnownFeatures = 0;
inline constexpr size_t kSegmentAlignment = 64;

struct FileHeader {  // the first 64 bytes, little-endian; schema/FORMAT.md, "header"
  char magic[4];
  uint16_t version;
  uint16_t byte_order;
  uint32_t features;  // bits that a reader must understand
  uint32_t crc;       // CRC-32C of the header, without this field, and of the FlatBuffer
  uint64_t total_bytes;
  uint32_t flatbuffer_offset;  // 64
  uint32_t flatbuffer_bytes;
  uint8_t hash[16];  // first 16 bytes of the SHA-256 of everything after the header
  uint8_t reserved[16];
};
static_assert(sizeof(FileHeader) == 64);

struct QuantizerRecord {  // real = scale * (code - zero)
  float scale;            // per tensor; 0 if `scales` is given
  int32_t zero;
  uint32_t scales;  // tensor id: float32, one per index of `axis`; or kNoIndex
  uint32_t zeros;   // tensor id: int32, one per scale; or kNoIndex, then `zero` holds for all
  ElementType codes;
  uint8_t axis;
  ScaleForm form;
  uint8_t reserved;
};
static_assert(sizeof(QuantizerRecord) == 20);

struct SegmentRecord {
  FileBytes offset, bytes;  // `offset` from the start of the file
  uint32_t crc;
  uint32_t reserved;
};
static_assert(sizeof(SegmentRecord) == 24);

// Returns whether the bits of a float are a valid scale: positive, normal, finite. The sign is 0 and the biased
// exponent is in [1, 254].
constexpr bool is_scale(uint32_t bits) { return bits >= 0x00800000 && bits < 0x7F800000; }

// Returns whether `zero` may be the zero point of these codes: any value of int4, uint4, int8, uint8, int16 and int32.
// All other types allow only 0.
bool is_zero_point(ElementType codes, int32_t zero);

// The kind of a program. A model has at most one program of each kind for each target.
enum class Entry : uint8_t {
  kInfer = 0,      // the network's outputs
  kGradients = 1,  // one micro-batch: adds its loss and gradients to the step block
  kUpdate = 2,     // one training step: reads the step block (with --update immediate, the data) and writes the state
  kDerive = 3,     // computes Region::kDerived from weights and state
  kCount
};

inline constexpr uint32_t kMaxLayers = 1u << 16;

// Bounds that the caller sets: open() refuses a file that exceeds them, measure and bind a program.
struct Limits {
  uint64_t file_bytes = uint64_t{1} << 40;  // kTooLarge
  uint32_t tensors = 16384;                 // kCount; checking a plan takes time in tensors^2
  uint32_t steps = 16384;                   // kCount
  uint32_t string_bytes = 4096;             // kString: names, targets and keys, not the values of metadata
  uint64_t work = uint64_t{1} << 50;        // kWork, of measure and bind: multiply-accumulates of one run
};

struct TensorInfo;  // engine/model/tensor_info.h

// A program of the model, as plain values and views into the file.
struct ProgramView {
  Entry entry = Entry::kInfer;
  uint16_t changes = 0;  // Model::changes() when the view was made
  // Steps: the first one's position in Model::steps(), and how many. Tensors, the program's own, which lie in the
  // arena: the first one's id, and how many. Batch: rows of the compiled batch.
  uint32_t first_step = 0, step_count = 0, first_tensor = 0, tensor_count = 0, batch = 0;
  std::span<const uint32_t> inputs, outputs;  // tensor ids
  std::span<const FileBytes> banks;           // bytes of the arena, per bank
};

class Model {
 public:
  // Opens a model file. `bytes` must start at a multiple of 16, and must stay in place and unchanged during the life
  // of the Model. It refuses with the codes kNull to kRounding (not kSegmentCrc, kNotFinite, kMultiplier, kWork) and
  // kLayout. Programs that were bound to this Model must be bound again, whether or not the call succeeds. After a
  // refusal the Model is not opened.
  Status open(std::span<const std::byte> bytes, const Limits& limits = {});

  // Takes the weights of a segment from `data` (another flash, another mapping) instead of the file. `data` starts at
  // a multiple of 64, has at least the segment's bytes, and stays in place. Segments that are not attached are read
  // from the file, whose bytes must all stay in place. This call unbinds a program that was bound before; bind it
  // again. It does not read `data`: check_weights() does. kNotBound: the model is not opened. kIndex: there is no such
  // segment. kMemorySize, kMemoryAlignment: `data` does not fit. A refusal changes nothing.
  static constexpr uint32_t kMaxSegments = 4;
  Status attach(uint32_t segment, std::span<const std::byte> data);

  // Reads every weight, those of attached segments where they lie. Checks the segments' checksums, scales, zero points
  // and fixed-point multipliers. Refuses a float weight that is NaN; infinity is valid, because a mask may hold it.
  // Returns kSegmentCrc, kNotFinite (not of float8), kScale, kZeroPoint or kMultiplier. kNotBound: the model is not
  // opened.
  Status check_weights() const;

  bool opened() const { return root_ != nullptr; }
  // Returns the first 64 bytes of the file. The model must be opened.
  const FileHeader& header() const { return *static_cast<const FileHeader*>(static_cast<const void*>(bytes_.data())); }
  std::span<const std::byte> bytes() const { return bytes_; }  // the file; empty if it is not opened
  // Returns a number that open and attach change, so that a Program sees that this model's bytes are elsewhere.
  uint16_t changes() const { return changes_; }
  // Returns whether a block has a byte in common with the file or with an attached segment.
  bool shares_bytes(std::span<const std::byte> block) const;

  std::span<const TensorRecord> tensors() const { return tensors_; }  // of all programs; a tensor's id is its position
  std::span<const StepRecord> steps() const { return steps_; }        // of all programs, one after another
  // Return the attributes of one of steps(), and its operands: operand_count words, each a tensor id with the Role in
  // the highest two bits (kOperandIdMask).
  Words words(const StepRecord& step) const { return {words_ + step.first_word, step.word_count}; }
  const uint32_t* operands(const StepRecord& step) const { return operands_ + step.first_operand; }
  // Returns the bytes of region state, stream, derived or step; 0 for others, and if the model is not opened.
  uint64_t region_bytes(Region region) const;
  // Returns the bytes of a tensor, which must lie in Region::kWeights: tensors()[tensor].bytes of them, constant.
  const std::byte* weights(uint32_t tensor) const;

  uint32_t program_count() const;             // 0 if the model is not opened
  ProgramView program(uint32_t index) const;  // no steps, inputs or outputs if there is no such program
  // Finds the first program of this kind for this target, such as "x86/avx2", or for any target if `target` is null.
  // Returns kNoEntry if there is none; *index then keeps its value.
  Status find(Entry entry, const char* target, uint32_t* index) const;
  // Finds the program of this kind for the target of `program`, as find() does.
  Status find_beside(uint32_t program, Entry entry, uint32_t* index) const;

  // Describe an input, an output or any other tensor (engine/model/tensor_info.h). They return kNoName if there is
  // none; *info then has no record. Names are looked up in the first program that infers: kNoEntry if there is no such
  // program, kNotBound if the model is not opened.
  Status input(uint32_t program, uint32_t index, TensorInfo* info) const;
  Status output(uint32_t program, uint32_t index, TensorInfo* info) const;
  Status input(const char* name, TensorInfo* info) const;
  Status output(const char* name, TensorInfo* info) const;
  Status tensor(uint32_t tensor, TensorInfo* info) const;

  // All but metadata_count() return a text in the file, which ends with a 0, or null if there is no such text.
  const char* target(uint32_t program) const;  // "host", "x86/avx2"
  uint32_t metadata_count() const;
  const char* metadata_key(uint32_t index) const;
  const char* metadata_value(uint32_t index) const;
  const char* metadata(const char* key) const;  // value of the first entry with this key, such as "converter"
  const char* layer_name(uint32_t step) const;  // name of the layer that steps()[step] belongs to
  // Returns the name of class `index`, which is line `index` of the metadata `labels`. It is empty if there is no
  // such line.
  std::span<const char> label(uint32_t index) const;

  uint64_t work_limit() const { return work_limit_; }  // Limits::work of open
  // Returns the FlatBuffer, for tools that read names, layers and metadata; null if the model is not opened.
  const schema::Model* root() const { return root_; }

 private:
  friend class Verifier;

  Status find(Entry entry, std::span<const char> target, bool any, uint32_t* index) const;
  Status described(uint32_t program, uint32_t index, bool output, TensorInfo* info) const;
  Status named(const char* name, bool output, TensorInfo* info) const;
  const std::byte* segment(uint32_t index) const;
  Status check_quantizers() const;
  Status check_multipliers() const;

  std::span<const std::byte> bytes_;
  const schema::Model* root_ = nullptr;
  std::span<const TensorRecord> tensors_;
  std::span<const StepRecord> steps_;
  const uint32_t* words_ = nullptr;
  const uint32_t* operands_ = nullptr;
  const std::byte* attached_[kMaxSegments] = {};
  uint16_t changes_ = 0;
  uint64_t work_limit_ = 0;
};

}  // namespace nacre
