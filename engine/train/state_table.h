// The state block as a table of rows, which a checkpoint stores, and the search for a row's tensor in the state of
// another network. Names come from the model file. A tensor without a name is found only if the layouts of both state
// blocks are equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/model/model.h"

namespace nacre {

struct StateRow {   // schema/FORMAT.md, "Checkpoints"
  uint64_t name;    // FNV-1a of the tensor's name; 0: it has none
  uint64_t offset;  // offset in the state block
  uint64_t bytes;
  uint32_t elements;
  ElementType element;
  uint8_t reserved[3];
};
static_assert(sizeof(StateRow) == 32);

// Return the bytes of an object, in place.
template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}
template <class T>
std::span<std::byte> writable(T& value) {
  return std::as_writable_bytes(std::span<T, 1>(&value, 1));
}

// The tensors of a state block. The source is a model file, or tables in flash (train/static_trainer.h).
struct StateTable {
  const uint8_t* hash;  // hash of the model file, 16 bytes
  uint64_t bytes;       // bytes of the state block
  uint32_t count;       // number of indices, in the order of offsets
  const void* context;
  // Writes the row at an index. False: the index is no tensor of the state.
  bool (*row)(const void* context, uint32_t index, StateRow* row);
  uint8_t (*use)(const void* context, uint32_t index);  // StateUse of an index that is a tensor of the state
};
// Bits that say who reads a tensor of the state. 0: `update` alone, such as a moment.
enum StateUse : uint8_t {
  kOwn = 1,        // a parameter, or read by a program other than `update`
  kParameter = 2,  // kTrainable
};

// Returns the table of an opened model, which must outlive it.
StateTable state_table(const Model& model);

// Counts the rows of a table.
uint32_t state_records(const StateTable& state);

// Hash all rows to one number: add_row for each row, beginning with empty_layout. If two numbers are equal, the two
// blocks have the same layout.
uint64_t empty_layout(uint64_t state_bytes);
uint64_t add_row(uint64_t layout, const StateRow& row);
uint64_t state_layout(const StateTable& state);

// Finds the tensor of the state that has the name, type and size of `row`, and returns whether there is one. `index`
// and `found` receive the index and the row of this tensor; if there is none, they hold other values.
bool find_in_state(const StateTable& state, const StateRow& row, uint32_t* index, StateRow* found);

}  // namespace nacre
