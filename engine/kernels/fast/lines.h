// Lists the kernels of a family: the types of their forms and the contents of their entries. The tables of a port
// (ports/vector/tables.h), in plain C++, and the files of an instruction set (ports/vector/family.cc) read the same
// list. Both name a kernel by its index in the list. An example:
//
//   template <class Tier>
//   constexpr auto lines() {
//     return floats<FastBinary>("Binary", Op::kBinary, Binary::shapes, 3) +
//            line<FastLookup>("LookupI8", Op::kLookup, Lookup::shapes, 1);
//   }
//
// The name of an entry is k, the name in its line and, from floats() and codes(), the types. A line also has the shape
// rule, in_place (bit i: y may be written over input i) and the rounding. A form is a struct; the parameters of its
// run() are the operands (entry.h). Tier is a struct (ports/x86/tables.cc, ...) or a vector type. It defines
//
//   kLanes                    numbers in a vector
//   kDotOffset, kFoursOffset  numbers that the dot products add to codes
//   kPairs                    columns that products of pairs of codes take at a time; 0 if there are no such products
//   kRealGroup                bfloat16 numbers that are multiplied together: 1 or 2
//   kDecodedGroup             the same for numbers of 8 bits, which are decoded to bfloat16 if it is 2, else to float32
#pragma once

#include <utility>

#include "engine/kernels/fast/entry.h"

namespace nacre::inline NACRE_ISA {

struct EntryName {
  char text[40] = {};

  constexpr EntryName() = default;
  constexpr EntryName(const char* name, const char* rest = "") {
    int at = 0;
    text[at++] = 'k';
    for (; *name != 0; ++name) text[at++] = *name;
    for (; *rest != 0; ++rest) text[at++] = *rest;
  }
};

struct Line {
  EntryName name;
  Op op = {};
  ShapeRule shapes = nullptr;
  uint8_t in_place = 0;
  Rounding rounding = Rounding::kNone;
};

template <class... Forms>
struct Lines {
  static constexpr int kCount = sizeof...(Forms);
  Line line[kCount];
};

template <class... A, class... B>
constexpr Lines<A..., B...> operator+(const Lines<A...>& a, const Lines<B...>& b) {
  Lines<A..., B...> both = {};
  for (int i = 0; i < a.kCount; ++i) both.line[i] = a.line[i];
  for (int i = 0; i < b.kCount; ++i) both.line[a.kCount + i] = b.line[i];
  return both;
}

// FormOf<kIndex, L>::Type is the form of line kIndex of the list L.
template <int kIndex, class L>
struct FormOf;
template <int kIndex, class First, class... Rest>
struct FormOf<kIndex, Lines<First, Rest...>> : FormOf<kIndex - 1, Lines<Rest...>> {};
template <class First, class... Rest>
struct FormOf<0, Lines<First, Rest...>> {
  using Type = First;
};

template <class Form>
constexpr Lines<Form> line(EntryName name, Op op, ShapeRule shapes, int in_place = 0,
                           Rounding rounding = Rounding::kNone) {
  return {{{name, op, shapes, uint8_t(in_place), rounding}}};
}

// Returns the lines of a form in float32, float16 and bfloat16.
template <template <class> class Form>
constexpr auto floats(const char* name, Op op, ShapeRule shapes, int in_place = 0) {
  return line<Form<float>>({name, "F32"}, op, shapes, in_place) +
         line<Form<Float16>>({name, "F16"}, op, shapes, in_place) +
         line<Form<Bfloat16>>({name, "Bf16"}, op, shapes, in_place);
}
template <int kLanes, template <int, class> class Form>
constexpr auto floats(const char* name, Op op, ShapeRule shapes, int in_place = 0) {
  return line<Form<kLanes, float>>({name, "F32"}, op, shapes, in_place) +
         line<Form<kLanes, Float16>>({name, "F16"}, op, shapes, in_place) +
         line<Form<kLanes, Bfloat16>>({name, "Bf16"}, op, shapes, in_place);
}

// Returns the lines of a form in int8, for the roundings `double` and `single`.
template <template <Rounding> class Form>
constexpr auto codes(const char* name, Op op, ShapeRule shapes, int in_place = 0) {
  return line<Form<Rounding::kDouble>>({name, "I8Double"}, op, shapes, in_place, Rounding::kDouble) +
         line<Form<Rounding::kSingle>>({name, "I8Single"}, op, shapes, in_place, Rounding::kSingle);
}

}  // namespace nacre::inline NACRE_ISA

namespace nacre {

// Runs the kernel of line kIndex of a family's list, compiled for a tier. Tier and Family are types that only name
// them, the same in all files. (Forms are other types in each file, in the namespace NACRE_ISA.)
// ports/vector/family.cc defines this function.
template <class Tier, class Family, int kIndex>
Code run_line(const Args& args);

}  // namespace nacre
