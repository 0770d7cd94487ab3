#include "ports/cortex_m/cortex_m.h"
#include "ports/cortex_m/entry_functions.h"

#include "engine/kernels/fast/entry.h"
#include "engine/kernels/ready.h"

namespace nacre::cortex_m {
namespace {

template <class O, auto Method, ShapeRule kShapes>
constexpr KernelEntry entry_of(Op op, Rounding rounding, uint8_t in_place, Kernel run) {
  KernelEntry made = entry<O, Method, kShapes>(op, rounding, in_place);
  made.run = run, made.accepts = accepts_of<O>();
  return made;
}

}  // namespace

#define NACRE_ENTRY(name, op, rounding, in_place, type, rule, ...)                            \
  namespace functions {                                                                       \
  Code name(const Args& args) { return Ready<type, &type::__VA_ARGS__>::run_of_words(args); } \
  }                                                                                           \
  namespace ready {                                                                           \
  Code name(const Args& args) { return Ready<type, &type::__VA_ARGS__>::run(args); }          \
  }                                                                                           \
  constexpr KernelEntry name =                                                                \
      entry_of<type, &type::__VA_ARGS__, &rule>(Op::op, Rounding::rounding, in_place, functions::name);
#include "ports/cortex_m/kernels.inc"

}  // namespace nacre::cortex_m
