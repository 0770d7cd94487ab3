#include <cstring>

#include "engine/model/flatbuffer.h"
#include "tests/model/facts.h"

namespace nacre::test {
namespace {

using schema::Model;
using SchemaProgram = schema::Program;

const Model* root_of(Buffer& file) { return schema::GetModel(file.data() + sizeof(FileHeader)); }

// Returns the address of a present field's inline value: a scalar, a struct, or the offset of a vector or string.
std::byte* field_of(const void* table, uint16_t slot) {
  const std::span<std::byte> entry = vtable_entry(table, slot);
  uint16_t offset = 0;
  std::memcpy(&offset, entry.data(), 2);
  return const_cast<std::byte*>(static_cast<const std::byte*>(table)) + offset;
}

// Not inlined: otherwise the compiler compares the write with the size of the generated accessor class, and warns.
template <class T>
[[gnu::noinline]] void store(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
}
template <class T>
T load(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Wraps a mutation of the file: corrects length and CRC after it.
auto repaired(std::function<void(Buffer&)> mutate) {
  return [mutate](Buffer& file) {
    mutate(file);
    repair(file.bytes());
  };
}

// Removes the field from its table.
template <class F>
auto without(F table, uint16_t slot) {
  return repaired([=](Buffer& file) { store<uint16_t>(vtable_entry(table(file), slot).data(), 0); });
}

void the_bytes(Facts& f) {
  const auto view = [&](int number, const char* text, auto mutate, Refusal expected) {
    f.draft(number, text, dense_int8, {}, expected);
    f.last().view = mutate;
  };
  using Bytes = std::span<const std::byte>;
  view(1, "no bytes: null pointer", [](Bytes) { return Bytes(); }, {Code::kNull, Table::kFile});
  view(1, "no bytes: size 0", [](Bytes b) { return b.first(0); }, {Code::kNull, Table::kFile});
  view(2, "one byte", [](Bytes b) { return b.first(1); }, {Code::kTooSmall, Table::kFile});
  view(2, "one byte less than a header", [](Bytes b) { return b.first(63); }, {Code::kTooSmall, Table::kFile});
  view(3, "larger than the caller's limit", [](Bytes b) { return b; }, {Code::kTooLarge, Table::kFile});
  f.last().limits.file_bytes = 1024;
  view(7, "cut: header only", [](Bytes b) { return b.first(64); }, {Code::kLengthOver, Table::kHeader});
  view(7, "cut: last byte missing", [](Bytes b) { return b.first(b.size() - 1); }, {Code::kLengthOver, Table::kHeader});
  for (const size_t by : {1, 4, 8}) {
    static const char* const kTexts[] = {"base address off by 1", "base address off by 4", "base address off by 8"};
    view(4, kTexts[by / 4],
         [by](Bytes b) {
           static Buffer shifted;
           shifted = Buffer(b.size() + by);
           std::memcpy(shifted.data() + by, b.data(), b.size());
           return Bytes(shifted.bytes()).subspan(by);
         },
         {Code::kBaseAlignment, Table::kFile});
  }
}

void the_header(Facts& f) {
  const auto header = [&](int number, const char* text, void (*edit)(FileHeader&), Refusal expected) {
    f.draft(number, text, dense_int8, [edit](Draft& d) { d.edit_header = edit; }, expected);
  };
  header(5, "wrong magic", [](FileHeader& h) { h.magic[3] = 'Q'; }, {Code::kMagic, Table::kHeader});
  header(6, "a newer file version", [](FileHeader& h) { ++h.version; }, {Code::kVersion, Table::kHeader});
  header(6, "file version 0", [](FileHeader& h) { h.version = 0; }, {Code::kVersion, Table::kHeader});
  header(6, "an unknown required feature", [](FileHeader& h) { h.features = 1u << 31; },
         {Code::kFeature, Table::kHeader, 1u << 31});
  header(48, "big-endian byte order mark", [](FileHeader& h) { h.byte_order = 0x0201; },
         {Code::kByteOrder, Table::kHeader});
  header(7, "length over the bytes", [](FileHeader& h) { ++h.total_bytes; }, {Code::kLengthOver, Table::kHeader});
  header(7, "length near 2^64", [](FileHeader& h) { h.total_bytes = ~uint64_t{0}; },
         {Code::kLengthOver, Table::kHeader});
  header(8, "length under the bytes", [](FileHeader& h) { --h.total_bytes; }, {Code::kLengthUnder, Table::kHeader});
  header(10, "FlatBuffer not at byte 64", [](FileHeader& h) { h.flatbuffer_offset = 128; },
         {Code::kHeaderSize, Table::kHeader});
  header(10, "FlatBuffer longer than the file", [](FileHeader& h) { h.flatbuffer_bytes = 1u << 20; },
         {Code::kHeaderSize, Table::kHeader});
  header(3, "FlatBuffer of 2^31 bytes or more", [](FileHeader& h) { h.flatbuffer_bytes = 1u << 31; },
         {Code::kHeaderSize, Table::kHeader});
  header(10, "FlatBuffer too short for a root", [](FileHeader& h) { h.flatbuffer_bytes = 4; },
         {Code::kHeaderSize, Table::kHeader});
  header(0, "reserved bytes of the header", [](FileHeader& h) { h.reserved[15] = 1; },
         {Code::kReserved, Table::kHeader});
  f.draft(8, "64 bytes behind the last segment, counted in the length", dense_int8,
          [](Draft& d) { d.trailing_bytes = 64; }, {Code::kLengthUnder, Table::kSegment, 1});
  f.file(9, "CRC of the header", dense_int8, [](Buffer& b) { header_of(b.bytes()).crc ^= 1; },
         {Code::kCrc, Table::kHeader});
  f.file(9, "a bit of the FlatBuffer, CRC as it was", dense_int8, [](Buffer& b) { b.data()[200] ^= std::byte{4}; },
         {Code::kCrc, Table::kHeader});
  f.file(9, "a bit of the model hash, CRC as it was", dense_int8, [](Buffer& b) { b.data()[32] ^= std::byte{1}; },
         {Code::kCrc, Table::kHeader});
  f.file(9, "a byte of the weights, segment CRC as it was", dense_int8,
         [](Buffer& b) { b.data()[b.size() - 30] ^= std::byte{1}; },
         {Code::kSegmentCrc, Table::kSegment, 0, Stage::kWeights});
}

void the_flatbuffer(Facts& f) {
  const auto bytes = [&](int number, const char* text, std::function<void(Buffer&)> mutate,
                         Code code = Code::kFlatBuffer) {
    f.file(number, text, dense_int8, repaired(std::move(mutate)), {code, Table::kRoot});
  };
  bytes(10, "root offset beyond the buffer", [](Buffer& b) { store<uint32_t>(b.data() + 64, 1u << 24); });
  bytes(10, "root offset odd", [](Buffer& b) { store<uint32_t>(b.data() + 64, load<uint32_t>(b.data() + 64) + 1); });
  bytes(10, "root offset near 2^32", [](Buffer& b) { store<uint32_t>(b.data() + 64, 0xFFFFFFF0); });
  bytes(10, "vtable before the buffer", [](Buffer& b) { store<int32_t>(const_cast<Model*>(root_of(b)), 1 << 24); });
  bytes(10, "vtable behind the buffer", [](Buffer& b) { store<int32_t>(const_cast<Model*>(root_of(b)), -(1 << 24)); });
  bytes(10, "vtable longer than the buffer",
        [](Buffer& b) { store<uint16_t>(vtable_entry(root_of(b), 0).data(), 0xFFFE); });
  bytes(10, "vtable of odd length", [](Buffer& b) {
    std::byte* at = vtable_entry(root_of(b), 0).data();
    store<uint16_t>(at, uint16_t(load<uint16_t>(at) + 1));
  });
  bytes(10, "field beyond its table",
        [](Buffer& b) { store<uint16_t>(vtable_entry(root_of(b), Model::VT_TENSORS).data(), 0x7FFC); });
  bytes(10, "vector offset beyond the buffer",
        [](Buffer& b) { store<uint32_t>(field_of(root_of(b), Model::VT_TENSORS), 1u << 20); });
  bytes(10, "vector offset of 2^31",
        [](Buffer& b) { store<uint32_t>(field_of(root_of(b), Model::VT_STEPS), 1u << 31); });
  bytes(10, "vector offset misaligned", [](Buffer& b) {
    std::byte* at = field_of(root_of(b), Model::VT_WORDS);
    store<uint32_t>(at, load<uint32_t>(at) + 2);
  });
  bytes(10, "vector of 64-bit records at 4 bytes", [](Buffer& b) {
    std::byte* at = field_of(root_of(b), Model::VT_TENSORS);
    store<uint32_t>(at + load<uint32_t>(at) + 4, 1);  // the word there becomes a length of 1
    store<uint32_t>(at, load<uint32_t>(at) + 4);
  });
  bytes(10, "vector longer than the buffer", [](Buffer& b) {
    std::byte* at = field_of(root_of(b), Model::VT_TENSORS);
    store<uint32_t>(at + load<uint32_t>(at), 1000);
  });
  bytes(10, "vector whose bytes wrap 2^32", [](Buffer& b) {
    std::byte* at = field_of(root_of(b), Model::VT_TENSORS);
    store<uint32_t>(at + load<uint32_t>(at),
                    (1u << 28) + 9);  // times 80 wraps to more than the buffer; times 16 would fit
  });
  bytes(10, "table offset of a program beyond the buffer", [](Buffer& b) {
    std::byte* at = field_of(root_of(b), Model::VT_PROGRAMS);
    store<uint32_t>(at + load<uint32_t>(at) + 4, 0x00FFFFF0);
  });
  bytes(10, "string offset beyond the buffer", [](Buffer& b) {
    std::byte* at = field_of(root_of(b), Model::VT_TENSOR_NAMES);
    store<uint32_t>(at + load<uint32_t>(at) + 4, 0x00FFFFF0);
  });
  bytes(10, "string offset that leads to itself", [](Buffer& b) {
    std::byte* at = field_of(root_of(b), Model::VT_TENSOR_NAMES);
    store<uint32_t>(at + load<uint32_t>(at) + 4 + 4 * 8, 0);
  });
  bytes(10, "string longer than the buffer", [](Buffer& b) {
    store<uint32_t>(const_cast<flatbuffers::String*>(root_of(b)->tensor_names()->Get(0)), 0x7FFFFFFF);
  });
  bytes(10, "policy struct reaches beyond its table", [](Buffer& b) {
    store<uint16_t>(vtable_entry(root_of(b)->layers()->Get(0), schema::Layer::VT_POLICY).data(), 16);
  });
  bytes(
      45, "string without its end",
      [](Buffer& b) {
        const flatbuffers::String* name = root_of(b)->tensor_names()->Get(0);
        store<char>(const_cast<char*>(name->c_str()) + name->size(), 'x');
      },
      Code::kString);
  f.draft(12, "one table shared 200 times", dense_int8, [](Draft& d) { d.program_copies = 200; },
          {Code::kCount, Table::kRoot});

  const auto root = [](Buffer& b) { return root_of(b); };
  static const char* const kRootTexts[] = {"no tensors",  "no quantizers", "no steps",    "no words",
                                           "no operands", "no segments",   "no programs", "no layers"};
  for (uint16_t i = 0; i < 8; ++i)
    f.file(13, kRootTexts[i], dense_int8, without(root, uint16_t(Model::VT_TENSORS + 2 * i)),
           {Code::kMissingField, Table::kRoot, i});
  const auto program = [](Buffer& b) { return root_of(b)->programs()->Get(0); };
  const auto layer = [](Buffer& b) { return root_of(b)->layers()->Get(0); };
  const auto pair = [](Buffer& b) { return root_of(b)->metadata()->Get(0); };
  const auto golden = [](Buffer& b) { return root_of(b)->golden()->Get(0); };
  const auto missing = [&](const char* text, auto table, uint16_t slot, Table where) {
    f.file(13, text, dense_int8, without(table, slot), {Code::kMissingField, where, 0});
  };
  missing("program without target", program, SchemaProgram::VT_TARGET, Table::kProgram);
  missing("program without banks", program, SchemaProgram::VT_BANKS, Table::kProgram);
  missing("program without inputs", program, SchemaProgram::VT_INPUTS, Table::kProgram);
  missing("program without outputs", program, SchemaProgram::VT_OUTPUTS, Table::kProgram);
  missing("layer without name", layer, schema::Layer::VT_NAME, Table::kLayer);
  missing("layer without policy", layer, schema::Layer::VT_POLICY, Table::kLayer);
  missing("metadata without key", pair, schema::KeyValue::VT_KEY, Table::kMetadata);
  missing("metadata without value", pair, schema::KeyValue::VT_VALUE, Table::kMetadata);
  missing("golden pair without inputs", golden, schema::Golden::VT_INPUTS, Table::kGolden);
  missing("golden pair without outputs", golden, schema::Golden::VT_OUTPUTS, Table::kGolden);
  f.draft(13, "no program at all", dense_int8, [](Draft& d) { d.programs.clear(); },
          {Code::kMissingField, Table::kProgram});
}

void the_counts(Facts& f) {
  const auto count = [&](const char* text, std::function<void(Draft&)> mutate, Table table,
                         uint32_t index = 0) -> Fact& {
    f.draft(14, text, dense_int8, std::move(mutate), {Code::kCount, table, index});
    return f.last();
  };
  count("more tensors than the caller allows", {}, Table::kTensor).limits.tensors = 8;
  count("more steps than the caller allows", {}, Table::kStep).limits.steps = 1;
  count(
      "more quantizers than the caller allows", [](Draft& d) { d.quantizers.resize(40, d.quantizers[0]); },
      Table::kQuantizer)
      .limits.tensors = 16;
  count("5 segments", [](Draft& d) { d.segments.resize(5); }, Table::kSegment);
  count("65 programs", [](Draft& d) { d.program_copies = 65; }, Table::kProgram);
  count("65,537 layers", [](Draft& d) { d.layer_copies = 65537; }, Table::kLayer);
  count("2^24 + 1 words", [](Draft& d) { d.words.resize((1u << 24) + 1); }, Table::kRoot, 3);
  count("2^24 + 1 operands", [](Draft& d) { d.operands.resize((1u << 24) + 1); }, Table::kRoot, 4);
  count("4,097 golden pairs", [](Draft& d) { d.golden.resize(4097, d.golden[0]); }, Table::kGolden);
  count("fewer names than tensors", [](Draft& d) { d.tensor_names.pop_back(); }, Table::kRoot, 12);
  count("more names than inputs", [](Draft& d) { d.programs[0].input_names.push_back("x1"); }, Table::kProgram);
  count("more layouts than outputs", [](Draft& d) { d.programs[0].output_layouts.push_back("nhwc"); }, Table::kProgram);
  count("more names than banks", [](Draft& d) { d.programs[0].bank_names.push_back("sram"); }, Table::kProgram);
  count("more outputs than tensors", [](Draft& d) { d.programs[0].outputs.resize(10, 8); }, Table::kProgram);
}

void the_strings(Facts& f) {
  const auto string = [&](const char* text, void (*mutate)(Draft&), Table table, uint32_t index = 0) {
    f.draft(45, text, dense_int8, mutate, {Code::kString, table, index});
    f.last().limits.string_bytes = 64;
  };
  string("tensor name longer than allowed", [](Draft& d) { d.tensor_names[3].assign(65, 'n'); }, Table::kTensor, 3);
  string("layer name longer than allowed", [](Draft& d) { d.layers[1].name.assign(65, 'n'); }, Table::kLayer, 1);
  string("source op longer than allowed", [](Draft& d) { d.layers[1].source_op.assign(65, 'n'); }, Table::kLayer, 1);
  string("target longer than allowed", [](Draft& d) { d.programs[0].target.assign(65, 'n'); }, Table::kProgram);
  string(
      "input name longer than allowed", [](Draft& d) { d.programs[0].input_names[0].assign(65, 'n'); },
      Table::kProgram);
  string(
      "bank name longer than allowed", [](Draft& d) { d.programs[0].bank_names[0].assign(65, 'n'); }, Table::kProgram);
  string(
      "metadata key longer than allowed", [](Draft& d) { d.metadata[1].first.assign(65, 'n'); }, Table::kMetadata, 1);
}

void the_segments(Facts& f) {
  const auto segment = [&](int number, const char* text, std::function<void(std::vector<SegmentRecord>&)> edit,
                           Code code, uint32_t index = 0) {
    f.draft(number, text, dense_int8,
            [edit](Draft& d) {
              d.segments.push_back({64, std::byte{0}});
              d.edit_segments = edit;
            },
            {code, Table::kSegment, index});
  };
  using Segments = std::vector<SegmentRecord>;
  segment(26, "segment ends beyond the file", [](Segments& s) { s[1].bytes += 4096; }, Code::kSegmentBounds, 1);
  segment(26, "segment starts beyond the file", [](Segments& s) { s[1].offset += 1 << 20; }, Code::kSegmentBounds, 1);
  segment(
      26, "segment offset + bytes wraps 2^64", [](Segments& s) { s[1].offset = ~uint64_t{63}, s[1].bytes = 128; },
      Code::kSegmentBounds, 1);
  segment(29, "segment over the FlatBuffer", [](Segments& s) { s[0].offset = 64; }, Code::kSegmentBounds);
  segment(
      29, "segment over the one before it", [](Segments& s) { s[1].offset = s[0].offset; }, Code::kSegmentBounds, 1);
  segment(28, "segment not at a multiple of 64", [](Segments& s) { s[1].offset += 16; }, Code::kSegmentAlignment, 1);
  segment(0, "reserved word of a segment", [](Segments& s) { s[1].reserved = 1; }, Code::kReserved, 1);
}

}  // namespace

void file_facts(Facts& facts) {
  the_bytes(facts);
  the_header(facts);
  the_flatbuffer(facts);
  the_counts(facts);
  the_strings(facts);
  the_segments(facts);
}

}  // namespace nacre::test
