#include "engine/model/verify.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/base/crc32c.h"
#include "engine/model/flatbuffer.h"
#include "engine/model/structure.h"
#include "engine/model/verify_limits.h"

namespace nacre {
namespace {

// ---- The schema, as facts about slots ----

constexpr SlotRule scalar(uint8_t bytes) { return {SlotRule::kInline, bytes, bytes}; }
template <class T>
constexpr SlotRule vector_of = {SlotRule::kVector, sizeof(T), alignof(T)};
constexpr SlotRule kString = {SlotRule::kString, 1, 1}, kStrings = {SlotRule::kStrings, 4, 4},
                   kTables = {SlotRule::kTables, 4, 4};

constexpr SlotRule kModelSlots[] = {vector_of<TensorRecord>,  // tensors
                                    vector_of<QuantizerRecord>,
                                    vector_of<StepRecord>,
                                    vector_of<uint32_t>,  // words
                                    vector_of<uint32_t>,  // operands
                                    vector_of<SegmentRecord>,
                                    kTables,  // programs
                                    kTables,  // layers
                                    scalar(8),
                                    scalar(8),
                                    scalar(8),
                                    scalar(8),
                                    kStrings,  // tensor_names
                                    kTables,   // metadata
                                    kTables};  // golden
constexpr SlotRule kProgramSlots[] = {scalar(1),
                                      kString,
                                      scalar(4),
                                      scalar(4),
                                      scalar(4),
                                      scalar(4),
                                      scalar(4),
                                      vector_of<uint64_t>,  // banks
                                      kStrings,             // bank_names
                                      vector_of<uint32_t>,
                                      vector_of<uint32_t>,  // inputs, outputs
                                      kStrings,
                                      kStrings,
                                      kStrings,
                                      kStrings,  // names and layouts of inputs and outputs
                                      scalar(8)};
constexpr SlotRule kLayerSlots[] = {kString, kString, {SlotRule::kInline, sizeof(Policy), alignof(Policy)}};
constexpr SlotRule kPairSlots[] = {kString, kString};
constexpr SlotRule kGoldenSlots[] = {scalar(4), vector_of<uint8_t>, vector_of<uint8_t>, scalar(4)};

constexpr uint32_t slot_of(uint32_t vtable_offset) { return (vtable_offset - 4) / 2; }
static_assert(std::size(kModelSlots) == slot_of(schema::Model::VT_GOLDEN) + 1);
static_assert(std::size(kProgramSlots) == slot_of(schema::Program::VT_LIVENESS_BOUND) + 1);
static_assert(std::size(kLayerSlots) == slot_of(schema::Layer::VT_POLICY) + 1);
static_assert(std::size(kPairSlots) == slot_of(schema::KeyValue::VT_VALUE) + 1);
static_assert(std::size(kGoldenSlots) == slot_of(schema::Golden::VT_TOLERANCE) + 1);

// The largest value that a byte of a policy may have.
struct PolicyRule {
  uint8_t at, largest;
};
#define NACRE_ENUMERATION(field, Type) {uint8_t(offsetof(Policy, field)), uint8_t(Type::kCount) - 1}
constexpr PolicyRule kPolicyRules[] = {NACRE_ENUMERATION(variable, ElementType),
                                       NACRE_ENUMERATION(compute, ElementType),
                                       NACRE_ENUMERATION(output, ElementType),
                                       NACRE_ENUMERATION(quantization, Quantization),
                                       NACRE_ENUMERATION(update_order, UpdateOrder),
                                       NACRE_ENUMERATION(amax_rule, AmaxRule),
                                       NACRE_ENUMERATION(scale_form, ScaleForm),
                                       NACRE_ENUMERATION(loss_scale, LossScale),
                                       NACRE_ENUMERATION(rounding, Rounding),
                                       NACRE_ENUMERATION(group_range, GroupRange),
                                       NACRE_ENUMERATION(operation_rounding, OperationRounding),
                                       NACRE_ENUMERATION(weight_fit, WeightFit),
                                       {offsetof(Policy, activation_zero), 1},
                                       {offsetof(Policy, weight_bits), 8},
                                       {offsetof(Policy, activation_order), 1}};
#undef NACRE_ENUMERATION

// Limits the number of elements of each vector of the root, except where kNoCount stands. The limits are so small
// that no sum below overflows.
struct CountRule {
  Table table;         // kNone: no limit
  uint8_t log2_limit;  // the limit's exponent, or a mark for one of the caller's limits
};
constexpr uint8_t kTensorLimit = 254, kStepLimit = 255, kLastRequired = slot_of(schema::Model::VT_LAYERS);
constexpr CountRule kNoCount = {Table::kNone, 0};
constexpr CountRule kCounts[] = {{Table::kTensor, kTensorLimit},
                                 {Table::kQuantizer, kTensorLimit},
                                 {Table::kStep, kStepLimit},
                                 {Table::kRoot, 24},  // words
                                 {Table::kRoot, 24},  // operands
                                 {Table::kSegment, 2},
                                 {Table::kProgram, 6},
                                 {Table::kLayer, 16},
                                 kNoCount,
                                 kNoCount,
                                 kNoCount,
                                 kNoCount,
                                 kNoCount,  // tensor_names: as many as tensors
                                 {Table::kMetadata, 20},
                                 {Table::kGolden, 12}};
static_assert(std::size(kCounts) == std::size(kModelSlots) && 1u << 2 == Model::kMaxSegments && 1u << 16 == kMaxLayers);

Code structure(std::span<const std::byte> buffer) {
  Structure s(buffer);
  const uint32_t root = s.root();
  const bool holds = s.table(root, kModelSlots) && s.tables(root, slot_of(schema::Model::VT_PROGRAMS), kProgramSlots) &&
                     s.tables(root, slot_of(schema::Model::VT_LAYERS), kLayerSlots) &&
                     s.tables(root, slot_of(schema::Model::VT_METADATA), kPairSlots) &&
                     s.tables(root, slot_of(schema::Model::VT_GOLDEN), kGoldenSlots);
  return holds ? Code::kOk : s.why();
}

}  // namespace

Status Verifier::check(Model* model) {
  const bool holds =
      header() && flatbuffer() && segments() && strings() && programs() && quantizers() && layers() && golden();
  if (!holds) return status_;
  view_.changes_ = model->changes_;
  *model = view_;
  return {};
}

[[gnu::noinline]] bool Verifier::refuse(Code code) {
  status_.code = code;
  return false;
}

[[gnu::noinline]] bool Verifier::refuse_small(Code code, uint32_t needed, uint32_t given) {
  return refuse_large(code, needed, given);
}

[[gnu::noinline]] bool Verifier::refuse_large(Code code, uint64_t needed, uint64_t given) {
  status_.needed = needed;
  status_.given = given;
  return refuse(code);
}

bool Verifier::header() {
  at(Table::kFile);
  if (bytes_.data() == nullptr || bytes_.empty()) return refuse(Code::kNull);
  if (bytes_.size() < sizeof(FileHeader)) return refuse(Code::kTooSmall, sizeof(FileHeader), bytes_.size());
  if (bytes_.size() > limits_.file_bytes) return refuse(Code::kTooLarge, limits_.file_bytes, bytes_.size());
  if (reinterpret_cast<uintptr_t>(bytes_.data()) % kAlignment != 0) return refuse(Code::kBaseAlignment);
  at(Table::kHeader);
  const auto& h = *reinterpret_cast<const FileHeader*>(bytes_.data());
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0) return refuse(Code::kMagic);
  if (h.byte_order != kByteOrderMark) return refuse(Code::kByteOrder);
  if (h.version != kFileVersion) return refuse(Code::kVersion, kFileVersion, h.version);
  at(Table::kHeader, h.features & ~kKnownFeatures);
  if ((h.features & ~kKnownFeatures) != 0) return refuse(Code::kFeature);
  if (h.total_bytes > bytes_.size()) return refuse(Code::kLengthOver, h.total_bytes, bytes_.size());
  if (h.total_bytes < bytes_.size()) return refuse(Code::kLengthUnder, h.total_bytes, bytes_.size());
  if (h.flatbuffer_offset != sizeof(FileHeader) || h.flatbuffer_bytes < 8 || h.flatbuffer_bytes >= 1u << 31 ||
      !in_range(sizeof(FileHeader), h.flatbuffer_bytes, bytes_.size()))
    return refuse(Code::kHeaderSize);
  if (!all_zero(h.reserved, sizeof h.reserved)) return refuse(Code::kReserved);
  const size_t end = sizeof(FileHeader) + h.flatbuffer_bytes;
  const uint32_t crc = crc32c(bytes_.subspan(16, end - 16), crc32c(bytes_.first(12)));
  return crc == h.crc || refuse(Code::kCrc, h.crc, crc);
}

bool Verifier::flatbuffer() {
  const auto& h = *reinterpret_cast<const FileHeader*>(bytes_.data());
  const auto* data = reinterpret_cast<const uint8_t*>(bytes_.data()) + sizeof(FileHeader);
  const Code whole = structure(bytes_.subspan(sizeof(FileHeader), h.flatbuffer_bytes));
  at(Table::kRoot);
  if (whole != Code::kOk) return refuse(whole);
  root_ = schema::GetModel(data);
  view_.bytes_ = bytes_;
  view_.root_ = root_;
  if (!counts()) return false;
  view_.tensors_ = {reinterpret_cast<const TensorRecord*>(root_->tensors()->Data()), root_->tensors()->size()};
  view_.steps_ = {reinterpret_cast<const StepRecord*>(root_->steps()->Data()), root_->steps()->size()};
  view_.words_ = reinterpret_cast<const uint32_t*>(root_->words()->Data());
  view_.operands_ = reinterpret_cast<const uint32_t*>(root_->operands()->Data());
  return true;
}

// Checks that required vectors and a program are there, that no vector or region is too large.
bool Verifier::counts() {
  const auto& root = reinterpret_cast<const flatbuffers::Table&>(*root_);
  for (uint32_t slot = 0; slot < std::size(kCounts); ++slot) {
    const CountRule& rule = kCounts[slot];
    if (rule.table == Table::kNone) continue;
    const auto* vector = root.GetPointer<const flatbuffers::Vector<uint8_t>*>(flatbuffers::voffset_t(4 + 2 * slot));
    at(Table::kRoot, slot);
    if (vector == nullptr && slot <= kLastRequired) return refuse(Code::kMissingField);
    if (rule.table != Table::kRoot) at(rule.table);
    uint32_t limit = 1u << (rule.log2_limit & 31);
    if (rule.log2_limit == kTensorLimit) limit = limits_.tensors;
    if (rule.log2_limit == kStepLimit) limit = limits_.steps;
    if (size_of(vector) > limit) return refuse(Code::kCount, limit, vector->size());
  }
  at(Table::kProgram);
  if (root_->programs()->size() == 0) return refuse(Code::kMissingField);
  for (uint32_t region = uint32_t(Region::kState); region < uint32_t(Region::kArena); ++region) {
    at(Table::kRoot, region);
    if (view_.region_bytes(Region(region)) > kMaxFileBytes) return refuse(Code::kOverflow);
  }
  return true;
}

bool Verifier::segments() {
  const auto& h = *reinterpret_cast<const FileHeader*>(bytes_.data());
  const size_t total = bytes_.size();
  size_t end = sizeof(FileHeader) + h.flatbuffer_bytes;
  const uint32_t count = root_->segments()->size();
  const auto* segments = reinterpret_cast<const SegmentRecord*>(root_->segments()->Data());
  for (uint32_t i = 0; i < count; ++i) {
    at(Table::kSegment, i);
    const SegmentRecord& s = segments[i];
    if (s.reserved != 0) return refuse(Code::kReserved);
    if (s.offset % kSegmentAlignment != 0) return refuse(Code::kSegmentAlignment);
    if (!computable(s.offset) || !computable(s.bytes)) return refuse(Code::kOverflow);
    if (s.offset < end || !in_range(s.offset, s.bytes, total))
      return refuse(Code::kSegmentBounds, total, size_t(s.offset));
    end = s.offset + s.bytes;
  }
  // Checks that only padding follows the last segment.
  at(Table::kSegment, count);
  return total - end < kSegmentAlignment || refuse(Code::kLengthUnder, end, total);
}

bool Verifier::strings() {
  const auto* names = root_->tensor_names();
  at(Table::kRoot, slot_of(schema::Model::VT_TENSOR_NAMES));
  if (size_of(names) != 0 && names->size() != view_.tensors_.size())
    return refuse(Code::kCount, view_.tensors_.size(), names->size());
  for (uint32_t i = 0; i < size_of(names); ++i) {
    at(Table::kTensor, i);
    if (names->Get(i)->size() > limits_.string_bytes) return refuse(Code::kString);
  }
  for (uint32_t i = 0; i < size_of(root_->metadata()); ++i) {
    at(Table::kMetadata, i);
    const schema::KeyValue& pair = *root_->metadata()->Get(i);
    if (pair.key() == nullptr || pair.value() == nullptr) return refuse(Code::kMissingField);
    if (pair.key()->size() > limits_.string_bytes) return refuse(Code::kString);
  }
  return true;
}

bool Verifier::layers() {
  for (uint32_t i = 0; i < root_->layers()->size(); ++i) {
    at(Table::kLayer, i);
    const schema::Layer& layer = *root_->layers()->Get(i);
    if (layer.name() == nullptr || layer.policy() == nullptr) return refuse(Code::kMissingField);
    if (layer.name()->size() > limits_.string_bytes ||
        (layer.source_op() != nullptr && layer.source_op()->size() > limits_.string_bytes))
      return refuse(Code::kString);
    const auto& policy = *reinterpret_cast<const Policy*>(layer.policy());
    for (const ElementType type : {policy.variable, policy.compute, policy.output})
      if (type == ElementType::kNone) return refuse(Code::kPolicy);
    for (const PolicyRule& rule : kPolicyRules)
      if (reinterpret_cast<const uint8_t*>(&policy)[rule.at] > rule.largest) return refuse(Code::kPolicy);
    // A loss scale must be finite and not negative.
    if (std::bit_cast<uint32_t>(policy.loss_scale_value) >= 0x7F800000) return refuse(Code::kPolicy);
    if (!all_zero(policy.reserved, sizeof policy.reserved)) return refuse(Code::kReserved);
  }
  return true;
}

bool Verifier::golden() {
  for (uint32_t i = 0; i < size_of(root_->golden()); ++i) {
    at(Table::kGolden, i);
    const schema::Golden& pair = *root_->golden()->Get(i);
    if (pair.inputs() == nullptr || pair.outputs() == nullptr) return refuse(Code::kMissingField);
    if (pair.program() >= root_->programs()->size()) return refuse(Code::kGolden);
    const ProgramView p = view_.program(pair.program());
    const auto holds = [&](const std::span<const uint32_t>& ids, const flatbuffers::Vector<uint8_t>& bytes) {
      uint64_t sum = 0;
      for (const uint32_t id : ids) sum += view_.tensors_[id].bytes;
      return sum == bytes.size();
    };
    if (!holds(p.inputs, *pair.inputs()) || !holds(p.outputs, *pair.outputs())) return refuse(Code::kGolden);
    if (std::bit_cast<uint32_t>(pair.tolerance()) >= 0x7F800000) return refuse(Code::kGolden);
  }
  return true;
}

}  // namespace nacre
