#include "engine/model/verify.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/base/crc32c.h"
#include "engine/model/flatbuffer.h"
#include "engine/model/structure.h"

namespace nacre {
namespace {

// Enough for any op and any network that has been seen, small enough that no sum below overflows.
constexpr uint32_t kMaxPrograms = 64, kMaxWords = 1u << 24, kMaxOperands = 1u << 24;
constexpr uint32_t kMaxStrings = 1u << 20, kMaxGolden = 1u << 12;
constexpr int32_t kMaxDim = 1 << 28;
constexpr uint64_t kMaxRegionBytes = uint64_t{1} << 48;  // of a region or bank: the sum of all is far from 2^64

constexpr uint8_t bit(Region region) { return uint8_t(1u << unsigned(region)); }

// Where a program of each kind may write. "infer and gradients never write state; only update does."
constexpr uint8_t kOutRegions[] = {bit(Region::kArena), bit(Region::kArena), bit(Region::kArena),
                                   uint8_t(bit(Region::kArena) | bit(Region::kDerived))};
constexpr uint8_t kUpdateRegions[] = {bit(Region::kStream), uint8_t(bit(Region::kStream) | bit(Region::kStep) | bit(Region::kArena)),
                                      uint8_t(bit(Region::kState) | bit(Region::kStep) | bit(Region::kArena)), 0};
static_assert(std::size(kOutRegions) == size_t(Entry::kCount) && std::size(kUpdateRegions) == size_t(Entry::kCount));

template <class V>
uint32_t size_of(const V* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// first + count <= limit, without overflow.
constexpr bool in_range(uint64_t first, uint64_t count, uint64_t limit) { return count <= limit && first <= limit - count; }

bool all_zero(const void* data, size_t bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < bytes; ++i)
    if (p[i] != 0) return false;
  return true;
}

// ---- The schema, as facts about slots ----

constexpr SlotRule scalar(uint8_t bytes) { return {SlotRule::kInline, bytes, bytes}; }
template <class T>
constexpr SlotRule vector_of = {SlotRule::kVector, sizeof(T), alignof(T)};
constexpr SlotRule kString = {SlotRule::kString, 1, 1}, kStrings = {SlotRule::kStrings, 4, 4}, kTables = {SlotRule::kTables, 4, 4};

constexpr SlotRule kModelSlots[] = {vector_of<TensorRecord>,  // tensors
                                    vector_of<QuantizerRecord>,
                                    vector_of<StepRecord>,
                                    vector_of<uint32_t>,  // words
                                    vector_of<uint32_t>,  // operands
                                    vector_of<SegmentRecord>,
                                    kTables,  // programs
                                    kTables,  // layers
                                    scalar(8), scalar(8), scalar(8), scalar(8),
                                    kStrings,  // tensor_names
                                    kTables,   // metadata
                                    kTables};  // golden
constexpr SlotRule kProgramSlots[] = {scalar(1), kString, scalar(4), scalar(4), scalar(4), scalar(4), scalar(4),
                                      vector_of<uint64_t>,                         // banks
                                      kStrings,                                    // bank_names
                                      vector_of<uint32_t>, vector_of<uint32_t>,    // inputs, outputs
                                      kStrings, kStrings, kStrings, kStrings,      // their names and layouts
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

Code structure(std::span<const std::byte> buffer) {
  Structure s(buffer);
  const uint32_t root = s.root();
  const bool holds = s.table(root, kModelSlots) && s.tables(root, slot_of(schema::Model::VT_PROGRAMS), kProgramSlots) &&
                     s.tables(root, slot_of(schema::Model::VT_LAYERS), kLayerSlots) &&
                     s.tables(root, slot_of(schema::Model::VT_METADATA), kPairSlots) &&
                     s.tables(root, slot_of(schema::Model::VT_GOLDEN), kGoldenSlots);
  return holds ? Code::kOk : s.why();
}

constexpr bool overlaps(const TensorRecord& a, const TensorRecord& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

}  // namespace

Status Verifier::check(Model* model) {
  const bool holds = header() && flatbuffer() && counts() && segments() && strings() && programs() && quantizers() &&
                     layers() && golden();
  view_.changes_ = model->changes_;
  if (holds) *model = view_;
  return status_;
}

[[gnu::noinline]] bool Verifier::refuse(Code code, Table table, uint32_t index) {
  status_ = {code, table, index};
  return false;
}

[[gnu::noinline]] bool Verifier::refuse(Code code, Table table, uint32_t index, uint64_t needed, uint64_t given) {
  status_ = {code, table, index, needed, given};
  return false;
}

bool Verifier::header() {
  if (bytes_.data() == nullptr || bytes_.empty()) return refuse(Code::kNull, Table::kFile);
  if (bytes_.size() < sizeof(FileHeader)) return refuse(Code::kTooSmall, Table::kFile, 0, sizeof(FileHeader), bytes_.size());
  if (bytes_.size() > limits_.file_bytes) return refuse(Code::kTooLarge, Table::kFile, 0, limits_.file_bytes, bytes_.size());
  if (reinterpret_cast<uintptr_t>(bytes_.data()) % kAlignment != 0) return refuse(Code::kBaseAlignment, Table::kFile);
  const auto& h = *reinterpret_cast<const FileHeader*>(bytes_.data());
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0) return refuse(Code::kMagic, Table::kHeader);
  if (h.byte_order != kByteOrderMark) return refuse(Code::kByteOrder, Table::kHeader);
  if (h.version != kFileVersion) return refuse(Code::kVersion, Table::kHeader, 0, kFileVersion, h.version);
  if ((h.features & ~kKnownFeatures) != 0) return refuse(Code::kFeature, Table::kHeader, h.features & ~kKnownFeatures);
  if (h.total_bytes > bytes_.size()) return refuse(Code::kLengthOver, Table::kHeader, 0, h.total_bytes, bytes_.size());
  if (h.total_bytes < bytes_.size()) return refuse(Code::kLengthUnder, Table::kHeader, 0, h.total_bytes, bytes_.size());
  if (h.flatbuffer_offset != sizeof(FileHeader) || h.flatbuffer_bytes < 8 || h.flatbuffer_bytes >= 1u << 31 ||
      !in_range(sizeof(FileHeader), h.flatbuffer_bytes, h.total_bytes))
    return refuse(Code::kHeaderSize, Table::kHeader);
  if (!all_zero(h.reserved, sizeof h.reserved)) return refuse(Code::kReserved, Table::kHeader);
  const size_t end = sizeof(FileHeader) + h.flatbuffer_bytes;
  const uint32_t crc = crc32c(bytes_.subspan(16, end - 16), crc32c(bytes_.first(12)));
  return crc == h.crc || refuse(Code::kCrc, Table::kHeader, 0, h.crc, crc);
}

bool Verifier::flatbuffer() {
  const auto& h = *reinterpret_cast<const FileHeader*>(bytes_.data());
  const auto* data = reinterpret_cast<const uint8_t*>(bytes_.data()) + sizeof(FileHeader);
  const Code whole = structure(bytes_.subspan(sizeof(FileHeader), h.flatbuffer_bytes));
  if (whole != Code::kOk) return refuse(whole, Table::kRoot);
  root_ = schema::GetModel(data);

  const void* required[] = {root_->tensors(),  root_->quantizers(), root_->steps(),    root_->words(),
                            root_->operands(), root_->segments(),   root_->programs(), root_->layers()};
  for (uint32_t i = 0; i < std::size(required); ++i)
    if (required[i] == nullptr) return refuse(Code::kMissingField, Table::kRoot, i);

  view_.bytes_ = bytes_;
  view_.root_ = root_;
  view_.tensors_ = {reinterpret_cast<const TensorRecord*>(root_->tensors()->Data()), root_->tensors()->size()};
  view_.steps_ = {reinterpret_cast<const StepRecord*>(root_->steps()->Data()), root_->steps()->size()};
  view_.words_ = reinterpret_cast<const uint32_t*>(root_->words()->Data());
  view_.operands_ = reinterpret_cast<const uint32_t*>(root_->operands()->Data());
  return true;
}

bool Verifier::counts() {
  const struct {
    uint32_t count, limit;
    Table table;
    uint32_t index = 0;  // of the field, where the table is the root
  } rows[] = {{root_->tensors()->size(), limits_.tensors, Table::kTensor},
              {root_->steps()->size(), limits_.steps, Table::kStep},
              {root_->quantizers()->size(), limits_.tensors, Table::kQuantizer},
              {root_->segments()->size(), Model::kMaxSegments, Table::kSegment},
              {root_->programs()->size(), kMaxPrograms, Table::kProgram},
              {root_->layers()->size(), kMaxLayers, Table::kLayer},
              {root_->words()->size(), kMaxWords, Table::kRoot, slot_of(schema::Model::VT_WORDS)},
              {root_->operands()->size(), kMaxOperands, Table::kRoot, slot_of(schema::Model::VT_OPERANDS)},
              {size_of(root_->metadata()), kMaxStrings, Table::kMetadata},
              {size_of(root_->golden()), kMaxGolden, Table::kGolden}};
  for (const auto& row : rows)
    if (row.count > row.limit) return refuse(Code::kCount, row.table, row.index, row.limit, row.count);
  if (root_->programs()->size() == 0) return refuse(Code::kMissingField, Table::kProgram);
  for (uint32_t region = uint32_t(Region::kState); region < uint32_t(Region::kArena); ++region)
    if (view_.region_bytes(Region(region)) > kMaxRegionBytes) return refuse(Code::kOverflow, Table::kRoot, region);
  return true;
}

bool Verifier::segments() {
  const auto& h = *reinterpret_cast<const FileHeader*>(bytes_.data());
  uint64_t end = sizeof(FileHeader) + h.flatbuffer_bytes;
  for (uint32_t i = 0; i < root_->segments()->size(); ++i) {
    const schema::SegmentRecord& s = *root_->segments()->Get(i);
    if (s.reserved() != 0) return refuse(Code::kReserved, Table::kSegment, i);
    if (s.offset() % kSegmentAlignment != 0) return refuse(Code::kSegmentAlignment, Table::kSegment, i);
    if (s.offset() < end || !in_range(s.offset(), s.bytes(), h.total_bytes))
      return refuse(Code::kSegmentBounds, Table::kSegment, i, h.total_bytes, s.offset());
    end = s.offset() + s.bytes();
  }
  // Nothing hides behind the last segment but padding.
  return h.total_bytes - end < kSegmentAlignment || refuse(Code::kLengthUnder, Table::kSegment, root_->segments()->size(), end, h.total_bytes);
}

bool Verifier::strings() {
  const auto* names = root_->tensor_names();
  if (size_of(names) != 0 && names->size() != root_->tensors()->size())
    return refuse(Code::kCount, Table::kRoot, slot_of(schema::Model::VT_TENSOR_NAMES), root_->tensors()->size(), names->size());
  for (uint32_t i = 0; i < size_of(names); ++i)
    if (names->Get(i)->size() > limits_.string_bytes) return refuse(Code::kString, Table::kTensor, i);
  for (uint32_t i = 0; i < size_of(root_->metadata()); ++i) {
    const schema::KeyValue& pair = *root_->metadata()->Get(i);
    if (pair.key() == nullptr || pair.value() == nullptr) return refuse(Code::kMissingField, Table::kMetadata, i);
    if (pair.key()->size() > limits_.string_bytes) return refuse(Code::kString, Table::kMetadata, i);
  }
  return true;
}

// ---- Tensors ----

bool Verifier::tensor_size(uint32_t id) {
  const TensorRecord& r = view_.tensors_[id];
  uint64_t elements = 1;
  for (int i = 0; i < kMaxRank; ++i) {
    if (i >= r.rank) {
      if (r.dims[i] != 0) return refuse(Code::kDim, Table::kTensor, id);
      continue;
    }
    if (r.dims[i] <= 0 || r.dims[i] > kMaxDim) return refuse(Code::kDim, Table::kTensor, id);
    elements *= uint64_t(r.dims[i]);
    if (elements > INT32_MAX) return refuse(Code::kOverflow, Table::kTensor, id);
  }
  const uint64_t bytes = storage_bytes(r.element, elements);
  return r.bytes == bytes || refuse(Code::kBytes, Table::kTensor, id, bytes, r.bytes);
}

bool Verifier::tensor(uint32_t id) {
  const TensorRecord& r = view_.tensors_[id];
  if (r.element == ElementType::kNone || r.element >= ElementType::kCount) return refuse(Code::kElementType, Table::kTensor, id);
  if (r.region >= Region::kCount) return refuse(Code::kRegion, Table::kTensor, id);
  if (r.rank > kMaxRank) return refuse(Code::kRank, Table::kTensor, id);
  if (!tensor_size(id)) return false;
  if (!all_zero(r.reserved, sizeof r.reserved)) return refuse(Code::kReserved, Table::kTensor, id);
  const bool arena = r.region == Region::kArena;
  uint16_t allowed = arena ? uint16_t(kBatched | kInput | kOutput) : 0;
  if (r.region == Region::kStream) allowed = kBatched;
  if (r.region == Region::kState) allowed = kTrainable;
  if ((r.flags & ~allowed) != 0 || ((r.flags & kBatched) != 0 && r.rank == 0)) return refuse(Code::kFlags, Table::kTensor, id);
  if (!arena && (r.first_step != 0 || r.last_step != 0)) return refuse(Code::kLifetime, Table::kTensor, id);
  if (r.initial != kNoIndex) {
    if (r.region != Region::kState || r.initial >= id) return refuse(Code::kInitial, Table::kTensor, id);
    const TensorRecord& initial = view_.tensors_[r.initial];
    if (initial.region != Region::kWeights || initial.element != r.element || initial.bytes != r.bytes)
      return refuse(Code::kInitial, Table::kTensor, id);
  }
  return r.alias_of == kNoIndex ? place(id) : alias(id);
}

// Offset and bytes of a tensor that is no alias, in its region. Arena records are checked by plan().
bool Verifier::place(uint32_t id) {
  const TensorRecord& r = view_.tensors_[id];
  const uint32_t unit = element_bits(r.element) / 8;
  if (unit > 1 && (r.offset & (unit - 1)) != 0) return refuse(Code::kOffsetAlignment, Table::kTensor, id);
  if (r.region == Region::kArena) return true;
  if (r.region == Region::kWeights) {
    if (r.bank >= root_->segments()->size()) return refuse(Code::kBank, Table::kTensor, id);
  } else if (r.bank != 0) {
    return refuse(Code::kBank, Table::kTensor, id);
  }
  const uint64_t limit =
      r.region == Region::kWeights ? root_->segments()->Get(r.bank)->bytes() : view_.region_bytes(r.region);
  return in_range(r.offset, r.bytes, limit) || refuse(Code::kBounds, Table::kTensor, id, limit, r.offset);
}

bool Verifier::alias(uint32_t id) {
  const TensorRecord& r = view_.tensors_[id];
  if (r.alias_of >= id) return refuse(Code::kAliasTarget, Table::kTensor, id);
  const TensorRecord& target = view_.tensors_[r.alias_of];
  if (target.alias_of != kNoIndex || target.region != r.region || target.bank != r.bank)
    return refuse(Code::kAliasTarget, Table::kTensor, id);
  if (!in_range(r.offset, r.bytes, target.bytes)) return refuse(Code::kAliasBounds, Table::kTensor, id, target.bytes, r.offset);
  const uint32_t unit = element_bits(r.element) / 8;
  if (unit > 1 && ((target.offset + r.offset) & (unit - 1)) != 0) return refuse(Code::kOffsetAlignment, Table::kTensor, id);
  return true;
}

// Records before the first program's: sorted by region, bank, offset, without overlap; aliases anywhere after their target.
bool Verifier::globals(uint32_t end) {
  const TensorRecord* before = nullptr;
  for (uint32_t id = 0; id < end; ++id) {
    if (!tensor(id)) return false;
    const TensorRecord& r = view_.tensors_[id];
    if (r.region == Region::kArena) return refuse(Code::kRegion, Table::kTensor, id);
    if (r.alias_of != kNoIndex) continue;
    if (before != nullptr) {
      const bool same = before->region == r.region && before->bank == r.bank;
      const bool sorted = before->region < r.region || (before->region == r.region && before->bank < r.bank) ||
                          (same && before->offset <= r.offset);
      if (!sorted) return refuse(Code::kOrder, Table::kTensor, id);
      if (same && before->offset + before->bytes > r.offset) return refuse(Code::kOverlap, Table::kTensor, id);
    }
    before = &r;
  }
  return true;
}

bool Verifier::quantizers() {
  for (uint32_t i = 0; i < root_->quantizers()->size(); ++i) {
    const auto& q = *reinterpret_cast<const QuantizerRecord*>(root_->quantizers()->Get(i));
    if (q.reserved != 0) return refuse(Code::kReserved, Table::kQuantizer, i);
    if (q.codes == ElementType::kNone || q.codes >= ElementType::kCount || q.form >= ScaleForm::kCount)
      return refuse(Code::kElementType, Table::kQuantizer, i);
    if (q.scales == kNoIndex) {
      if (!is_scale(std::bit_cast<uint32_t>(q.scale))) return refuse(Code::kScale, Table::kQuantizer, i);
    } else if (q.scales >= view_.tensors_.size()) {
      return refuse(Code::kOperandId, Table::kQuantizer, i);
    } else if (view_.tensors_[q.scales].element != ElementType::kFloat32 || view_.tensors_[q.scales].rank != 1) {
      return refuse(Code::kScaleCount, Table::kQuantizer, i);
    }
    if (q.zeros != kNoIndex && q.zeros >= view_.tensors_.size()) return refuse(Code::kOperandId, Table::kQuantizer, i);
    if (q.zeros != kNoIndex && (q.scales == kNoIndex ||
                                view_.tensors_[q.zeros].element != ElementType::kInt32 || view_.tensors_[q.zeros].rank != 1 ||
                                view_.tensors_[q.zeros].dims[0] != view_.tensors_[q.scales].dims[0]))
      return refuse(Code::kScaleCount, Table::kQuantizer, i);
    if (!is_zero_point(q.codes, q.zero)) return refuse(Code::kZeroPoint, Table::kQuantizer, i);
  }
  for (uint32_t id = 0; id < view_.tensors_.size(); ++id) {
    const TensorRecord& r = view_.tensors_[id];
    if (r.quantizer == kNoIndex) continue;
    if (r.quantizer >= root_->quantizers()->size()) return refuse(Code::kQuantizer, Table::kTensor, id);
    const auto& q = *reinterpret_cast<const QuantizerRecord*>(root_->quantizers()->Get(r.quantizer));
    if (q.codes != r.element) return refuse(Code::kCodes, Table::kTensor, id);
    if (q.scales == kNoIndex) continue;
    if (q.axis >= r.rank) return refuse(Code::kAxis, Table::kTensor, id);
    if (view_.tensors_[q.scales].dims[0] != r.dims[q.axis]) return refuse(Code::kScaleCount, Table::kTensor, id);
  }
  return true;
}

// ---- Programs ----

bool Verifier::programs() {
  const auto& programs = *root_->programs();
  // Programs tile the steps and the arena records in order, so nothing belongs to two and nothing to none.
  uint32_t tensor = programs.Get(0)->first_tensor(), step = 0;
  if (tensor > view_.tensors_.size()) return refuse(Code::kTensorRange, Table::kProgram, 0);
  if (!globals(tensor)) return false;
  for (uint32_t i = 0; i < programs.size(); ++i) {
    if (!program(i, tensor, step)) return false;
    tensor += programs.Get(i)->tensor_count();
    step += programs.Get(i)->step_count();
  }
  if (tensor != view_.tensors_.size()) return refuse(Code::kTensorRange, Table::kProgram, programs.size());
  if (step != view_.steps_.size()) return refuse(Code::kStepRange, Table::kProgram, programs.size());
  return true;
}

bool Verifier::program(uint32_t index, uint32_t first_tensor, uint32_t first_step) {
  const schema::Program& record = *root_->programs()->Get(index);
  if (record.entry() >= uint8_t(Entry::kCount)) return refuse(Code::kEntry, Table::kProgram, index);
  const void* required[] = {record.target(), record.banks(), record.inputs(), record.outputs()};
  for (const void* field : required)
    if (field == nullptr) return refuse(Code::kMissingField, Table::kProgram, index);
  if (record.target()->size() > limits_.string_bytes) return refuse(Code::kString, Table::kProgram, index);
  for (uint32_t other = 0; other < index; ++other) {
    const schema::Program& o = *root_->programs()->Get(other);
    if (o.entry() == record.entry() && o.target()->size() == record.target()->size() &&
        std::memcmp(o.target()->Data(), record.target()->Data(), o.target()->size()) == 0)
      return refuse(Code::kEntry, Table::kProgram, index);
  }
  const uint32_t banks = record.banks()->size();
  if (banks == 0 || banks > uint32_t(kMaxBanks)) return refuse(Code::kBank, Table::kProgram, index);
  for (uint32_t i = 0; i < banks; ++i)
    if (record.banks()->Get(i)->bytes() > kMaxRegionBytes) return refuse(Code::kOverflow, Table::kProgram, index, kMaxRegionBytes, i);
  if (record.batch() == 0 || record.batch() > uint32_t(kMaxDim)) return refuse(Code::kBatch, Table::kProgram, index);

  const ProgramView p = view_.program(index);
  if (p.first_tensor != first_tensor || !in_range(p.first_tensor, p.tensor_count, view_.tensors_.size()))
    return refuse(Code::kTensorRange, Table::kProgram, index);
  if (p.first_step != first_step || p.step_count == 0 || !in_range(p.first_step, p.step_count, view_.steps_.size()))
    return refuse(Code::kStepRange, Table::kProgram, index);
  if (p.inputs.size() > p.tensor_count || p.outputs.size() > p.tensor_count)
    return refuse(Code::kCount, Table::kProgram, index, p.tensor_count, std::max(p.inputs.size(), p.outputs.size()));
  if (!plan(p)) return false;
  if (!bindings(p, index)) return false;
  for (uint32_t i = 0; i < p.step_count; ++i) if (!step(p, p.first_step + i)) return false;
  for (uint32_t i = 0; i < p.step_count; ++i) if (!uses(p, p.first_step + i)) return false;
  for (uint32_t i = 0; i < p.tensor_count; ++i) if (!written(p, p.first_tensor + i)) return false;
  return true;
}

// Arena records: sorted by first step, aliases last; inside their bank; no two that live at one time share bytes, except that
// an output may take exactly the bytes of an operand that its step reads last (bind asks the kernel). An input takes none: it
// is there before the first step.
bool Verifier::plan(const ProgramView& p) {
  bool aliases = false;
  for (uint32_t i = 0; i < p.tensor_count; ++i) {
    const uint32_t id = p.first_tensor + i;
    const TensorRecord& r = view_.tensors_[id];
    if (!tensor(id)) return false;
    if (r.region != Region::kArena) return refuse(Code::kRegion, Table::kTensor, id);
    if (r.first_step > r.last_step || r.last_step >= p.step_count) return refuse(Code::kLifetime, Table::kTensor, id);
    if ((r.flags & kBatched) != 0 && uint32_t(r.dims[0]) != p.batch) return refuse(Code::kBatch, Table::kTensor, id);
    if (r.bank >= p.banks.size()) return refuse(Code::kBank, Table::kTensor, id);
    if (r.alias_of != kNoIndex) {
      aliases = true;
      if (r.alias_of < p.first_tensor) return refuse(Code::kAliasTarget, Table::kTensor, id);  // of another program
      const TensorRecord& target = view_.tensors_[r.alias_of];
      if (r.first_step < target.first_step || r.last_step > target.last_step) return refuse(Code::kLifetime, Table::kTensor, id);
      continue;
    }
    if (!in_range(r.offset, r.bytes, p.banks[r.bank])) return refuse(Code::kBounds, Table::kTensor, id, p.banks[r.bank], r.offset);
    if (aliases || (i > 0 && view_.tensors_[id - 1].first_step > r.first_step)) return refuse(Code::kOrder, Table::kTensor, id);
    for (uint32_t j = p.first_tensor; j < id; ++j) {
      const TensorRecord& other = view_.tensors_[j];
      if (other.last_step < r.first_step || other.bank != r.bank || !overlaps(other, r)) continue;
      const bool handed_over = (r.flags & kInput) == 0 && other.last_step == r.first_step && other.offset == r.offset &&
                               other.bytes == r.bytes;
      if (!handed_over) return refuse(Code::kOverlap, Table::kTensor, id);
    }
  }
  return true;
}

bool Verifier::bindings(const ProgramView& p, uint32_t index) {
  const auto mine = [&](uint32_t id) { return id >= p.first_tensor && id - p.first_tensor < p.tensor_count; };
  for (uint32_t i = 0; i < p.inputs.size(); ++i) {
    const uint32_t id = p.inputs[i];
    if (!mine(id) || (view_.tensors_[id].flags & kInput) == 0 || view_.tensors_[id].alias_of != kNoIndex ||
        view_.tensors_[id].first_step != 0)
      return refuse(Code::kInputOutput, Table::kBinding, i);
    for (uint32_t j = 0; j < i; ++j)
      if (p.inputs[j] == id) return refuse(Code::kDuplicateInput, Table::kBinding, i);
  }
  // Nobody writes what is marked as an input and is none.
  uint32_t marked = 0;
  for (uint32_t i = 0; i < p.tensor_count; ++i) marked += (view_.tensors_[p.first_tensor + i].flags & kInput) != 0;
  if (marked != p.inputs.size()) return refuse(Code::kInputOutput, Table::kProgram, index, p.inputs.size(), marked);
  for (uint32_t i = 0; i < p.outputs.size(); ++i) {
    const uint32_t id = p.outputs[i];
    if (!mine(id) || (view_.tensors_[id].flags & kOutput) == 0 || view_.tensors_[id].last_step != p.step_count - 1)
      return refuse(Code::kInputOutput, Table::kBinding, i);
    // The last step hands over no bytes of an output.
    const uint32_t root = view_.tensors_[id].alias_of == kNoIndex ? id : view_.tensors_[id].alias_of;
    for (uint32_t j = root + 1; j < p.first_tensor + p.tensor_count; ++j) {
      const TensorRecord& other = view_.tensors_[j];
      if (other.alias_of == kNoIndex && other.bank == view_.tensors_[root].bank && other.first_step == p.step_count - 1 &&
          overlaps(other, view_.tensors_[root]))
        return refuse(Code::kOverlap, Table::kTensor, j);
    }
  }
  const schema::Program& record = *root_->programs()->Get(index);
  const struct {
    const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* names;
    size_t count;
  } rows[] = {{record.input_names(), p.inputs.size()},     {record.output_names(), p.outputs.size()},
              {record.input_layouts(), p.inputs.size()},   {record.output_layouts(), p.outputs.size()},
              {record.bank_names(), p.banks.size()}};
  for (const auto& row : rows) {
    if (size_of(row.names) != 0 && row.names->size() != row.count)
      return refuse(Code::kCount, Table::kProgram, index, row.count, row.names->size());
    for (uint32_t i = 0; i < size_of(row.names); ++i)
      if (row.names->Get(i)->size() > limits_.string_bytes) return refuse(Code::kString, Table::kProgram, index);
  }
  return true;
}

bool Verifier::step(const ProgramView& p, uint32_t index) {
  const StepRecord& s = view_.steps_[index];
  if (s.op == Op::kNone) return refuse(Code::kOpCode, Table::kStep, index);
  if (s.rounding >= Rounding::kCount) return refuse(Code::kRounding, Table::kStep, index);
  if (s.flags != 0 || !all_zero(s.reserved, sizeof s.reserved))
    return refuse(Code::kReserved, Table::kStep, index);
  if (s.place >= kMaxBanks) return refuse(Code::kPlace, Table::kStep, index);
  if (!in_range(s.first_word, s.word_count, root_->words()->size())) return refuse(Code::kWordRange, Table::kStep, index);
  if (!in_range(s.first_operand, s.operand_count, root_->operands()->size())) return refuse(Code::kOperandRange, Table::kStep, index);
  if (s.layer != kNoIndex && s.layer >= root_->layers()->size()) return refuse(Code::kLayer, Table::kStep, index);
  if (s.guard != kNoIndex) {
    if (!sees(p, s.guard)) return refuse(Code::kOperandId, Table::kStep, index, s.operand_count, s.guard);
    const TensorRecord& g = view_.tensors_[s.guard];
    if (g.element != ElementType::kUint32 || g.bytes != 4) return refuse(Code::kGuard, Table::kStep, index);
  }
  for (uint32_t i = 0; i < s.operand_count; ++i) if (!operand(p, index, i)) return false;
  return true;
}

// Whether a tensor exists and is global or this program's. Records of later programs are not even checked yet.
bool Verifier::sees(const ProgramView& p, uint32_t id) const {
  return id < root_->programs()->Get(0)->first_tensor() || (id >= p.first_tensor && id - p.first_tensor < p.tensor_count);
}

// An input of a program, or a part of one.
bool Verifier::is_input(uint32_t id) const {
  const TensorRecord& r = view_.tensors_[id];
  return ((r.alias_of == kNoIndex ? r : view_.tensors_[r.alias_of]).flags & kInput) != 0;
}

bool Verifier::operand(const ProgramView& p, uint32_t index, uint32_t position) {
  const StepRecord& s = view_.steps_[index];
  const uint32_t* operands = view_.operands_ + s.first_operand;
  const uint32_t id = operands[position] & kOperandIdMask;
  const auto role = Role(operands[position] >> 30);
  if (role > Role::kUpdate) return refuse(Code::kRole, Table::kStep, index);
  if (id == kNoOperand) return role == Role::kIn || refuse(Code::kOperandMissing, Table::kStep, index, position, id);
  if (!sees(p, id)) return refuse(Code::kOperandId, Table::kStep, index, position, id);
  const TensorRecord& r = view_.tensors_[id];
  if (role == Role::kOut && (kOutRegions[size_t(p.entry)] & bit(r.region)) == 0) return refuse(Code::kRole, Table::kStep, index, position, id);
  if (role == Role::kUpdate && ((kUpdateRegions[size_t(p.entry)] & bit(r.region)) == 0 || is_input(id)))
    return refuse(Code::kRole, Table::kStep, index, position, id);
  if (role == Role::kOut)
    for (uint32_t i = 0; i < position; ++i)
      if (operands[i] == operands[position]) return refuse(Code::kWrittenTwice, Table::kStep, index, position, id);
  // Rows of a run are lowered from the program's batch.
  if ((r.flags & kBatched) != 0 && uint32_t(r.dims[0]) != p.batch) return refuse(Code::kBatch, Table::kStep, index, position, id);
  return true;
}

// ---- Values: who writes which bytes of the arena, and when. Every index is known to be in range. ----

// Whether the first step of an arena tensor writes it, and does so before step `end`.
bool Verifier::writes(const ProgramView& p, uint32_t id, uint32_t end) {
  const uint32_t first = view_.tensors_[id].first_step;
  if (first >= end) return false;
  const StepRecord& s = view_.steps_[p.first_step + first];
  effort_ += s.operand_count;
  for (uint32_t i = 0; i < s.operand_count; ++i)
    if (view_.operands_[s.first_operand + i] == (id | uint32_t(Role::kOut) << 30)) return true;
  return false;
}

// Bytes of an arena tensor that steps before `end` write, as they write it, its target, or other aliases of that: more than it
// has where two steps write one byte, fewer where none does.
uint64_t Verifier::written_bytes(const ProgramView& p, uint32_t id, uint32_t end) {
  const TensorRecord& r = view_.tensors_[id];
  const uint32_t root = r.alias_of == kNoIndex ? id : r.alias_of;
  const uint64_t from = root == id ? 0 : r.offset, to = from + r.bytes;
  uint64_t sum = writes(p, root, end) ? r.bytes : 0;
  for (uint32_t other = p.first_tensor + p.tensor_count; --other > root && view_.tensors_[other].alias_of != kNoIndex;) {
    const TensorRecord& part = view_.tensors_[other];
    ++effort_;
    if (part.alias_of != root || part.offset >= to || part.offset + part.bytes <= from || !writes(p, other, end)) continue;
    sum += std::min(part.offset + part.bytes, to) - std::max(part.offset, from);
  }
  return sum;
}

// Operands and guard of a step: alive, written before they are read, written once.
bool Verifier::uses(const ProgramView& p, uint32_t index) {
  const StepRecord& s = view_.steps_[index];
  const uint32_t now = index - p.first_step;
  for (uint32_t i = 0; i < uint32_t{s.operand_count} + (s.guard != kNoIndex); ++i) {
    const uint32_t word = i < s.operand_count ? view_.operands_[s.first_operand + i] : s.guard;
    const uint32_t id = word & kOperandIdMask;
    if (id == kNoOperand || view_.tensors_[id].region != Region::kArena) continue;
    const TensorRecord& r = view_.tensors_[id];
    const bool input = is_input(id);
    if (now > r.last_step || now < r.first_step) return refuse(Code::kNotLive, Table::kStep, index, i, id);
    if (Role(word >> 30) == Role::kOut) {
      if (input || r.first_step != now || written_bytes(p, id, kNoIndex) != r.bytes)
        return refuse(Code::kWrittenTwice, Table::kStep, index, i, id);
    } else if (!input && written_bytes(p, id, now) != r.bytes) {
      return refuse(Code::kReadBeforeWrite, Table::kStep, index, i, id);
    }
    if (effort_ > 2 * uint64_t{limits_.tensors} * limits_.tensors) return refuse(Code::kCount, Table::kStep, index);
  }
  return true;
}

// A tensor that is neither input nor alias is written, every byte of it.
bool Verifier::written(const ProgramView& p, uint32_t id) {
  const TensorRecord& r = view_.tensors_[id];
  if (r.alias_of != kNoIndex || (r.flags & kInput) != 0 || written_bytes(p, id, kNoIndex) == r.bytes) return true;
  return refuse((r.flags & kOutput) != 0 ? Code::kOutputUnwritten : Code::kReadBeforeWrite, Table::kTensor, id);
}

bool Verifier::layers() {
  for (uint32_t i = 0; i < root_->layers()->size(); ++i) {
    const schema::Layer& layer = *root_->layers()->Get(i);
    if (layer.name() == nullptr || layer.policy() == nullptr) return refuse(Code::kMissingField, Table::kLayer, i);
    if (layer.name()->size() > limits_.string_bytes ||
        (layer.source_op() != nullptr && layer.source_op()->size() > limits_.string_bytes))
      return refuse(Code::kString, Table::kLayer, i);
    const auto& policy = *reinterpret_cast<const Policy*>(layer.policy());
    for (const ElementType type : {policy.variable, policy.compute, policy.output})
      if (type == ElementType::kNone || type >= ElementType::kCount) return refuse(Code::kPolicy, Table::kLayer, i);
    if (policy.quantization >= Quantization::kCount || policy.update_order >= UpdateOrder::kCount ||
        policy.amax_rule >= AmaxRule::kCount || policy.scale_form >= ScaleForm::kCount ||
        policy.loss_scale >= LossScale::kCount || policy.rounding >= uint8_t(Rounding::kCount) || policy.activation_zero > 1)
      return refuse(Code::kPolicy, Table::kLayer, i);
    // A loss scale is finite and not negative.
    if (std::bit_cast<uint32_t>(policy.loss_scale_value) >= 0x7F800000) return refuse(Code::kPolicy, Table::kLayer, i);
    if (!all_zero(policy.reserved, sizeof policy.reserved)) return refuse(Code::kReserved, Table::kLayer, i);
  }
  return true;
}

bool Verifier::golden() {
  for (uint32_t i = 0; i < size_of(root_->golden()); ++i) {
    const schema::Golden& pair = *root_->golden()->Get(i);
    if (pair.inputs() == nullptr || pair.outputs() == nullptr) return refuse(Code::kMissingField, Table::kGolden, i);
    if (pair.program() >= root_->programs()->size()) return refuse(Code::kGolden, Table::kGolden, i);
    const ProgramView p = view_.program(pair.program());
    uint64_t inputs = 0, outputs = 0;
    for (const uint32_t id : p.inputs) inputs += view_.tensors_[id].bytes;
    for (const uint32_t id : p.outputs) outputs += view_.tensors_[id].bytes;
    if (inputs != pair.inputs()->size() || outputs != pair.outputs()->size()) return refuse(Code::kGolden, Table::kGolden, i);
    if (std::bit_cast<uint32_t>(pair.tolerance()) >= 0x7F800000) return refuse(Code::kGolden, Table::kGolden, i);
  }
  return true;
}

}  // namespace nacre
