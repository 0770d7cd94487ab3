// The topics of the golden tables (golden/policies.json), each with the check of its rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/base/json.h"

namespace nacre::test {

using json = nacre::tools::Json;

// Rows of one topic: how many, how many hold. A row that fails is printed with what was computed.
class Rows {
 public:
  explicit Rows(std::string topic) : topic_(std::move(topic)) {}

  void row(bool holds, const json& expected, const json& computed = nullptr);
  int count() const { return count_; }
  int passed() const { return passed_; }

 private:
  std::string topic_;
  int count_ = 0, passed_ = 0;
};

struct Topic {
  const char* name;
  void (*check)(const json& topic, Rows& rows);
};

std::span<const Topic> format_topics();   // golden_formats.cc: formats, codes, block scales
std::span<const Topic> scale_topics();    // golden_scales.cc: float8 scales, loss scales
std::span<const Topic> integer_topics();  // golden_integers.cc: int8, int4, ternary, requantization
std::span<const Topic> name_topics();     // golden_names.cc: policy names

// Values as the tables write them: "nan", "inf", "-inf" are strings, codes and bits hex strings.
double real_of(const json& value);
inline float float_of(const json& value) { return float(real_of(value)); }
uint32_t bits_of(const json& hex);
std::vector<float> floats_of(const json& list);

// Tells whether a and b are the same number: NaN is NaN, -0 is not 0.
bool same(double a, double b);

}  // namespace nacre::test
