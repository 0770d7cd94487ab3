#include "ports/xnnpack/memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "ports/xnnpack/api.h"
#include "ports/xnnpack/xnnpack_port.h"

namespace nacre::xnnpack {
namespace {

constinit thread_local Arena* current = nullptr;
constinit std::atomic<uint64_t> refused = 0;

void* allocate(size_t bytes) {
  if (current != nullptr) return current->allocate(bytes);
  ++refused;
  return nullptr;
}

constexpr xnn_allocator kAllocator = {
    .context = nullptr,
    .allocate = [](void*, size_t bytes) { return allocate(bytes); },
    .reallocate =
        [](void*, void* block, size_t bytes) {
          return block == nullptr || current == nullptr ? allocate(bytes) : current->reallocate(block, bytes);
        },
    .deallocate =
        [](void*, void* block) {
          if (current != nullptr) current->free(block);
        },
    .aligned_allocate = [](void*, size_t alignment,
                           size_t bytes) { return alignment > Arena::kAlignment ? nullptr : allocate(bytes); },
    .aligned_deallocate =
        [](void*, void* block) {
          if (current != nullptr) current->free(block);
        },
};

// The first xnn_initialize in the process sets the allocator, and later calls succeed without setting theirs. Only
// making an operator shows whose allocator it is.
bool initialize() {
  if (xnn_initialize(&kAllocator) != xnn_status_success) return false;
  static std::byte probe[64 << 10];
  Arena arena(probe, sizeof probe);
  const Allocating from(arena);
  xnn_operator_t made = nullptr;
  if (create_clamp(0, 1, &made) != xnn_status_success) return false;
  xnn_delete_operator(made);
  return arena.most() > 0;
}

}  // namespace

Arena::Arena(std::byte* first, size_t bytes) : first_(first), bytes_(bytes) {
  const size_t skipped = (kAlignment - reinterpret_cast<uintptr_t>(first) % kAlignment) % kAlignment;
  first_ += std::min(skipped, bytes);
  bytes_ -= std::min(skipped, bytes);
}

void* Arena::allocate(size_t bytes) {
  if (bytes > bytes_ - used_) {
    overflowed_ = true;
    return nullptr;
  }
  last_ = used_;
  used_ = std::min((used_ + bytes + kAlignment - 1) / kAlignment * kAlignment, bytes_);
  most_ = std::max(most_, used_);
  return first_ + last_;
}

// Grows the last block in place. Any other block is copied to a new one. The size of a block is not stored, so the
// copy also takes bytes that follow the block.
void* Arena::reallocate(void* block, size_t bytes) {
  const auto at = size_t(static_cast<std::byte*>(block) - first_);
  const size_t behind = used_ - at;
  if (at == last_) {
    used_ = at;
    void* const grown = allocate(bytes);
    if (grown == nullptr) used_ = at + behind;
    return grown;
  }
  void* const moved = allocate(bytes);
  if (moved != nullptr) std::memmove(moved, block, std::min(bytes, behind));
  return moved;
}

void Arena::free(void* block) {
  if (block != nullptr && block == first_ + last_) used_ = last_;
}

Allocating::Allocating(Arena& arena) { current = &arena; }
Allocating::~Allocating() { current = nullptr; }

bool is_usable() {
  static const bool usable = initialize();
  return usable;
}

uint64_t refused_allocations() { return refused; }

}  // namespace nacre::xnnpack
