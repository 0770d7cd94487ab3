#include "tests/model/builder.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "engine/base/crc32c.h"
#include "engine/model/flatbuffer.h"

namespace nacre::test {
namespace {

constexpr std::align_val_t kBufferAlignment{64};

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Casts the engine's records to the generated struct with the same bytes (asserted in engine/model/model.cc).
template <class S, class T>
const S* as(const std::vector<T>& records) {
  static_assert(sizeof(S) == sizeof(T));
  return reinterpret_cast<const S*>(records.data());
}

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
template <class T>
using Vector = Offset<flatbuffers::Vector<T>>;

Vector<Offset<flatbuffers::String>> pack(FlatBufferBuilder& b, const Strings& strings) {
  return strings.empty() ? 0 : b.CreateVectorOfStrings(strings);
}

Offset<schema::Program> pack(FlatBufferBuilder& b, const ProgramDraft& p) {
  const auto target = b.CreateString(p.target);
  const auto banks = b.CreateVectorOfStructs(as<schema::BankRecord>(p.banks), p.banks.size());
  const auto bank_names = pack(b, p.bank_names);
  const auto inputs = b.CreateVector(p.inputs), outputs = b.CreateVector(p.outputs);
  const auto input_names = pack(b, p.input_names), output_names = pack(b, p.output_names);
  const auto input_layouts = pack(b, p.input_layouts), output_layouts = pack(b, p.output_layouts);
  return schema::CreateProgram(b, p.entry, target, p.first_step, p.step_count, p.first_tensor, p.tensor_count, p.batch,
                               banks, bank_names, inputs, outputs, input_names, output_names, input_layouts,
                               output_layouts);
}

Offset<schema::Layer> pack(FlatBufferBuilder& b, const LayerDraft& layer) {
  const auto name = b.CreateString(layer.name), source = b.CreateString(layer.source_op);
  schema::PolicyRecord policy;
  std::memcpy(static_cast<void*>(&policy), &layer.policy, sizeof policy);
  return schema::CreateLayer(b, name, source, &policy);
}

// Returns the FlatBuffer with these segment records.
std::vector<std::byte> flatbuffer(const Draft& draft, const std::vector<SegmentRecord>& segments) {
  FlatBufferBuilder b(4096);
  std::vector<Offset<schema::Program>> programs;
  for (const ProgramDraft& p : draft.programs) programs.push_back(pack(b, p));
  std::vector<Offset<schema::Layer>> layers;
  for (const LayerDraft& layer : draft.layers) layers.push_back(pack(b, layer));
  for (size_t i = 1; i < draft.program_copies; ++i) programs.push_back(programs[0]);
  for (size_t i = 1; i < draft.layer_copies; ++i) layers.push_back(layers[0]);
  std::vector<Offset<schema::KeyValue>> metadata;
  for (const auto& [key, value] : draft.metadata) {
    const auto k = b.CreateString(key), v = b.CreateString(value);
    metadata.push_back(schema::CreateKeyValue(b, k, v));
  }
  std::vector<Offset<schema::Golden>> golden;
  for (const GoldenDraft& pair : draft.golden) {
    const auto inputs = b.CreateVector(pair.inputs), outputs = b.CreateVector(pair.outputs);
    golden.push_back(schema::CreateGolden(b, pair.program, inputs, outputs, pair.tolerance));
  }
  const auto tensors = b.CreateVectorOfStructs(as<schema::TensorRecord>(draft.tensors), draft.tensors.size());
  const auto quantizers =
      b.CreateVectorOfStructs(as<schema::QuantizerRecord>(draft.quantizers), draft.quantizers.size());
  const auto steps = b.CreateVectorOfStructs(as<schema::StepRecord>(draft.steps), draft.steps.size());
  const auto words = b.CreateVector(draft.words), operands = b.CreateVector(draft.operands);
  const auto records = b.CreateVectorOfStructs(as<schema::SegmentRecord>(segments), segments.size());
  const auto program_tables = b.CreateVector(programs);
  const auto layer_tables = b.CreateVector(layers);
  const auto tensor_names = pack(b, draft.tensor_names);
  const auto metadata_tables = metadata.empty() ? 0 : b.CreateVector(metadata);
  const auto golden_tables = golden.empty() ? 0 : b.CreateVector(golden);
  b.Finish(schema::CreateModel(b, tensors, quantizers, steps, words, operands, records, program_tables, layer_tables,
                               draft.region_bytes[0], draft.region_bytes[1], draft.region_bytes[2],
                               draft.region_bytes[3], tensor_names, metadata_tables, golden_tables));
  const auto bytes = std::as_bytes(std::span(b.GetBufferPointer(), b.GetSize()));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

Buffer::Buffer(size_t size, std::byte fill) : data_(new(kBufferAlignment) std::byte[size]), size_(size) {
  std::fill_n(data_, size, fill);
}
Buffer::Buffer(std::span<const std::byte> bytes) : Buffer(bytes.size()) {
  std::copy(bytes.begin(), bytes.end(), data_);
}
Buffer& Buffer::operator=(Buffer other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}
Buffer::~Buffer() { ::operator delete[](data_, kBufferAlignment); }

// ---- Draft ----

uint32_t Draft::quantizer(float scale, int32_t zero, ElementType codes) {
  quantizers.push_back({scale, zero, kNoIndex, kNoIndex, codes, 0, ScaleForm::kStep, 0});
  return uint32_t(quantizers.size() - 1);
}

uint32_t Draft::add(TensorRecord record, const std::vector<int32_t>& dims) {
  uint64_t elements = 1;
  record.rank = uint8_t(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) elements *= uint64_t(record.dims[i] = dims[i]);
  if (record.layout != Layout::kRowMajor) elements = stored_elements(record.layout, {record.rank, record.dims, 0});
  record.bytes = storage_bytes(record.element, elements);
  tensors.push_back(record);
  return uint32_t(tensors.size() - 1);
}

uint32_t Draft::weights(ElementType type, std::vector<int32_t> dims, std::span<const std::byte> values,
                        uint32_t quantizer) {
  if (segments.empty()) segments.emplace_back();
  std::vector<std::byte>& data = segments.back();
  data.resize(round_up(data.size(), kAlignment));
  TensorRecord record = {};
  record.offset = data.size();
  record.alias_of = record.initial = kNoIndex;
  record.quantizer = quantizer;
  record.element = type;
  record.region = Region::kWeights;
  record.bank = uint8_t(segments.size() - 1);
  data.insert(data.end(), values.begin(), values.end());
  return add(record, dims);
}

uint32_t Draft::global(Region region, ElementType type, std::vector<int32_t> dims, uint16_t flags, Layout layout) {
  uint64_t& bytes = region_bytes[size_t(region) - size_t(Region::kState)];
  TensorRecord record = {};
  record.offset = bytes;
  record.alias_of = record.initial = record.quantizer = kNoIndex;
  record.element = type;
  record.region = region;
  record.flags = flags;
  record.layout = layout;
  const uint32_t id = add(record, dims);
  bytes = round_up(bytes + tensors[id].bytes, kAlignment);
  return id;
}

uint32_t Draft::arena(ElementType type, std::vector<int32_t> dims, uint32_t first, uint32_t last, uint64_t offset,
                      uint32_t quantizer, uint16_t flags, uint8_t bank) {
  TensorRecord record = {};
  record.offset = offset;
  record.first_step = first;
  record.last_step = last;
  record.alias_of = record.initial = kNoIndex;
  record.quantizer = quantizer;
  record.element = type;
  record.region = Region::kArena;
  record.bank = bank;
  record.flags = flags;
  return add(record, dims);
}

uint32_t Draft::alias(uint32_t of, std::vector<int32_t> dims, uint32_t first, uint32_t last, uint64_t offset) {
  TensorRecord record = tensors[of];
  record.offset = offset;
  record.first_step = first;
  record.last_step = last;
  record.alias_of = of;
  record.flags = record.flags & kBatched;
  std::fill_n(record.dims, kMaxRank, 0);
  return add(record, dims);
}

uint32_t Draft::step(Op op, std::vector<uint32_t> step_words, std::vector<uint32_t> in, std::vector<uint32_t> out,
                     Rounding rounding) {
  StepRecord record = {};
  record.op = op;
  record.word_count = uint8_t(step_words.size());
  record.operand_count = uint8_t(in.size() + out.size());
  record.first_word = uint32_t(words.size());
  record.first_operand = uint32_t(operands.size());
  record.layer = layers.empty() ? kNoIndex : uint32_t(layers.size() - 1);
  record.guard = kNoIndex;
  record.rounding = rounding;
  words.insert(words.end(), step_words.begin(), step_words.end());
  operands.insert(operands.end(), in.begin(), in.end());
  for (const uint32_t id : out) operands.push_back(id | uint32_t(Role::kOut) << 30);
  steps.push_back(record);
  return uint32_t(steps.size() - 1);
}

uint32_t update(uint32_t id) { return id | uint32_t(Role::kUpdate) << 30; }

uint32_t Draft::first_arena() const {
  if (!programs.empty()) return programs.back().first_tensor + programs.back().tensor_count;
  const auto arena =
      std::find_if(tensors.begin(), tensors.end(), [](const auto& r) { return r.region == Region::kArena; });
  return uint32_t(arena - tensors.begin());
}

void Draft::program(Entry entry, const std::string& target, std::vector<uint64_t> banks, uint32_t batch) {
  ProgramDraft p;
  p.entry = uint8_t(entry);
  p.target = target;
  p.first_step = programs.empty() ? 0 : programs.back().first_step + programs.back().step_count;
  p.step_count = uint32_t(steps.size()) - p.first_step;
  p.first_tensor = first_arena();
  p.tensor_count = uint32_t(tensors.size()) - p.first_tensor;
  p.batch = batch;
  p.banks = std::move(banks);
  for (size_t i = 0; i < p.banks.size(); ++i) p.bank_names.push_back("bank" + std::to_string(i));
  for (uint32_t id = p.first_tensor; id < tensors.size(); ++id) {
    const auto name = [&](const char* kind, size_t i) { return kind + std::to_string(i); };
    if ((tensors[id].flags & kInput) != 0) {
      p.input_names.push_back(name("x", p.inputs.size()));
      p.input_layouts.push_back("nhwc");
      p.inputs.push_back(id);
    }
    if ((tensors[id].flags & kOutput) != 0) {
      p.output_names.push_back(name("y", p.outputs.size()));
      p.output_layouts.push_back("nhwc");
      p.outputs.push_back(id);
    }
  }
  programs.push_back(p);
}

void Draft::layer(const std::string& name, const std::string& source_op, const Policy& policy) {
  layers.push_back({name, source_op, policy});
}

// ---- Bytes ----

Buffer pack(const Draft& draft) {
  std::vector<SegmentRecord> segments(draft.segments.size());
  const size_t flatbuffer_bytes =
      flatbuffer(draft, segments).size();  // the same for every value of a fixed-size record
  uint64_t end = sizeof(FileHeader) + flatbuffer_bytes;
  for (size_t i = 0; i < segments.size(); ++i) {
    const auto& data = draft.segments[i];
    segments[i] = {round_up(end, kSegmentAlignment), data.size(), crc32c(data), 0};
    end = segments[i].offset + data.size();
  }
  Buffer file(end + draft.trailing_bytes);
  for (size_t i = 0; i < segments.size(); ++i)
    std::copy(draft.segments[i].begin(), draft.segments[i].end(), file.data() + segments[i].offset);
  if (draft.edit_segments) draft.edit_segments(segments);
  const std::vector<std::byte> buffer = flatbuffer(draft, segments);
  std::copy(buffer.begin(), buffer.end(), file.data() + sizeof(FileHeader));

  FileHeader header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kFileVersion;
  header.byte_order = kByteOrderMark;
  header.flatbuffer_offset = sizeof(FileHeader);
  header.flatbuffer_bytes = uint32_t(flatbuffer_bytes);
  std::memcpy(file.data(), &header, sizeof header);
  repair(file.bytes());
  if (!draft.edit_header) return file;
  draft.edit_header(header_of(file.bytes()));
  const uint64_t total = header_of(file.bytes()).total_bytes;
  repair(file.bytes());
  if (total == file.size()) return file;
  header_of(file.bytes()).total_bytes = total;  // the edited length stays: only the CRC is corrected
  const std::span<const std::byte> bytes = file.bytes();
  header_of(file.bytes()).crc =
      crc32c(bytes.subspan(16, sizeof(FileHeader) + flatbuffer_bytes - 16), crc32c(bytes.first(12)));
  return file;
}

FileHeader& header_of(std::span<std::byte> file) { return *reinterpret_cast<FileHeader*>(file.data()); }

void repair(std::span<std::byte> file) {
  if (file.size() < sizeof(FileHeader)) return;
  FileHeader& header = header_of(file);
  header.total_bytes = file.size();
  const uint64_t end = sizeof(FileHeader) + uint64_t{header.flatbuffer_bytes};
  const std::span<const std::byte> bytes = file;
  if (end <= file.size()) header.crc = crc32c(bytes.subspan(16, size_t(end) - 16), crc32c(bytes.first(12)));
}

std::span<std::byte> vtable_entry(const void* table, uint16_t slot) {
  auto* at = const_cast<std::byte*>(static_cast<const std::byte*>(table));  // a table of the writable file
  int32_t back = 0;
  std::memcpy(&back, at, sizeof back);
  return {at - back + slot, 2};
}

}  // namespace nacre::test
