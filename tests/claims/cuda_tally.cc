#include "tests/claims/cuda_tally.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace nacre::test {
namespace {

unsigned long long n(uint64_t v) { return v; }

int told(const char* claim, const Tally& tally, bool simulated) {
  if (tally.failures != 0) {
    tally.print_repeated();
    std::printf("CLAIM %s NOT SHOWN: %llu checks failed\n", claim, n(tally.failures));
    return 1;
  }
  std::printf(
      "CLAIM %s %s: %llu cases of every entry, %llu models, with own kernels and with %llu products by cuBLASLt; %llu "
      "numbers, %llu of them to the bit\n",
      claim, simulated ? "NOT SHOWN: no GPU; its checks hold on the simulated device" : "shown", n(tally.cases),
      n(tally.models), n(tally.products), n(tally.elements), n(tally.exact));
  return simulated ? 77 : 0;
}

}  // namespace

double unit_of(ElementType type) {  // returns 2^-(bits of the significand after its first)
  switch (type) {
    case ElementType::kFloat64: return 0x1p-52;
    case ElementType::kFloat32: return 0x1p-23;
    case ElementType::kFloat16: return 0x1p-10;
    case ElementType::kBfloat16: return 0x1p-7;
    case ElementType::kFloat8E4M3: return 0x1p-3;
    case ElementType::kFloat8E5M2: return 0x1p-2;
    default: return 0;
  }
}

double largest_of(const Array& array) {
  double largest = 0;
  for (int64_t i = 0; array.present() && i < array.elements(); ++i)
    if (std::isfinite(array.real(i))) largest = std::max(largest, std::abs(array.real(i)));
  return largest;
}

bool within(const Array& got, const Array& want, Tally& tally) {
  const double unit = unit_of(want.element) == 0 ? 0 : std::max(unit_of(want.element), tally.least_unit);
  const double share = want.element == ElementType::kFloat64 ? tally.share * 0x1p-29 : tally.share;
  if (unit == 0) {
    tally.elements += uint64_t(want.elements()), tally.exact += uint64_t(want.elements());
    return got.bytes == want.bytes;
  }
  const double largest = largest_of(want);
  bool all = true;
  tally.beyond = 0;
  for (int64_t i = 0; i < want.elements(); ++i) {
    const double a = got.real(i), b = want.real(i), bound = unit * std::abs(b) + share * largest + tally.besides;
    const bool same = a == b || (std::isnan(a) && std::isnan(b));
    ++tally.elements, tally.exact += same;
    all &= same || std::abs(a - b) <= bound;
    if (!same && std::abs(a - b) > tally.beyond * bound)
      tally.beyond = std::abs(a - b) / bound, tally.found = a, tally.wanted = b;
  }
  return all;
}

int on_gpu(const char* claim, int count, char** arguments, const RunOnGpu& run) {
  const bool simulated = count > 1 && std::strcmp(arguments[1], "simulated") == 0;
  Tally tally;
  for (const bool products : {false, true}) {
    Gpu gpu(simulated, products);
    if (!gpu.open) return std::printf("CLAIM %s NOT SHOWN: %s\n", claim, gpu.device.sentence()), 77;
    if (!products) std::printf("%s\n", gpu.device.name());
    if (!tally.that(gpu.device.has_products() == products, "cuBLASLt opens")) break;
    tally.share = products ? kFloat8Share : kOwnShare;  // the share for models, which contain products
    run(tally, gpu.device, count - (simulated ? 1 : 0), arguments + (simulated ? 1 : 0));
    tally.products += gpu.device.counts().products;
  }
  return told(claim, tally, simulated);
}

}  // namespace nacre::test
