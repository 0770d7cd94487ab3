// The state block as a table of rows: what a checkpoint says about the tensors in it, and which of a network's they
// are. Names come from the model file; a tensor without one is found by nothing but the layout of the whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/model/model.h"

namespace nacre {

struct StateRow {   // schema/FORMAT.md, "Checkpoints"
  uint64_t name;    // FNV-1a of the tensor's name; 0: it has none
  uint64_t offset;  // in the state block
  uint64_t bytes;
  uint32_t elements;
  ElementType element;
  uint8_t reserved[3];
};
static_assert(sizeof(StateRow) == 32);

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}
template <class T>
std::span<std::byte> writable(T& value) {
  return std::as_writable_bytes(std::span<T, 1>(&value, 1));
}

// Whose state it is: a model file, or tables in flash (train/static_trainer.h).
struct StateTable {
  const uint8_t* hash;  // of the model file, 16 bytes
  uint64_t bytes;       // of the state block
  uint32_t count;       // of indices below, in the order of offsets
  const void* context;
  // Writes the row at an index: false where it is no tensor of the state.
  bool (*row)(const void* context, uint32_t index, StateRow* row);
  uint8_t (*use)(const void* context, uint32_t index);  // StateUse, of one that is
};
enum StateUse : uint8_t {
  kOwn = 1,        // more than the optimizer's own: a parameter, or read by a program other than `update`
  kParameter = 2,  // kTrainable
};

StateTable state_table(const Model& model);

uint32_t state_records(const StateTable& state);

// All rows in one number: add_row over them, from a hash of the block's size. Equal: two blocks are laid out alike.
uint64_t empty_layout(uint64_t state_bytes);
uint64_t add_row(uint64_t layout, const StateRow& row);
uint64_t state_layout(const StateTable& state);

// The tensor of the state that has the name, type and size of `row`: `found` is its own.
bool find_in_state(const StateTable& state, const StateRow& row, uint32_t* index, StateRow* found);

}  // namespace nacre
