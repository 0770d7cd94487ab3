// Adapter makes a Kernel and its KernelEntry from a member function of an op's struct. The op unpacks no operands by
// hand. An example:
//
//   void Dense::forward(const float* x, const float* w, Optional<const float> bias, float* y) const
//
// becomes an entry with operands {f32 in, f32 in, f32 in optional, f32 out}. These parameters are the step's
// operands, in order:
//
//   const T*                                       an input
//   T*                                             an output
//   Optional<const T>                              an input that may be absent
//   Update<T>                                      a tensor that is read and written
//   Inputs<T>                                      any number of inputs of one type
//   PerRow<const T>                                an input with one value per row, or one for all rows
//   Packed<const T, layout>, Packed<T, layout>     an input and an output in that layout (base/layout.h)
//
// The following parameters are not operands and come last: Scratch<T>, whose bytes the op's scratch_bytes(words,
// operands) returns; Parts<T> (ops/parts.h); WordAt<i>, an attribute; and `const Args&`.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "engine/base/isa.h"
#include "engine/kernels/kernel.h"
#include "engine/numeric/element.h"
#include "engine/ops/parameters.h"
#include "engine/ops/parts.h"

namespace nacre::inline NACRE_ISA {

template <class P>
struct Parameter;

template <class T>
struct Parameter<const T*> {
  static constexpr OperandType kType = {Element<T>::kType, uint8_t(Role::kIn)};
  static constexpr const T* get(const Operands& o, int i) { return static_cast<const T*>(o.tensor[i].data); }
};
template <class T>
struct Parameter<T*> {
  static constexpr OperandType kType = {Element<T>::kType, uint8_t(Role::kOut)};
  static constexpr T* get(const Operands& o, int i) { return static_cast<T*>(o.tensor[i].data); }
};
template <class T>
struct Parameter<Optional<const T>> {
  static constexpr OperandType kType = {Element<T>::kType, uint8_t(Role::kIn) | kOptional};
  static constexpr Optional<const T> get(const Operands& o, int i) { return {static_cast<const T*>(o.tensor[i].data)}; }
};
template <class T>
struct Parameter<Update<T>> {
  static constexpr OperandType kType = {Element<T>::kType, uint8_t(Role::kUpdate)};
  static constexpr Update<T> get(const Operands& o, int i) { return {static_cast<T*>(o.tensor[i].data)}; }
};
template <class T>
struct Parameter<Inputs<T>> {  // Inputs must come first; the operands after it are counted from the last one
  static constexpr OperandType kType = {Element<T>::kType, uint8_t(Role::kIn) | kVariadic};
  static constexpr Inputs<T> get(const Operands& o, int) { return {o.tensor}; }
};

template <class T>
struct Parameter<PerRow<const T>> {
  static constexpr OperandType kType = {Element<T>::kType, uint8_t(Role::kIn)};
  static constexpr PerRow<const T> get(const Operands& o, int i) {
    return {static_cast<const T*>(o.tensor[i].data), o[i].elements() == 1 ? 0 : 1};
  }
};
template <class T, Layout kLayout>
struct Parameter<Packed<const T, kLayout>> {
  static constexpr OperandType kType = {Element<T>::kType, uint8_t(Role::kIn), kLayout};
  static constexpr Packed<const T, kLayout> get(const Operands& o, int i) {
    return {static_cast<const T*>(o.tensor[i].data)};
  }
};
template <class T, Layout kLayout>
struct Parameter<Packed<T, kLayout>> {
  static constexpr OperandType kType = {Element<T>::kType, uint8_t(Role::kOut), kLayout};
  static constexpr Packed<T, kLayout> get(const Operands& o, int i) { return {static_cast<T*>(o.tensor[i].data)}; }
};
template <int kIndex>
struct Parameter<WordAt<kIndex>> {
  static constexpr OperandType kType = {ElementType::kNone, 0};
  static constexpr int kWord = kIndex;
};

template <class T>
struct Parameter<Scratch<T>> {
  static constexpr OperandType kType = {ElementType::kNone, 0};
  static constexpr bool kScratch = true;
  static constexpr Scratch<T> get(const Args& args) { return {reinterpret_cast<T*>(args.scratch.data())}; }
};

template <class T>
struct Parameter<Parts<T>> {
  static constexpr OperandType kType = {ElementType::kNone, 0};
  static constexpr bool kParts = true;
  static constexpr Parts<T> get(const Args& args) { return {reinterpret_cast<T*>(args.scratch.data()), args.phase}; }
};

template <>
struct Parameter<const Args&> {
  static constexpr OperandType kType = {ElementType::kNone, 0};
  static constexpr bool kArgs = true;
};

template <class P>
inline constexpr bool kIsScratch = requires { Parameter<P>::kScratch; };
template <class P>
inline constexpr bool kIsArgs = requires { Parameter<P>::kArgs; };
template <class P>
inline constexpr bool kIsParts = requires { Parameter<P>::kParts; };
template <class P>
inline constexpr bool kIsOperand = !kIsScratch<P> && !kIsParts<P> && !kIsArgs<P> && !requires { Parameter<P>::kWord; };

template <class O, auto Method>
struct Adapter;

// Method may be a member of a base class of O: depthwise_conv2d runs the loops of conv2d.
template <class O, class Base, class Result, class... P, Result (Base::*Method)(P...) const>
struct Adapter<O, Method> {
  static constexpr OperandType kOperands[] = {Parameter<P>::kType...};
  static constexpr int kOperandCount = (int{kIsOperand<P>} + ...);
  static constexpr bool kScratch = (kIsScratch<P> || ...);

  static constexpr Code run(const Args& args) { return call(args, std::index_sequence_for<P...>{}); }

  // Returns the number of multiply-accumulates, or of elements visited: O::work() if it exists, else the elements of
  // the last operand.
  static constexpr uint64_t work(const Words& words, const Operands& operands) {
    if constexpr (requires(const O& op) { op.work(); }) {
      return O::from(words, operands).work();
    } else {
      return uint64_t(operands[operands.count - 1].elements());
    }
  }

 private:
  template <class Q>
  static constexpr Q get([[maybe_unused]] const Args& args, const Operands& o, int i) {
    if constexpr (kIsOperand<Q>) return Parameter<Q>::get(o, i);
    else if constexpr (kIsScratch<Q> || kIsParts<Q>) return Parameter<Q>::get(args);
    else if constexpr (kIsArgs<Q>) return args;
    else return {args.words[Parameter<Q>::kWord]};
  }

  template <size_t... I>
  static constexpr Code call(const Args& args, std::index_sequence<I...>) {
    const Operands o = args.operands();
    const O op = O::from(args.words, o);
    const int extra = o.count - kOperandCount;  // number of inputs of a variadic op beyond its first one
    const auto slot = [&](size_t i) { return i == 0 ? 0 : int(i) + extra; };
    if constexpr (std::same_as<Result, Code>) {
      return (op.*Method)(get<P>(args, o, slot(I))...);
    } else {
      (op.*Method)(get<P>(args, o, slot(I))...);
      return Code::kOk;
    }
  }
};

template <class O, auto Method>
constexpr size_t (*scratch_of())(const Words&, const Operands&) {
  if constexpr (Adapter<O, Method>::kScratch) return &O::scratch_bytes;
  else return nullptr;
}

// Returns the entry of a method that prepares nothing at bind. A method may have another shape rule than O::shapes:
// entry<LayerNorm, &LayerNorm::gradient_x<float>, &LayerNorm::shapes_x>(Op::kLayerNormGradientX).
template <class O, auto Method, ShapeRule kShapes = &O::shapes>
constexpr KernelEntry entry(Op op, Rounding rounding = Rounding::kNone, uint8_t in_place = 0) {
  using A = Adapter<O, Method>;
  return {.op = op,
          .rounding = rounding,
          .in_place = in_place,
          .operand_count = uint8_t(A::kOperandCount),
          .operands = A::kOperands,
          .shapes = kShapes,
          .run = &A::run,
          .accepts = nullptr,
          .scratch_bytes = scratch_of<O, Method>(),
          .preparation = nullptr,
          .work = &A::work};
}

}  // namespace nacre::inline NACRE_ISA
