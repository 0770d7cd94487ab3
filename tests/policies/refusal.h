// Catches a refusal of the policy language, and returns its label, text and code.
#pragma once

#include <string>

#include "tools/policies/policy_error.h"

namespace nacre::tools {

struct Refusal {
  std::string label;  // "": nothing was refused; "Error": an Error without a label
  std::string text;
  int code = 0;
};

Refusal refusal(auto act) {
  try {
    act();
    return {};
  } catch (const PolicyError& error) {
    return {error.label, error.what(), error.code};
  } catch (const Error& error) {
    return {"Error", error.what(), error.code};
  }
}

}  // namespace nacre::tools
