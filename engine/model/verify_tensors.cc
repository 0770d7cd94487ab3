// The verifier on tensors and quantizers: sizes, places, aliases, and what their codes mean.
#include <algorithm>

#include "engine/base/layout.h"
#include "engine/model/flatbuffer.h"
#include "engine/model/verify.h"
#include "engine/model/verify_limits.h"

namespace nacre {
namespace {

// State is always row-major, so that a checkpoint is the same for every target; inputs and outputs are the caller's.
bool takes_layout(const TensorRecord& r) {
  if (r.rank < 2 || !has_layouts(r.element) || r.alias_of != kNoIndex || r.layout == Layout::kAny) return false;
  if (r.region == Region::kArena) return of_channels(r.layout) && (r.flags & (kInput | kOutput)) == 0;
  return r.region == Region::kWeights || r.region == Region::kDerived;
}

}  // namespace

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
  if (r.layout != Layout::kRowMajor) {
    if (takes_layout(r)) elements = stored_elements(r.layout, {r.rank, r.dims, 0});
    else elements = uint64_t{INT32_MAX} + 1;
    if (elements > INT32_MAX) return refuse(Code::kLayout, Table::kTensor, id);
  }
  const uint64_t bytes = storage_bytes(r.element, elements);
  return r.bytes == bytes || refuse(Code::kBytes, Table::kTensor, id, bytes, r.bytes);
}

bool Verifier::tensor(uint32_t id) {
  const TensorRecord& r = view_.tensors_[id];
  if (r.element == ElementType::kNone || r.element >= ElementType::kCount)
    return refuse(Code::kElementType, Table::kTensor, id);
  if (r.region >= Region::kCount) return refuse(Code::kRegion, Table::kTensor, id);
  if (r.rank > kMaxRank) return refuse(Code::kRank, Table::kTensor, id);
  if (!tensor_size(id)) return false;
  if (!all_zero(r.reserved, sizeof r.reserved)) return refuse(Code::kReserved, Table::kTensor, id);
  const bool arena = r.region == Region::kArena;
  uint16_t allowed = arena ? uint16_t(kBatched | kInput | kOutput) : 0;
  if (r.region == Region::kStream) allowed = kBatched;
  if (r.region == Region::kState) allowed = kTrainable;
  if ((r.flags & ~allowed) != 0 || ((r.flags & kBatched) != 0 && r.rank == 0))
    return refuse(Code::kFlags, Table::kTensor, id);
  if (!arena && (r.first_step != 0 || r.last_step != 0)) return refuse(Code::kLifetime, Table::kTensor, id);
  if (r.initial != kNoIndex) {
    if (r.region != Region::kState || r.initial >= id) return refuse(Code::kInitial, Table::kTensor, id);
    const TensorRecord& initial = view_.tensors_[r.initial];
    if (initial.region != Region::kWeights || initial.element != r.element || initial.bytes != r.bytes ||
        initial.layout != Layout::kRowMajor)
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
  if (target.alias_of != kNoIndex || target.region != r.region || target.bank != r.bank ||
      target.layout != Layout::kRowMajor)
    return refuse(Code::kAliasTarget, Table::kTensor, id);
  if (!in_range(r.offset, r.bytes, target.bytes))
    return refuse(Code::kAliasBounds, Table::kTensor, id, target.bytes, r.offset);
  const uint32_t unit = element_bits(r.element) / 8;
  if (unit > 1 && ((target.offset + r.offset) & (unit - 1)) != 0)
    return refuse(Code::kOffsetAlignment, Table::kTensor, id);
  return true;
}

// Records before the first program's: sorted by region, bank, offset, without overlap; aliases anywhere after their
// target.
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
    if (q.zeros != kNoIndex &&
        (q.scales == kNoIndex || view_.tensors_[q.zeros].element != ElementType::kInt32 ||
         view_.tensors_[q.zeros].rank != 1 || view_.tensors_[q.zeros].dims[0] != view_.tensors_[q.scales].dims[0]))
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

}  // namespace nacre
