#include "tools/model/model_file.h"

#include <algorithm>
#include <cstring>

#include "engine/base/crc32c.h"
#include "model_generated.h"
#include "tools/base/error.h"
#include "tools/base/sha256.h"

namespace nacre::tools {
namespace {

using flatbuffers::Offset;

std::string in_hexadecimal(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

template <class Record, class T>
auto structs(flatbuffers::FlatBufferBuilder& b, const std::vector<T>& records) {
  static_assert(sizeof(Record) == sizeof(T));
  return b.CreateVectorOfStructs(reinterpret_cast<const Record*>(records.data()), records.size());
}

Offset<schema::Program> build_program(flatbuffers::FlatBufferBuilder& b, const ProgramSource& source,
                                      const ModelTables::ProgramRecord& p) {
  const Graph& graph = *source.graph;
  std::vector<uint64_t> banks;
  std::vector<std::string> bank_names, names[2], layouts[2];
  for (const Bank& bank : graph.banks) {
    banks.push_back(bank.used);
    bank_names.push_back(bank.name);
  }
  const std::vector<Binding>* bindings[] = {&graph.inputs, &graph.outputs};
  for (int side = 0; side < 2; ++side)
    for (const Binding& binding : *bindings[side]) {
      names[side].push_back(binding.name);
      layouts[side].push_back(binding.layout);
    }
  return schema::CreateProgram(b, uint8_t(source.entry), b.CreateString(source.target), p.first_step, p.step_count,
                               p.first_tensor, p.tensor_count, uint32_t(graph.batch),
                               structs<schema::BankRecord>(b, banks), b.CreateVectorOfStrings(bank_names),
                               b.CreateVector(p.inputs), b.CreateVector(p.outputs), b.CreateVectorOfStrings(names[0]),
                               b.CreateVectorOfStrings(names[1]), b.CreateVectorOfStrings(layouts[0]),
                               b.CreateVectorOfStrings(layouts[1]), graph.liveness_bound);
}

flatbuffers::DetachedBuffer build(const ModelTables& tables, std::span<const ProgramSource> sources,
                                  const WriteOptions& options) {
  flatbuffers::FlatBufferBuilder b;
  std::vector<Offset<schema::Program>> programs;
  for (size_t i = 0; i < sources.size(); ++i) programs.push_back(build_program(b, sources[i], tables.programs[i]));
  std::vector<Offset<schema::Layer>> layers;
  for (const Layer& layer : tables.layers) {
    schema::PolicyRecord policy;
    std::memcpy(static_cast<void*>(&policy), &layer.policy, sizeof policy);
    const auto name = b.CreateString(layer.name), op = b.CreateString(layer.source_op);
    layers.push_back(schema::CreateLayer(b, name, op, &policy));
  }
  std::vector<Offset<schema::KeyValue>> metadata;
  for (const auto& [key, value] : sources[0].graph->metadata) {
    const auto k = b.CreateString(key), v = b.CreateString(value);
    metadata.push_back(schema::CreateKeyValue(b, k, v));
  }
  std::vector<Offset<schema::Golden>> golden;
  for (const GoldenPair& pair : options.golden) {
    const auto in = b.CreateVector(pair.inputs), out = b.CreateVector(pair.outputs);
    golden.push_back(schema::CreateGolden(b, pair.program, in, out, pair.tolerance));
  }
  const std::vector<SegmentRecord> segments = {{.offset = 0, .bytes = tables.weights.size(), .crc = 0, .reserved = 0}};
  const auto tensors = structs<schema::TensorRecord>(b, tables.tensors);
  const auto quantizers = structs<schema::QuantizerRecord>(b, tables.quantizers);
  const auto steps = structs<schema::StepRecord>(b, tables.steps);
  const auto segment_vector = structs<schema::SegmentRecord>(b, segments);
  const auto words = b.CreateVector(tables.words), operands = b.CreateVector(tables.operands);
  const auto program_vector = b.CreateVector(programs);
  const auto layer_vector = b.CreateVector(layers);
  const auto names = options.names ? b.CreateVectorOfStrings(tables.names) : 0;
  const auto metadata_vector = b.CreateVector(metadata);
  const auto golden_vector = golden.empty() ? 0 : b.CreateVector(golden);
  b.Finish(schema::CreateModel(b, tensors, quantizers, steps, words, operands, segment_vector, program_vector,
                               layer_vector, tables.region_bytes[size_t(Region::kState)],
                               tables.region_bytes[size_t(Region::kStream)],
                               tables.region_bytes[size_t(Region::kDerived)],
                               tables.region_bytes[size_t(Region::kStep)], names, metadata_vector, golden_vector));
  return b.Release();
}

// Lays out header, FlatBuffer and weights, then fills in offsets, checksums and the hash, which depend on the layout.
std::vector<uint8_t> pack(const ModelTables& tables, const flatbuffers::DetachedBuffer& flatbuffer) {
  const size_t end = sizeof(FileHeader) + flatbuffer.size();
  const size_t weights = (end + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
  std::vector<uint8_t> file(weights + tables.weights.size());
  std::memcpy(file.data() + sizeof(FileHeader), flatbuffer.data(), flatbuffer.size());
  std::copy(tables.weights.begin(), tables.weights.end(), file.begin() + std::ptrdiff_t(weights));

  const schema::Model* root = schema::GetModel(file.data() + sizeof(FileHeader));
  const auto* record = reinterpret_cast<const uint8_t*>(root->segments()->Get(0));
  const SegmentRecord segment = {.offset = weights,
                                 .bytes = tables.weights.size(),
                                 .crc = crc32c(std::as_bytes(std::span(tables.weights))),
                                 .reserved = 0};
  std::memcpy(file.data() + (record - file.data()), &segment, sizeof segment);

  FileHeader header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kFileVersion;
  header.byte_order = kByteOrderMark;
  header.total_bytes = file.size();
  header.flatbuffer_offset = sizeof(FileHeader);
  header.flatbuffer_bytes = uint32_t(flatbuffer.size());
  const auto hash = sha256_digest(std::span(file).subspan(sizeof(FileHeader)));
  std::copy_n(hash.begin(), sizeof header.hash, header.hash);
  std::memcpy(file.data(), &header, sizeof header);
  const auto bytes = std::as_bytes(std::span(file));
  header.crc = crc32c(bytes.subspan(16, end - 16), crc32c(bytes.first(12)));
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

}  // namespace

std::string sha256(std::span<const uint8_t> bytes) { return in_hexadecimal(sha256_digest(bytes)); }

std::string sha256_of_elements(const ElementBytes& bytes) {
  Sha256 hash;
  each_part(bytes, 1, [&](std::span<const uint8_t> part, size_t) { hash.add(part); });
  return in_hexadecimal(hash.finish());
}

std::vector<uint8_t> model_file(const ModelTables& tables, std::span<const ProgramSource> sources,
                                const WriteOptions& options) {
  return pack(tables, build(tables, sources, options));
}

}  // namespace nacre::tools
