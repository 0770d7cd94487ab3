// A tensor, as the engine sees it, is a pointer and the record that stands in the model file.
//
// The records are read in place: these structs are the FlatBuffers structs of schema/model.fbs, byte for byte
// (engine/model/model.cc asserts their sizes). Little-endian machines only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "engine/base/isa.h"

namespace nacre {

inline constexpr int kMaxRank = 8;                // most axes of a tensor
inline constexpr int kMaxBanks = 8;               // most parts of an arena, each in a memory of its own
inline constexpr uint32_t kNoIndex = 0xFFFFFFFF;  // an optional index that is absent
inline constexpr size_t kAlignment = 16;          // alignment of blocks that the caller gives, and of planned offsets

// The type of a tensor's elements; NUMERICS.md section 6 defines the formats of 16 bits and fewer. Types of 4 bits are
// stored two per byte, the first in the low bits. Ids never change meaning.
enum class ElementType : uint8_t {
  kNone = 0,  // no element type
  kFloat32 = 1,
  kFloat16 = 2,
  kBfloat16 = 3,
  kFloat64 = 4,
  kInt8 = 5,
  kUint8 = 6,
  kInt16 = 7,
  kInt32 = 8,
  kInt64 = 9,
  kUint32 = 10,
  kBool = 11,  // one byte, 0 or 1
  kInt4 = 12,
  kFloat8E4M3 = 13,
  kFloat8E5M2 = 14,
  kFloat8E4M3Fnuz = 15,
  kFloat8E5M2Fnuz = 16,
  kFloat8E8M0 = 17,  // 2^(code - 127): scales of blocks
  kFloat4E2M1 = 18,
  kUint4 = 19,
  kTernary = 20,  // five per byte
  kCount
};

// Returns the bits of one stored element; 0 for an unknown type, and for ternary, which stores five to a byte.
NACRE_SHARED constexpr uint32_t element_bits(ElementType type) {
  constexpr uint8_t kBits[] = {0, 32, 16, 16, 64, 8, 8, 16, 32, 64, 32, 8, 4, 8, 8, 8, 8, 8, 4, 4, 0};
  static_assert(sizeof kBits == size_t(ElementType::kCount));
  return type < ElementType::kCount ? kBits[size_t(type)] : 0;
}

// Returns the bytes that `elements` elements take. Ternary ones must be at most 2^32 - 5; open() bounds elements to
// 2^31 - 1. (A 64-bit division would cost 770 bytes of code.)
NACRE_SHARED constexpr uint64_t storage_bytes(ElementType type, uint64_t elements) {
  if (type == ElementType::kTernary) return (uint32_t(elements) + 4) / 5;
  return (elements * element_bits(type) + 7) / 8;
}

// Says in which order the elements are stored (engine/base/layout.h). In a kernel's types kAny stands for every
// layout; no tensor has it.
enum class Layout : uint8_t { kRowMajor = 0, kAny = 255 };

// The memory that a tensor lives in, by how long it holds its value. All but weights lie in blocks of the caller
// (Block, run/program.h).
enum class Region : uint8_t {
  kWeights = 0,  // constants in the model file, or in an attached segment; nothing writes them
  kState = 1,    // what training learns: only `update` writes it, and checkpoints save it
  kStream = 2,   // from run to run, until Program::start
  kDerived = 3,  // computed by `derive` from weights and state; never saved
  kStep = 4,     // sums of one training step, until the commit
  kArena = 5,    // one run of one program: inputs, outputs and all between
  kCount
};

// Bits of TensorRecord::flags.
enum TensorFlags : uint16_t {
  kBatched = 1,    // axis 0 is the batch: run(rows) lowers it
  kTrainable = 2,  // a parameter in state that gets a gradient
  kInput = 4,      // written by the caller
  kOutput = 8,     // read by the caller after run
};

// A number of bytes, or an offset, which a file states in 64 bits. A 32-bit machine computes with the low word alone.
// open() has refused numbers over kMaxFileBytes, so the sum of two does not overflow.
struct alignas(8) LowWord {
  uint32_t low, high;

  LowWord() = default;
  constexpr LowWord(uint64_t value) : low(uint32_t(value)), high(uint32_t(value >> 32)) {}
  constexpr operator uint32_t() const { return low; }
};
using FileBytes = std::conditional_t<sizeof(size_t) == 4, LowWord, uint64_t>;

struct TensorRecord {              // schema/FORMAT.md, "tensors"
  FileBytes offset;                // counts from the start of the region, bank or segment, or of the alias's target
  FileBytes bytes;                 // of all stored elements, for the compiled batch
  int32_t dims[kMaxRank];          // elements of each axis; 0 beyond the rank
  uint32_t first_step, last_step;  // arena: the steps of its program between which it holds its value
  uint32_t alias_of;               // tensor id or kNoIndex
  uint32_t quantizer;              // index or kNoIndex; the quantizer says what the codes mean
  uint32_t initial;                // state: tensor id in weights, or kNoIndex for zeros
  ElementType element;
  uint8_t rank;
  Region region;
  uint8_t bank;         // arena: bank; weights: segment
  uint16_t flags;       // TensorFlags
  Layout layout;        // order of the stored elements
  uint8_t reserved[5];  // 0
};
static_assert(sizeof(TensorRecord) == 80);

// A view of the record's dims, which must outlive it. If the tensor is batched, axis 0 is replaced by the rows of this
// run.
struct Shape {
  int rank = 0;                   // number of axes
  const int32_t* dims = nullptr;  // `rank` sizes, in elements
  int32_t rows = 0;               // size of axis 0 in this run; 0: that of dims[0]

  // Returns the elements of an axis, 0 <= axis < rank.
  NACRE_SHARED constexpr int operator[](int axis) const { return axis == 0 && rows > 0 ? rows : dims[axis]; }
  NACRE_SHARED constexpr int last() const { return (*this)[rank - 1]; }  // the rank is at least 1
  // Returns prod_{first <= i < end} dims[i]. It fits an int, because open() bounds the elements of every tensor to
  // 2^31 - 1.
  NACRE_SHARED constexpr int product(int first, int end) const {
    int product = 1;
    for (int i = first; i < end; ++i) product *= (*this)[i];
    return product;
  }
  NACRE_SHARED constexpr int elements() const { return product(0, rank); }  // 1 for rank 0
};

// Dims as a value, which a shape rule computes.
struct Dims {
  int rank = 0;
  int32_t size[kMaxRank] = {};

  NACRE_SHARED constexpr void push(int32_t dim) { size[rank++] = dim; }  // adds an axis; at most kMaxRank
};

// An operand of a bound step: its bytes and its record. Neither is owned.
struct Tensor {
  void* data;                  // a step may write it only if the operand's role says so; weights are constant
  const TensorRecord* record;  // null for an optional operand that is absent
};

}  // namespace nacre
