// The tables of other systems' numbers in the shared data: golden/policies.json.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

#include "tools/base/json.h"

namespace nacre::test {

inline std::string shared_path() {
  if (const char* path = std::getenv("NACRE_SHARED")) return path;
  return std::string(NACRE_ROOT) + "/../shared";
}

// A topic, null without the tables.
inline tools::Json golden(const char* topic) {
  std::ifstream file(shared_path() + "/golden/policies.json");
  return file ? tools::Json::parse(file).at(topic) : tools::Json();
}

#define GOLDEN_OR_SKIP(rows, topic)              \
  const nacre::tools::Json rows = golden(topic); \
  if (rows.is_null()) GTEST_SKIP() << "no golden tables at " << shared_path()

// A number of the tables: some are the words "inf" and "nan".
inline float number(const tools::Json& value) {
  return value.is_string() ? std::strtof(value.get<std::string>().c_str(), nullptr) : value.get<float>();
}

}  // namespace nacre::test
