// Runs kernels whose op is ready: the op's struct, with the sizes and attributes that from() computes from words and
// shapes, is a constant. The call's `prepared` points at it (run/static_program.h). The image then holds no words,
// records or from(). A method can run in this way if all its parameters are addresses, and its op is trivially
// copyable and points at no words, operands or shapes.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "engine/kernels/adapter.h"

namespace nacre::inline NACRE_ISA {

// True if a parameter is scratch or the address of an operand, which get() makes without reading a tensor record.
template <class P>
inline constexpr bool kIsAddress = kIsScratch<P> || std::is_pointer_v<P>;
template <class T>
inline constexpr bool kIsAddress<Optional<T>> = true;
template <class T>
inline constexpr bool kIsAddress<Update<T>> = true;
template <class T, Layout kLayout>
inline constexpr bool kIsAddress<Packed<T, kLayout>> = true;

// True if an op points at its words, its operands or their shapes: it has a member `words`, `operands` or `a` of that
// type. Such an op is not a constant of its own.
template <class O>
inline constexpr bool kPointsElsewhere = requires { requires std::same_as<decltype(O::words), Words>; } || requires {
  requires std::same_as<decltype(O::operands), Operands>;
} || requires { requires std::same_as<decltype(O::a), Shape>; };

template <class O, auto Method>
struct Ready;

template <class O, class Base, class Result, class... P, Result (Base::*Method)(P...) const>
struct Ready<O, Method> {
  static constexpr bool kPossible = (kIsAddress<P> && ...) && std::is_trivially_copyable_v<O> && !kPointsElsewhere<O>;

  static Code run(const Args& args) {
    if constexpr (kPossible) return apply(*static_cast<const O*>(args.call.prepared), args);
    else return Code::kNoKernel;
  }

  // Does the work of Adapter::run. If kPossible, it shares the method's code with run().
  static Code run_of_words(const Args& args) {
    if constexpr (kPossible) return apply(O::from(args.words, args.operands()), args);
    else return Adapter<O, Method>::run(args);
  }

 private:
  // Calls the method. If code may be large, it is called on a local copy of the op: the compiler does not know that
  // stores of int8 outputs leave the constant unchanged.
  [[gnu::noinline]] static Code apply(const O& ready, const Args& args) {
#ifdef __OPTIMIZE_SIZE__
    return call(ready, args, std::index_sequence_for<P...>{});
#else
    const O op = ready;
    return call(op, args, std::index_sequence_for<P...>{});
#endif
  }

  template <class Q>
  static Q get(const Args& args, const Operands& o, int i) {
    if constexpr (kIsScratch<Q>) return Parameter<Q>::get(args);
    else return Parameter<Q>::get(o, i);
  }

  template <size_t... I>
  static Code call(const O& op, const Args& args, std::index_sequence<I...>) {
    const Operands o = args.operands();
    const Base& base = op;
    if constexpr (std::same_as<Result, Code>) {
      return (base.*Method)(get<P>(args, o, int(I))...);
    } else {
      (base.*Method)(get<P>(args, o, int(I))...);
      return Code::kOk;
    }
  }
};

}  // namespace nacre::inline NACRE_ISA
