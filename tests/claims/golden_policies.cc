// Claim: every numeric policy gives the numbers of the golden tables (golden/policies.json, 37 topics). Most functions
// are those that the engine and the converter use. Only the public header nacre/numeric.h and tests use block_scale.h
// and ternary.h. The checks keras_dense_int8 and tflite_fc_16x8 write out the formulas of whole layers. Prints topic,
// rows, passed.
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "tests/claims/claims.h"
#include "tests/claims/golden_topics.h"
#include "tests/project_path.h"

namespace nacre::test {

void Rows::row(bool holds, const json& expected, const json& computed) {
  ++count_;
  passed_ += holds;
  if (!holds)
    std::printf("FAIL %s: %s\n     computed %s\n", topic_.c_str(), expected.dump().c_str(), computed.dump().c_str());
}

double real_of(const json& value) {
  if (!value.is_string()) return value.get<double>();
  return std::strtod(value.get<std::string>().c_str(), nullptr);  // also parses "nan", "inf", "-inf"
}

uint32_t bits_of(const json& hex) { return uint32_t(std::stoul(hex.get<std::string>(), nullptr, 16)); }

std::vector<float> floats_of(const json& list) {
  std::vector<float> values;
  for (const json& value : list) values.push_back(float_of(value));
  return values;
}

bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

namespace {

json golden_tables() {
  std::ifstream file(tools::shared_path("golden/policies.json"));
  return file ? json::parse(file) : json();
}

int check_all(const json& tables) {
  std::map<std::string, const Topic*> topics;
  for (const auto list : {format_topics(), scale_topics(), integer_topics(), name_topics()})
    for (const Topic& topic : list) topics[topic.name] = &topic;
  int rows = 0, passed = 0, unknown = 0;
  std::printf("%-36s %6s %6s\n", "topic", "rows", "passed");
  for (const auto& [name, table] : tables.items()) {
    Rows seen(name);
    const auto topic = topics.find(name);
    if (topic == topics.end()) ++unknown;
    else topic->second->check(table, seen);
    std::printf("%-36s %6d %6d\n", name.c_str(), seen.count(), seen.passed());
    if (seen.count() == 0) ++unknown;
    rows += seen.count(), passed += seen.passed();
  }
  const bool shown = rows == passed && unknown == 0 && tables.size() == topics.size();
  std::printf("CLAIM golden_policies %s %d topics, %d rows, %d passed",
              shown ? "shown:" : "NOT SHOWN:", int(tables.size()), rows, passed);
  std::printf(unknown != 0 ? ", %d topics without a check\n" : "\n", unknown);
  return shown ? 0 : 1;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(golden_policies) {
  const nacre::tools::Json tables = nacre::test::golden_tables();
  if (tables.is_null()) {
    std::printf("golden_policies: no golden/policies.json; NACRE_SHARED names the folder that holds it\n");
    return 77;
  }
  return nacre::test::check_all(tables);
}
