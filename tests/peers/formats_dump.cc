// Prints number formats for a script that compares them, as raw little-endian arrays.
//
//   formats_dump decode FORMAT                     the value of every code, float32
//   formats_dump encode FORMAT < float32           the code of every number
//   formats_dump range FORMAT FIRST COUNT          the codes of float32 patterns FIRST, FIRST + 1, ..
//
// Codes are uint8 or uint16, not saturating. FORMAT is named as ml_dtypes names it.
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/numeric/small_float.h"

namespace {

using namespace nacre;

constexpr size_t kChunk = 1 << 20;

template <class T>
bool put(const std::vector<T>& values) {
  return std::fwrite(values.data(), sizeof(T), values.size(), stdout) == values.size();
}

template <class T>
bool decode(int codes) {
  std::vector<float> values;
  for (int code = 0; code < codes; ++code) values.push_back(float(T::of_bits(decltype(T::bits)(code))));
  return put(values);
}

template <class T>
bool encode() {
  std::vector<float> values(kChunk);
  std::vector<decltype(T::bits)> codes;
  while (const size_t count = std::fread(values.data(), sizeof(float), kChunk, stdin)) {
    codes.clear();
    for (size_t i = 0; i < count; ++i) codes.push_back(T(values[i]).bits);
    if (!put(codes)) return false;
  }
  return std::ferror(stdin) == 0;
}

template <class T>
bool range(uint64_t first, uint64_t count) {
  std::vector<decltype(T::bits)> codes;
  for (uint64_t pattern = first; pattern < first + count;) {
    codes.clear();
    for (; codes.size() < kChunk && pattern < first + count; ++pattern)
      codes.push_back(T(std::bit_cast<float>(uint32_t(pattern))).bits);
    if (!put(codes)) return false;
  }
  return true;
}

template <class T>
bool run(int codes, int count, char** arguments) {
  if (std::strcmp(arguments[1], "decode") == 0) return decode<T>(codes);
  if (std::strcmp(arguments[1], "encode") == 0) return encode<T>();
  if (std::strcmp(arguments[1], "range") == 0 && count == 5)
    return range<T>(std::strtoull(arguments[3], nullptr, 0), std::strtoull(arguments[4], nullptr, 0));
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  constexpr struct {
    const char* name;
    bool (*run)(int codes, int count, char** arguments);
    int codes;
  } kFormats[] = {{"float16", run<Float16>, 65536},
                  {"bfloat16", run<Bfloat16>, 65536},
                  {"float8_e4m3fn", run<Float8E4M3>, 256},
                  {"float8_e5m2", run<Float8E5M2>, 256},
                  {"float8_e4m3fnuz", run<Float8E4M3Fnuz>, 256},
                  {"float8_e5m2fnuz", run<Float8E5M2Fnuz>, 256},
                  {"float8_e8m0fnu", run<Float8E8M0>, 256},
                  {"float4_e2m1fn", run<Float4E2M1>, 16}};
  if (count >= 3)
    for (const auto& format : kFormats)
      if (std::strcmp(arguments[2], format.name) == 0) return format.run(format.codes, count, arguments) ? 0 : 1;
  std::fprintf(stderr, "formats_dump {decode | encode | range} FORMAT [FIRST COUNT]: arguments wrong\n");
  return 2;
}
