// Runs a function that must refuse its input, and returns its sentence.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tools/base/error.h"

namespace nacre::tools {

// Returns the sentence of the Error that `run` throws, which must have this code. If nothing is thrown, the test
// fails.
inline std::string refused_with(const std::function<void()>& run, int code) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "was not refused";
  return "";
}

}  // namespace nacre::tools
