// Compares a function as the port declares it with NVIDIA's header, for the files of declared/. The headers have
// enums for which the port has integers of the same size, and other names for structs that are passed by address.
#pragma once

#include <tuple>
#include <type_traits>

namespace nacre::cuda {

template <class T>
struct Plain {
  using Type = T;
};
template <class T>
  requires std::is_enum_v<T>
struct Plain<T> {
  using Type = std::underlying_type_t<T>;
};
template <class T>
struct Plain<T*> {  // a handle, or an address
  using Type = void*;
};

template <class F>
struct Signature;
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using Type = std::tuple<typename Plain<A>::Type...>;
  static_assert(sizeof(R) == sizeof(int));
};

template <class Ours, class Theirs>
constexpr bool same_signature() {
  return std::is_same_v<typename Signature<Ours>::Type, typename Signature<Theirs>::Type>;
}

}  // namespace nacre::cuda

// For the lists of library.h, where `Library` is the struct.
#define NACRE_LIBRARY_DECLARED(name, symbol, ...) \
  static_assert(same_signature<decltype(Library::name), decltype(&::symbol)>(), #symbol);
