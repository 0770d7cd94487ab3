// Reads the shared data's tables of other systems' numbers: golden/policies.json.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/project_path.h"
#include "tools/base/json.h"

namespace nacre::test {

// Returns a topic, or null without the tables.
inline tools::Json golden(const char* topic) {
  std::ifstream file(tools::shared_path("golden/policies.json"));
  return file ? tools::Json::parse(file).at(topic) : tools::Json();
}

#define GOLDEN_OR_SKIP(rows, topic)              \
  const nacre::tools::Json rows = golden(topic); \
  if (rows.is_null()) GTEST_SKIP() << "no golden tables at " << nacre::tools::shared_path("golden")

// Returns a number of the tables, in which infinity and NaN are the words "inf" and "nan".
inline float number(const tools::Json& value) {
  return value.is_string() ? std::strtof(value.get<std::string>().c_str(), nullptr) : value.get<float>();
}

}  // namespace nacre::test
