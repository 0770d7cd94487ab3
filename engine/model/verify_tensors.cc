// Verifies tensors and quantizers: sizes, positions, aliases, and the meaning of codes.
#include <algorithm>

#include "engine/base/layout.h"
#include "engine/model/flatbuffer.h"
#include "engine/model/verify.h"
#include "engine/model/verify_limits.h"

namespace nacre {
namespace {

// Returns whether a tensor may have its layout other than row-major. State is always row-major, so that a checkpoint is
// the same for every target. Arena tensors take only layouts of channels; inputs and outputs belong to the caller.
bool takes_layout(const TensorRecord& r) {
  if (r.rank < 2 || !has_layouts(r.element) || r.alias_of != kNoIndex || r.layout == Layout::kAny) return false;
  if (r.region == Region::kArena) return of_channels(r.layout) && (r.flags & (kInput | kOutput)) == 0;
  return r.region == Region::kWeights || r.region == Region::kDerived;
}

}  // namespace

bool Verifier::tensor_size(uint32_t id) {
  const TensorRecord& r = view_.tensors_[id];
  uint32_t elements = 1;
  for (int i = 0; i < kMaxRank; ++i) {
    if (i >= r.rank) {
      if (r.dims[i] != 0) return refuse(Code::kDim);
      continue;
    }
    if (r.dims[i] <= 0 || r.dims[i] > kMaxDim) return refuse(Code::kDim);
    if (__builtin_mul_overflow(elements, uint32_t(r.dims[i]), &elements) || elements > INT32_MAX)
      return refuse(Code::kOverflow);
  }
  if (r.layout != Layout::kRowMajor) {
    if (!takes_layout(r)) return refuse(Code::kLayout);
    const uint64_t stored = stored_elements(r.layout, {r.rank, r.dims, 0}, elements);
    if (stored > INT32_MAX) return refuse(Code::kLayout);
    elements = uint32_t(stored);
  }
  const uint64_t bytes = storage_bytes(r.element, elements);
  return r.bytes == bytes || refuse(Code::kBytes, bytes, r.bytes);
}

bool Verifier::tensor(uint32_t id) {
  at(Table::kTensor, id);
  const TensorRecord& r = view_.tensors_[id];
  if (r.element == ElementType::kNone || r.element >= ElementType::kCount) return refuse(Code::kElementType);
  if (r.region >= Region::kCount) return refuse(Code::kRegion);
  if (r.rank > kMaxRank) return refuse(Code::kRank);
  if (!computable(r.offset) || !computable(r.bytes)) return refuse(Code::kOverflow);
  if (!tensor_size(id)) return false;
  if (!all_zero(r.reserved, sizeof r.reserved)) return refuse(Code::kReserved);
  const bool arena = r.region == Region::kArena;
  uint16_t allowed = arena ? uint16_t(kBatched | kInput | kOutput) : 0;
  if (r.region == Region::kStream) allowed = kBatched;
  if (r.region == Region::kState) allowed = kTrainable;
  if ((r.flags & ~allowed) != 0 || ((r.flags & kBatched) != 0 && r.rank == 0)) return refuse(Code::kFlags);
  if (!arena && (r.first_step != 0 || r.last_step != 0)) return refuse(Code::kLifetime);
  if (r.initial != kNoIndex) {
    if (r.region != Region::kState || r.initial >= id) return refuse(Code::kInitial);
    const TensorRecord& initial = view_.tensors_[r.initial];
    if (initial.region != Region::kWeights || initial.element != r.element || initial.bytes != r.bytes ||
        initial.layout != Layout::kRowMajor)
      return refuse(Code::kInitial);
  }
  return r.alias_of == kNoIndex ? place(id) : alias(id);
}

// Checks offset and bytes of a tensor that is not an alias, in its region. plan() checks the bounds of arena records.
bool Verifier::place(uint32_t id) {
  const TensorRecord& r = view_.tensors_[id];
  const uint32_t unit = element_bits(r.element) / 8;
  if (unit > 1 && (r.offset & (unit - 1)) != 0) return refuse(Code::kOffsetAlignment);
  if (r.region == Region::kArena) return true;
  if (r.region == Region::kWeights) {
    if (r.bank >= root_->segments()->size()) return refuse(Code::kBank);
  } else if (r.bank != 0) {
    return refuse(Code::kBank);
  }
  const size_t limit = r.region == Region::kWeights ? size_t(root_->segments()->Get(r.bank)->bytes())
                                                    : size_t(view_.region_bytes(r.region));
  return in_range(r.offset, r.bytes, limit) || refuse(Code::kBounds, limit, r.offset);
}

bool Verifier::alias(uint32_t id) {
  const TensorRecord& r = view_.tensors_[id];
  if (r.alias_of >= id) return refuse(Code::kAliasTarget);
  const TensorRecord& target = view_.tensors_[r.alias_of];
  if (target.alias_of != kNoIndex || target.region != r.region || target.bank != r.bank ||
      target.layout != Layout::kRowMajor)
    return refuse(Code::kAliasTarget);
  if (!in_range(r.offset, r.bytes, target.bytes)) return refuse(Code::kAliasBounds, target.bytes, r.offset);
  const uint32_t unit = element_bits(r.element) / 8;
  if (unit > 1 && ((target.offset + r.offset) & (unit - 1)) != 0) return refuse(Code::kOffsetAlignment);
  return true;
}

// Checks the records before the first program's. They are sorted by region, bank and offset, without overlap; aliases
// may stand anywhere after their target.
bool Verifier::globals(uint32_t end) {
  const TensorRecord* before = nullptr;
  for (uint32_t id = 0; id < end; ++id) {
    if (!tensor(id)) return false;
    const TensorRecord& r = view_.tensors_[id];
    if (r.region == Region::kArena) return refuse(Code::kRegion);
    if (r.alias_of != kNoIndex) continue;
    if (before != nullptr) {
      const bool same = before->region == r.region && before->bank == r.bank;
      const bool sorted = before->region < r.region || (before->region == r.region && before->bank < r.bank) ||
                          (same && before->offset <= r.offset);
      if (!sorted) return refuse(Code::kOrder);
      if (same && before->offset + before->bytes > r.offset) return refuse(Code::kOverlap);
    }
    before = &r;
  }
  return true;
}

bool Verifier::quantizers() {
  const std::span quantizers(reinterpret_cast<const QuantizerRecord*>(root_->quantizers()->Data()),
                             root_->quantizers()->size());
  const std::span tensors = view_.tensors_;
  for (uint32_t i = 0; i < quantizers.size(); ++i) {
    at(Table::kQuantizer, i);
    const QuantizerRecord& q = quantizers[i];
    if (q.reserved != 0) return refuse(Code::kReserved);
    if (q.codes == ElementType::kNone || q.codes >= ElementType::kCount || q.form >= ScaleForm::kCount)
      return refuse(Code::kElementType);
    if (q.scales == kNoIndex) {
      if (!is_scale(std::bit_cast<uint32_t>(q.scale))) return refuse(Code::kScale);
    } else if (q.scales >= tensors.size()) {
      return refuse(Code::kOperandId);
    } else if (tensors[q.scales].element != ElementType::kFloat32 || tensors[q.scales].rank != 1) {
      return refuse(Code::kScaleCount);
    }
    if (q.zeros != kNoIndex) {
      if (q.zeros >= tensors.size()) return refuse(Code::kOperandId);
      const TensorRecord& zeros = tensors[q.zeros];
      if (q.scales == kNoIndex || zeros.element != ElementType::kInt32 || zeros.rank != 1 ||
          zeros.dims[0] != tensors[q.scales].dims[0])
        return refuse(Code::kScaleCount);
    }
    if (!is_zero_point(q.codes, q.zero)) return refuse(Code::kZeroPoint);
  }
  for (uint32_t id = 0; id < tensors.size(); ++id) {
    at(Table::kTensor, id);
    const TensorRecord& r = tensors[id];
    if (r.quantizer == kNoIndex) continue;
    if (r.quantizer >= quantizers.size()) return refuse(Code::kQuantizer);
    const QuantizerRecord& q = quantizers[r.quantizer];
    if (q.codes != r.element) return refuse(Code::kCodes);
    if (q.scales == kNoIndex) continue;
    if (q.axis >= r.rank) return refuse(Code::kAxis);
    if (tensors[q.scales].dims[0] != r.dims[q.axis]) return refuse(Code::kScaleCount);
  }
  return true;
}

}  // namespace nacre
