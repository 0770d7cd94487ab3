// The topics of the golden tables (golden/policies.json), each with the check of its rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/base/json.h"

namespace nacre::test {

using json = nacre::tools::Json;

// The rows of one topic: how many there are and how many hold. A failed row is printed with the computed value.
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

// Reads values as the tables write them: "nan", "inf", "-inf" are strings, codes and bits are hex strings.
double real_of(const json& value);
inline float float_of(const json& value) { return float(real_of(value)); }
uint32_t bits_of(const json& hex);
std::vector<float> floats_of(const json& list);

// Returns whether a and b are the same number. NaN equals NaN; -0 does not equal 0.
bool same(double a, double b);

}  // namespace nacre::test
