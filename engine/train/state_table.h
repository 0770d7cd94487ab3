// The state block as a table of rows: what a checkpoint says about the tensors in it, and which of a model's they are.
// Names come from the model file; a tensor without one is found by nothing but the layout of the whole.
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

// Whether a tensor has a row: those in the state that are no alias.
bool in_state(const Model& model, uint32_t id);
StateRow state_row(const Model& model, uint32_t id);
uint32_t state_records(const Model& model);

// All rows in one number: add_row over them, from a hash of the block's size. Equal: two blocks are laid out alike.
uint64_t empty_layout(uint64_t state_bytes);
uint64_t add_row(uint64_t layout, const StateRow& row);
uint64_t state_layout(const Model& model);

// The tensor of the state that has this name, type and size.
bool find_in_state(const Model& model, const StateRow& row, uint32_t* id);

// Whether a tensor of the state is more than the optimizer's own: a parameter, or read by a program other than
// `update`.
bool learned(const Model& model, uint32_t id);

}  // namespace nacre
