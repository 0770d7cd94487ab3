#include "engine/base/status.h"

#include <array>
#include <span>

namespace nacre {

#if NACRE_SENTENCES

namespace {

// The sentences are in the order of Code. The static_assert below checks their number; a test reads every pair.
constexpr const char* kSentences[] = {
    "nothing is wrong",
    "no bytes were given",
    "fewer bytes than a header",
    "more bytes than the caller's limit",
    "the base address must be a multiple of 16",
    "not a Nacre model: the first four bytes must be NACR",
    "the byte order mark differs: the file or this machine is big-endian",
    "file version of another library; convert the model again with this one",
    "the model needs a feature that this library does not have",
    "the file is shorter than its header says: it was cut off",
    "bytes follow the end that the header states",
    "header and FlatBuffer must fit into the file, the FlatBuffer at byte 64",
    "CRC-32C of header and FlatBuffer differs: the file is damaged",
    "a FlatBuffers offset, vector or string lies outside the buffer",
    "a required field is missing",
    "more records than this build or caller allows",
    "a string is longer than the caller's limit",
    "a reserved field must be 0",
    "a segment must lie inside the file, after the one before it",
    "a segment must start at a multiple of 64",
    "CRC-32C of a segment differs: the weights are damaged",
    "a weight is NaN",
    "a requantization multiplier must be 0 or lie in [2^30, 2^31), its shift in [-31, 30]",

    "unknown element type",
    "unknown region, or a region where this record must not be",
    "rank over 8",
    "a dimension must lie in [1, 2^28], and be 0 beyond the rank",
    "elements or bytes overflow: at most 2^31 - 1 elements",
    "bytes must equal the product of the dims times the element size",
    "offset + bytes must lie inside the region",
    "the offset must be a multiple of the element size",
    "records must be sorted as FORMAT.md says",
    "two tensors that live at the same time share bytes",
    "first step <= last step < steps of the program must hold",
    "an alias must name an earlier tensor of the same region that is no alias",
    "an alias must lie inside its target",
    "unknown bank or segment",
    "unknown quantizer",
    "the quantizer must be of the tensor's element type",
    "the initial value must be in weights and have as many bytes",
    "flags do not fit the region",

    "a scale must be a positive, normal, finite number",
    "scales must be one, or one per channel",
    "the zero point must be one of the codes",
    "the axis must be inside the rank",

    "unknown kind of program, or two of one kind for one target",
    "steps of a program must follow those of the program before it",
    "arena tensors of a program must follow those of the program before it",
    "attributes lie outside the table of words",
    "operands lie outside the table of operands",
    "unknown layer",
    "unknown place",
    "a guard must be one uint32 that the program can see",
    "unknown op",
    "an operand names a tensor that does not exist or belongs to another program",
    "the role of an operand is not allowed for its region in this kind of program",
    "a tensor is read before a step has written it",
    "a tensor is written twice, or an input is written",
    "a step uses a tensor outside its first and last step",
    "an input or output must be an arena tensor of the program that lives from the first, or to the last, step",
    "a tensor is two inputs",
    "no step writes this output",
    "axis 0 of a batched tensor must be the program's batch, at least 1",
    "unknown element type, quantization or rule in a policy",
    "a golden pair must name a program and have the bytes of its inputs and outputs",
    "more multiply-accumulates than the caller's limit",
    "unknown rounding",

    "no linked kernel takes this op with these types; link the kernel or convert for this target",
    "wrong number of operands for the op",
    "operand types do not fit together",
    "a rank does not fit the op",
    "the shapes of the inputs do not fit together",
    "the weights do not fit the input",
    "the bias must have one value per output channel",
    "scales must be one, or one per output channel",
    "the declared shape of an output differs from the computed one",
    "groups must divide the input and output channels",
    "stride, dilation and kernel must lie in [1, 16384]",
    "padding must not be negative and must be less than the kernel reaches",
    "the window does not fit into the padded input",
    "an axis must be inside the rank and given once",
    "not a permutation of the axes",
    "the number of elements must not change",
    "the lower bound must not exceed the upper one",
    "an attribute is outside its range",
    "a zero point must be one of the codes",
    "a sum of so many terms could overflow an int32 accumulator",
    "an output overlaps an operand, and the kernel cannot work in place",
    "the batch cannot be lowered for this tensor",
    "an operand that the op needs is absent",

    "a block of memory is smaller than needed",
    "a block of memory must start at a multiple of 16",
    "a block of memory overlaps another one, or the bytes of the model",

    "the model has no such program",
    "open and bind must succeed first; after attach or another open, bind again",
    "rows must lie in [1, compiled batch]",
    "a range of steps must lie inside the program",
    "an index in the data is out of range",

    "not a training program: update reads the learning rate, a float32 [1], last and gives apply, amax and report "
    "first",
    "nothing was accumulated since the last commit",
    "the learning rate must be finite and not negative",
    "this model was compiled with --update immediate: each commit takes exactly one micro-batch",

    "program and erase sizes must be powers of two, program at most 256 and at most erase",
    "what is to be saved does not fit into half of the storage",
    "the storage could not read, program or erase",
    "what was programmed reads back differently: it was not saved, what was saved before stays",
    "nothing was saved in this storage",
    "neither slot holds a whole checkpoint: save again, or start from the model's own values",
    "the checkpoint is of another model: no parameter has the name, type and size of one of this model's",
    "an earlier confirm was cut off, and its mark cannot be programmed again: save the checkpoint again",

    "no port with memory of its own is there, or the port lacks a function or asks for an alignment or tail that no "
    "port may have",
    "the port could not begin, finish, copy or fill",

    "a tensor that cannot be stored in this layout",

    "a pointer is NULL, or the size of a struct is not set",
    "nothing has this name or index",
};
static_assert(std::size(kSentences) == size_t(Code::kCodeCount));

constexpr size_t characters_of(std::span<const char* const> sentences) {
  size_t characters = sentences.size();
  for (const char* at : sentences)
    for (; *at != 0; ++at) ++characters;
  return characters;
}
// The sentences stand one after the other, each with its terminating 0. Pointers to them would add half a kilobyte to
// an image.
constexpr auto kText = [] {
  std::array<char, characters_of(kSentences)> text = {};
  char* to = text.data();
  for (const char* at : kSentences) {
    for (; *at != 0; ++at) *to++ = *at;
    ++to;
  }
  return text;
}();

constexpr const char* kTables[] = {"",          "file",     "header",     "segment", "root",    "tensor",
                                   "quantizer", "step",     "program",    "layer",   "binding", "memory",
                                   "golden",    "metadata", "checkpoint", "port"};
static_assert(std::size(kTables) == size_t(Table::kPort) + 1);

}  // namespace

const char* sentence(Code code) {
  if (code >= Code::kCodeCount) return "";
  const char* at = kText.data();
  for (unsigned left = unsigned(code); left > 0; ++at)
    if (*at == 0) --left;
  return at;
}
const char* table_name(Table table) { return table <= Table::kPort ? kTables[size_t(table)] : ""; }

#else

const char* sentence(Code) { return ""; }
const char* table_name(Table) { return ""; }

#endif

}  // namespace nacre
