// Status is the result of an operation that can be refused. It is a value, never an exception.
//
// A refusal names one fact: what is wrong (code) and where (table and index). If two numbers explain it, it has both:
// bytes asked for and bytes given, or a limit and a count. sentence(code) returns the sentence for people. The option
// `sentences=false` compiles the sentences and the names of the tables away, but nothing else.
//
// Example:
//   const Status status = model.open(bytes);
//   if (!status.ok()) {
//     std::printf("%s (%s %u)\n", sentence(status.code), table_name(status.table), unsigned(status.index));
//     return status;
//   }
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/isa.h"

namespace nacre {

// One code per fact. Codes are never renumbered, because they are part of the interface. New codes go last. Each
// function names the codes that it returns. A group's comment names the usual table; a function may use another one.
enum class Code : uint8_t {
  kOk = 0,

  // The bytes as a whole (Table::kFile, kHeader, kSegment).
  kNull,              // no bytes were given
  kTooSmall,          // fewer bytes than a header
  kTooLarge,          // more bytes than the caller's limit
  kBaseAlignment,     // the base address is not a multiple of 16
  kMagic,             // not a Nacre model
  kByteOrder,         // written on, or read by, a big-endian machine
  kVersion,           // another file version than this library's
  kFeature,           // needs a feature this library does not have
  kLengthOver,        // the header promises more bytes than there are
  kLengthUnder,       // bytes follow the end that the header promises
  kHeaderSize,        // header or FlatBuffer do not fit where the header says
  kCrc,               // CRC32C of header and FlatBuffer differs
  kFlatBuffer,        // a FlatBuffers offset, vtable, vector or string is out of range
  kMissingField,      // a required field is absent
  kCount,             // more records than this build or the caller allows
  kString,            // a string is longer than allowed
  kReserved,          // a reserved field or flag is not 0
  kSegmentBounds,     // a segment lies outside the file or over another
  kSegmentAlignment,  // a segment does not start at a multiple of 64
  kSegmentCrc,        // CRC32C of a segment differs
  kNotFinite,         // a weight is NaN
  kMultiplier,        // a requantization pair is outside what multiplier and shift may be

  // Tensor records (Table::kTensor; index = tensor id).
  kElementType,      // unknown element type
  kRegion,           // unknown region, or a tensor in a region where it must not be
  kRank,             // rank over 8
  kDim,              // a dimension is not positive, or over the limit, or given beyond the rank
  kOverflow,         // elements or bytes overflow
  kBytes,            // bytes differ from those of the stored elements
  kBounds,           // offset + bytes lies outside its region
  kOffsetAlignment,  // offset is not a multiple of the element size
  kOrder,            // records are not sorted as FORMAT.md says
  kOverlap,          // two records that live at the same time share bytes
  kLifetime,         // first and last step are reversed or outside the program
  kAliasTarget,      // an alias of a missing tensor or alias, or of one in another region or bank, or not row-major
  kAliasBounds,      // an alias reaches outside its target
  kBank,             // unknown bank or segment
  kQuantizer,        // unknown quantizer
  kCodes,            // the quantizer is for other codes than the tensor's type
  kInitial,          // the initial value of a parameter is missing, or of another type or size
  kFlags,            // flags contradict the region (batched weights, trainable arena, ...)

  // Quantizers (Table::kQuantizer).
  kScale,       // a scale is not a positive normal finite number
  kScaleCount,  // neither one scale nor one per channel
  kZeroPoint,   // the zero point is outside the range of the codes
  kAxis,        // the axis is outside the rank

  // Steps and programs (Table::kStep, kProgram, kLayer; index = step, program, layer).
  kEntry,            // unknown kind of program, or two of one kind for one target
  kStepRange,        // steps of a program lie outside the table of steps or over another's
  kTensorRange,      // arena records of a program lie outside the table of tensors
  kWordRange,        // attributes lie outside the table of words
  kOperandRange,     // operands lie outside the table of operands
  kLayer,            // unknown layer
  kPlace,            // unknown place
  kGuard,            // the guard is not one uint32
  kOpCode,           // unknown op
  kOperandId,        // an operand names a tensor that does not exist or that this program cannot see
  kRole,             // role contradicts region (writing weights, updating arena, ...)
  kReadBeforeWrite,  // a tensor is read before a step has written it
  kWrittenTwice,     // a tensor or a byte of one is written twice, or a step writes an input
  kNotLive,          // a step uses a tensor outside its first and last step
  kInputOutput,      // an input or output of the program is not one of its arena tensors
  kDuplicateInput,   // one tensor is two inputs
  kOutputUnwritten,  // no step writes this output
  kBatch,            // batch of 0, or batched tensors that disagree about it
  kPolicy,           // unknown element type, quantization or rule in a policy record
  kGolden,           // a golden pair names a missing program or has other sizes
  kWork,             // more multiply-accumulates than the caller's limit
  kRounding,         // unknown rounding

  // Kernels and shapes (Table::kStep; found by measure and bind, kRowsUnsupported by a run).
  kNoKernel,         // no linked kernel for this op and these types
  kOperandCount,     // wrong number of operands for the op
  kOperandType,      // operand types do not fit together
  kShapeRank,        // a rank does not fit the op
  kShapeInput,       // the shapes of the inputs do not fit together
  kShapeWeights,     // weights do not fit the input
  kShapeBias,        // bias does not fit the weights
  kShapeScale,       // scales or multipliers are neither one nor one per channel
  kShapeOutput,      // the output's declared shape differs from the computed one
  kGroups,           // groups do not divide the channels
  kStride,           // stride, dilation or kernel size is 0 or over the limit
  kPadding,          // padding is negative or not less than the kernel
  kWindow,           // the window does not fit into the padded input
  kAttributeAxis,    // an axis is outside the rank or given twice
  kPermutation,      // not a permutation
  kElements,         // a reshape or copy changes the number of elements
  kClamp,            // lower bound over upper bound, or NaN
  kAttribute,        // another attribute is outside its range
  kAttributeZero,    // a zero point is outside the range of the codes
  kAccumulator,      // so many terms that an int32 sum could overflow
  kInPlace,          // output overlaps an operand and the kernel cannot work in place
  kRowsUnsupported,  // batch lowered for a tensor that is not batched
  kOperandMissing,   // an operand that the op needs is absent

  // Memory given to bind (Table::kMemory; index = Block of run/program.h). The memory of a port has these codes too
  // (Table::kPort; index = place).
  kMemorySize,       // fewer bytes than needed: `needed`, `given`
  kMemoryAlignment,  // base address not a multiple of the required alignment: `needed`, `given` mod
  kMemoryOverlap,    // a block overlaps another one or the model's bytes

  // Use (Table::kProgram).
  kNoEntry,   // the model has no such program
  kNotBound,  // used before open, bind, start or begin succeeded, or after what undoes bind: a bind that failed, attach
              // or open (Table::kFile: the model is not opened, or ModelSlots is not writing)
  kRows,      // 0 rows or more than compiled: `needed` is the most, `given` the rows
  kRange,     // a range of steps outside the program, or more bytes than ModelSlots::begin was told
  kIndex,     // an index inside data is out of range (Table::kStep), or attach was given an unknown segment

  // Training (Table::kProgram; index = Entry).
  kTrainingProgram,     // inputs or outputs are not those of a training program
  kNothingAccumulated,  // commit without a sample
  kLearningRate,        // negative or not finite
  kOneMicroBatch,       // a second micro-batch where each commit takes one

  // Checkpoints (Table::kCheckpoint; index = slot) and ModelSlots (Table::kFile; index = slot).
  kStorageGranule,     // granule sizes that the protocol cannot use: `needed`, `given`; index 0: program, 1: erase, of
                       // confirm: the slot
  kStorageSize,        // a checkpoint does not fit into half of the storage: `needed`, `given`
  kStorageFailed,      // the storage could not read, program or erase
  kReadBack,           // what was programmed reads back differently
  kNoCheckpoint,       // nothing was ever saved there
  kCheckpointDamaged,  // neither slot holds a whole checkpoint
  kCheckpointModel,    // no parameter of the checkpoint is one of the model's
  kConfirmTorn,        // the mark of an earlier confirm was cut off

  // Ports (Table::kPort, index = place; kPortFailed of a run: Table::kStep).
  kPort,        // no port there, or one that lacks a function or asks for what no port may
  kPortFailed,  // a port could not begin, finish, copy or fill

  kLayout,  // a tensor in a layout that it may not have (Table::kTensor)

  // C's functions (nacre_c.h; index = position of the argument, from 0), and questions by name (Table::kNone).
  kArgument,  // a pointer is NULL, or a struct's `size` is less than 8
  kNoName,    // nothing has this name or index
  kCodeCount
};

// The table that a refusal is about, and the meaning of Status::index.
enum class Table : uint8_t {
  kNone,
  kFile,        // the bytes as a whole; ModelSlots: index = slot
  kHeader,      // the first 64 bytes; kFeature: index = the unknown bits
  kSegment,     // index = segment of weights
  kRoot,        // index = field of the FlatBuffer's root
  kTensor,      // index = tensor id, a position in Model::tensors()
  kQuantizer,   // index = quantizer
  kStep,        // index = position in Model::steps(), whatever the program
  kProgram,     // index = program, or Entry, or 0
  kLayer,       // index = layer
  kBinding,     // index = input or output of a program
  kMemory,      // index = Block (run/program.h)
  kGolden,      // index = golden pair
  kMetadata,    // index = entry of the metadata
  kCheckpoint,  // index = slot
  kPort,        // index = place
};

// The result of a call: success, or one refusal.
struct [[nodiscard]] Status {
  Code code = Code::kOk;
  Table table = Table::kNone;
  uint32_t index = 0;   // index of the record in its table
  uint64_t needed = 0;  // set if two numbers explain the refusal, else 0
  uint64_t given = 0;

  NACRE_SHARED constexpr bool ok() const { return code == Code::kOk; }
};

// Returns one sentence: what is wrong and what was expected. The text is static and ends with a 0. Returns "" if
// sentences are compiled away, or for a number that is no code.
const char* sentence(Code code);
// Returns the name of a table, such as "tensor", as sentence() does; "" for kNone.
const char* table_name(Table table);

// Returns from the caller with the refusal, if there is one. The caller's result is Status, or is made from it.
#define NACRE_TRY(expression)                                                        \
  do {                                                                               \
    if (const ::nacre::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

}  // namespace nacre
