// The memory that XNNPACK gets. On each thread it is only the Arena of the step that is being measured or prepared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nacre::xnnpack {

// Gives blocks of a range of bytes, one after another. free() makes room again only for the last block.
class Arena {
 public:
  static constexpr size_t kAlignment = 64;  // of every block; XNNPACK gets null if it asks for more

  Arena(std::byte* first, size_t bytes);

  void* allocate(size_t bytes);                 // null if the bytes do not fit
  void* reallocate(void* block, size_t bytes);  // the contents stay
  void free(void* block);
  size_t most() const { return most_; }  // most bytes in use, counted from the first multiple of kAlignment
  bool overflowed() const { return overflowed_; }

 private:
  std::byte* first_;
  size_t bytes_, used_ = 0, last_ = 0, most_ = 0;  // last_: offset of the last block
  bool overflowed_ = false;
};

// XNNPACK allocates from `arena` on this thread while the object lives.
class Allocating {
 public:
  explicit Allocating(Arena& arena);
  ~Allocating();
  Allocating(const Allocating&) = delete;
  Allocating& operator=(const Allocating&) = delete;
};

// Returns whether XNNPACK runs here and allocates from arenas. Initializes it at the first call.
bool is_usable();

}  // namespace nacre::xnnpack
