// Compiles one family of fast kernels for one tier (instruction set). The build defines NACRE_FAMILY, its name;
// NACRE_RUN, its run.h; NACRE_ISA, the tier's name; and NACRE_VECTORS, the header of the tier's vectors.
#include NACRE_VECTORS
// NACRE_RUN uses the type Vector that NACRE_VECTORS defines.
#include NACRE_RUN
#include "engine/kernels/fast/lines.h"

namespace nacre {

namespace tier_of {
struct NACRE_ISA;
}
namespace family {
struct NACRE_FAMILY;
}

using List = decltype(fast::NACRE_FAMILY::lines<Vector>());

template <class Tier, class Family, int kIndex>
Code run_line(const Args& args) {
  return run_form<typename FormOf<kIndex, List>::Type>(args);
}

namespace {

template <class Indices>
struct Runs;
template <int... kIndex>
struct Runs<std::integer_sequence<int, kIndex...>> {
  static constexpr Kernel kAll[] = {&run_line<tier_of::NACRE_ISA, family::NACRE_FAMILY, kIndex>...};
};
// Refers to the function of every kernel of the family, so that each is compiled.
[[gnu::used]] const Kernel* const kRuns = Runs<std::make_integer_sequence<int, List::kCount>>::kAll;

}  // namespace
}  // namespace nacre
