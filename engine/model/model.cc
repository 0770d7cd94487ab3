#include "engine/model/model.h"

#include <cstring>

#include "engine/base/bytes.h"
#include "engine/base/crc32c.h"
#include "engine/model/flatbuffer.h"
#include "engine/model/verify.h"

namespace nacre {

// The engine reads the schema's records in place, so both declarations must have equal sizes.
static_assert(sizeof(schema::TensorRecord) == sizeof(TensorRecord));
static_assert(sizeof(schema::StepRecord) == sizeof(StepRecord));
static_assert(sizeof(schema::QuantizerRecord) == sizeof(QuantizerRecord));
static_assert(sizeof(schema::SegmentRecord) == sizeof(SegmentRecord));
static_assert(sizeof(schema::PolicyRecord) == sizeof(Policy));
static_assert(sizeof(schema::BankRecord) == sizeof(uint64_t));
static_assert(alignof(schema::TensorRecord) == alignof(TensorRecord));

bool is_zero_point(ElementType codes, int32_t zero) {
  const uint32_t bits = element_bits(codes);
  switch (codes) {
    case ElementType::kInt4:
    case ElementType::kInt8:
    case ElementType::kInt16: return zero >> (bits - 1) == 0 || zero >> (bits - 1) == -1;
    case ElementType::kUint4:
    case ElementType::kUint8: return zero >> bits == 0;
    case ElementType::kInt32: return true;
    default: return zero == 0;
  }
}

// Adds the CRC to the number of changes. Otherwise a Model that was opened elsewhere and copied over this one could
// have the same number.
Status Model::open(std::span<const std::byte> bytes, const Limits& limits) {
  const auto changes = uint16_t(changes_ + 1);
  *this = Model();
  changes_ = changes;
  Verifier verifier(bytes, limits);
  NACRE_TRY(verifier.check(this));
  bytes_ = bytes;
  changes_ = uint16_t(changes + header().crc);
  work_limit_ = limits.work;
  return {};
}

Status Model::attach(uint32_t segment, std::span<const std::byte> data) {
  if (!opened()) return {Code::kNotBound, Table::kFile};
  const auto& segments = *root_->segments();
  if (segment >= segments.size() || segment >= kMaxSegments) return {Code::kIndex, Table::kSegment, segment};
  const uint64_t needed = segments.Get(segment)->bytes();
  if (bytes_in(data) < needed) return {Code::kMemorySize, Table::kSegment, segment, needed, bytes_in(data)};
  const uintptr_t offset = reinterpret_cast<uintptr_t>(data.data()) % kSegmentAlignment;
  if (offset != 0) return {Code::kMemoryAlignment, Table::kSegment, segment, kSegmentAlignment, offset};
  attached_[segment] = data.data();
  ++changes_;
  return {};
}

bool Model::shares_bytes(std::span<const std::byte> block) const {
  if (share_bytes(block, bytes_)) return true;
  for (uint32_t i = 0; i < kMaxSegments; ++i)
    if (attached_[i] != nullptr && share_bytes(block, {attached_[i], size_t(root_->segments()->Get(i)->bytes())}))
      return true;
  return false;
}

const std::byte* Model::segment(uint32_t index) const {
  if (index < kMaxSegments && attached_[index] != nullptr) return attached_[index];
  return bytes_.data() + root_->segments()->Get(index)->offset();
}

const std::byte* Model::weights(uint32_t tensor) const {
  const TensorRecord* record = &tensors_[tensor];
  size_t offset = record->offset;
  if (record->alias_of != kNoIndex) {
    record = &tensors_[record->alias_of];
    offset += record->offset;
  }
  return segment(record->bank) + offset;
}

uint64_t Model::region_bytes(Region region) const {
  if (!opened()) return 0;
  switch (region) {
    case Region::kState: return root_->state_bytes();
    case Region::kStream: return root_->stream_bytes();
    case Region::kDerived: return root_->derived_bytes();
    case Region::kStep: return root_->step_bytes();
    default: return 0;
  }
}

uint32_t Model::program_count() const { return opened() ? root_->programs()->size() : 0; }

ProgramView Model::program(uint32_t index) const {
  if (index >= program_count()) return {};
  const schema::Program& p = *root_->programs()->Get(index);
  const auto* banks = reinterpret_cast<const FileBytes*>(p.banks()->Data());
  const auto* inputs = reinterpret_cast<const uint32_t*>(p.inputs()->Data());
  const auto* outputs = reinterpret_cast<const uint32_t*>(p.outputs()->Data());
  return {.entry = Entry(p.entry()),
          .changes = changes_,
          .first_step = p.first_step(),
          .step_count = p.step_count(),
          .first_tensor = p.first_tensor(),
          .tensor_count = p.tensor_count(),
          .batch = p.batch(),
          .inputs = {inputs, p.inputs()->size()},
          .outputs = {outputs, p.outputs()->size()},
          .banks = {banks, p.banks()->size()}};
}

Status Model::find(Entry entry, const char* target, uint32_t* index) const {
  if (target == nullptr) return find(entry, {}, true, index);
  return find(entry, {target, std::strlen(target)}, false, index);
}

Status Model::find_beside(uint32_t program, Entry entry, uint32_t* index) const {
  if (program >= program_count()) return {Code::kNoEntry, Table::kProgram, uint32_t(entry)};
  const flatbuffers::String& target = *root_->programs()->Get(program)->target();
  return find(entry, {target.c_str(), target.size()}, false, index);
}

Status Model::find(Entry entry, std::span<const char> target, bool any, uint32_t* index) const {
  for (uint32_t i = 0; i < program_count(); ++i) {
    const schema::Program& p = *root_->programs()->Get(i);
    const bool same_target = any || (target.size() == p.target()->size() &&
                                     std::memcmp(target.data(), p.target()->Data(), target.size()) == 0);
    if (Entry(p.entry()) == entry && same_target) {
      *index = i;
      return {};
    }
  }
  return {Code::kNoEntry, Table::kProgram, uint32_t(entry)};
}

namespace {

// Returns whether a float of this type at `data` is NaN: its bits without the sign are beyond those of infinity.
// Returns false for all types but float16, bfloat16, float32 and float64; float8 codes are not checked.
bool is_nan(ElementType type, const std::byte* data) {
  const auto beyond = [&](auto bits, auto infinity) {
    std::memcpy(&bits, data, sizeof bits);
    return (bits & (infinity | (infinity - 1))) > infinity;
  };
  switch (type) {
    case ElementType::kFloat32: return beyond(uint32_t{}, uint32_t{0x7F800000});
    case ElementType::kFloat16: return beyond(uint16_t{}, uint16_t{0x7C00});
    case ElementType::kBfloat16: return beyond(uint16_t{}, uint16_t{0x7F80});
    case ElementType::kFloat64: return beyond(uint64_t{}, uint64_t{0x7FF0000000000000});
    default: return false;
  }
}

template <class T>
T load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

}  // namespace

// Checks the scales and zero points that a quantizer names in Region::kWeights: scales must be positive and normal,
// zero points must be codes.
Status Model::check_quantizers() const {
  for (uint32_t i = 0; i < root_->quantizers()->size(); ++i) {
    const schema::QuantizerRecord& q = *root_->quantizers()->Get(i);
    if (q.scales() == kNoIndex || tensors_[q.scales()].region != Region::kWeights) continue;
    const bool zeros = q.zeros() != kNoIndex && tensors_[q.zeros()].region == Region::kWeights;
    for (int32_t c = 0; c < tensors_[q.scales()].dims[0]; ++c) {
      if (!is_scale(load<uint32_t>(weights(q.scales()) + 4 * size_t(c)))) return {Code::kScale, Table::kQuantizer, i};
      if (zeros && !is_zero_point(ElementType(q.codes()), load<int32_t>(weights(q.zeros()) + 4 * size_t(c))))
        return {Code::kZeroPoint, Table::kQuantizer, i};
    }
  }
  return {};
}

// Checks multipliers. A step that rounds in fixed point reads its int32 [.., 2] weights as pairs {multiplier, shift}.
Status Model::check_multipliers() const {
  for (const StepRecord& step : steps_) {
    if (step.rounding != Rounding::kDouble && step.rounding != Rounding::kSingle) continue;
    for (uint32_t i = 0; i < step.operand_count; ++i) {
      const uint32_t id = operands(step)[i];  // a weight is only read: its role is 0
      if (id >= tensors_.size()) continue;
      const TensorRecord& r = tensors_[id];
      if (r.region != Region::kWeights || r.element != ElementType::kInt32 || r.rank != 2 || r.dims[1] != 2) continue;
      for (uint64_t at = 0; at < r.bytes; at += 8) {
        const auto multiplier = load<int32_t>(weights(id) + at), shift = load<int32_t>(weights(id) + at + 4);
        if ((multiplier != 0 && multiplier < 1 << 30) || shift < -31 || shift > 30)
          return {Code::kMultiplier, Table::kTensor, id};
      }
    }
  }
  return {};
}

Status Model::check_weights() const {
  if (!opened()) return {Code::kNotBound, Table::kFile};
  const auto& segments = *root_->segments();
  for (uint32_t i = 0; i < segments.size(); ++i) {
    const schema::SegmentRecord& s = *segments.Get(i);
    if (crc32c({segment(i), size_t(s.bytes())}) != s.crc()) return {Code::kSegmentCrc, Table::kSegment, i};
  }
  for (uint32_t id = 0; id < tensors_.size(); ++id) {
    const TensorRecord& r = tensors_[id];
    const uint32_t size = element_bits(r.element) / 8;
    if (r.region != Region::kWeights || size == 0) continue;
    const std::byte* data = weights(id);
    for (uint64_t at = 0; at < r.bytes; at += size)
      if (is_nan(r.element, data + at)) return {Code::kNotFinite, Table::kTensor, id};
  }
  NACRE_TRY(check_quantizers());
  return check_multipliers();
}

}  // namespace nacre
