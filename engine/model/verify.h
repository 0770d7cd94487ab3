// Verifier makes every check of Model::open, once. schema/FORMAT.md lists the invariants that it checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/model/model.h"

namespace nacre {

class Verifier {
 public:
  Verifier(std::span<const std::byte> bytes, const Limits& limits) : bytes_(bytes), limits_(limits) {}

  // Fills `model`'s views if all checks hold; else does not change it.
  Status check(Model* model);

 private:
  // Each function returns whether all its checks hold. If not, status_ says what is wrong with the record that at()
  // named last. Returning a Status from each would take more code.
  void at(Table table, uint32_t index = 0) { status_.table = table, status_.index = index; }
  bool refuse(Code code);
  template <class Needed, class Given>
  bool refuse(Code code, Needed needed, Given given) {
    if constexpr (sizeof needed <= 4 && sizeof given <= 4) return refuse_small(code, needed, given);
    else return refuse_large(code, needed, given);
  }
  bool refuse_small(Code code, uint32_t needed, uint32_t given);  // passes arguments in registers on 32-bit machines
  bool refuse_large(Code code, uint64_t needed, uint64_t given);
  bool header();
  bool flatbuffer();
  bool counts();
  bool segments();
  bool strings();
  bool tensor(uint32_t id);
  bool tensor_size(uint32_t id);
  bool place(uint32_t id);
  bool alias(uint32_t id);
  bool globals(uint32_t end);
  bool quantizers();
  bool programs();
  bool program(uint32_t index, uint32_t first_tensor, uint32_t first_step);
  bool plan(const ProgramView& p);
  bool bindings(const ProgramView& p, uint32_t index);
  bool step(const ProgramView& p, uint32_t index);
  bool sees(const ProgramView& p, uint32_t id) const;
  bool is_input(uint32_t id) const;
  bool operand(const ProgramView& p, uint32_t step, uint32_t operand);
  bool uses(const ProgramView& p, uint32_t index);
  bool writes(const ProgramView& p, uint32_t id, uint32_t end);
  size_t written_bytes(const ProgramView& p, uint32_t id, uint32_t end);
  bool written(const ProgramView& p, uint32_t id);
  bool layers();
  bool golden();

  std::span<const std::byte> bytes_;
  const Limits& limits_;
  Status status_;
  uint64_t effort_ = 0;  // operands and records visited to find which step writes which tensor; bounded
  const schema::Model* root_ = nullptr;
  Model view_;  // views of the bytes while they are checked
};

}  // namespace nacre
