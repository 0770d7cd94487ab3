// Makes entries of fast kernels. A form is a struct with from(words, operands) and run(operands.., args or nothing). It
// may have scratch_bytes, accepts, and, to make a table at bind, constant, table_bytes and fill (matmul/forms.h).
#pragma once

#include "engine/kernels/adapter.h"

namespace nacre::inline NACRE_ISA {

template <class Form>
size_t prepared_bytes_of(const Words& words, const Operands& operands) {
  return Form::constant(operands) ? Form::table_bytes(Form::from(words, operands)) : 0;
}
template <class Form>
Code prepare_of(const Args& args) {
  const Operands operands = args.operands();
  if (Form::constant(operands))
    Form::from(args.words, operands).fill(args.words, operands, static_cast<std::byte*>(args.call.prepared));
  return Code::kOk;
}
template <class Form>
inline constexpr Preparation kPreparationOf = {&prepared_bytes_of<Form>, &prepare_of<Form>, nullptr};

template <class Form>
constexpr const Preparation* preparation_of() {
  if constexpr (requires { &Form::table_bytes; }) return &kPreparationOf<Form>;
  else return nullptr;
}
template <class Form>
constexpr bool (*accepts_of())(const Words&, const Operands&) {
  if constexpr (requires { &Form::accepts; }) return &Form::accepts;
  else return nullptr;
}
template <class Form>
constexpr size_t (*scratch_bytes_of())(const Words&, const Operands&) {
  if constexpr (requires { &Form::scratch_bytes; }) return &Form::scratch_bytes;
  else return nullptr;
}

template <class Form>
constexpr KernelEntry fast_entry(Op op, Rounding rounding, uint8_t in_place, ShapeRule shapes, Kernel run) {
  using A = Adapter<Form, &Form::run>;
  return {.op = op,
          .rounding = rounding,
          .in_place = in_place,
          .operand_count = uint8_t(A::kOperandCount),
          .operands = A::kOperands,
          .shapes = shapes,
          .run = run,
          .accepts = accepts_of<Form>(),
          .scratch_bytes = scratch_bytes_of<Form>(),
          .preparation = preparation_of<Form>(),
          .work = &A::work};
}

template <class Form>
Code run_form(const Args& args) {
  return Adapter<Form, &Form::run>::run(args);
}

}  // namespace nacre::inline NACRE_ISA
