// The part of claim no_silent_fallback about speed: which steps of real networks no fast kernel takes.
//
// On every tier each step's kernel, as `nacre inspect --json --target x86/TIER` prints it, must be the one that bind
// takes. The kernels of the reference must be those that tests/claims/reference_steps.txt lists, and no line of the
// list may be unused.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/model/loaded_model.h"

namespace nacre::test {

class ReferenceSteps {
 public:
  ReferenceSteps();  // reads the list

  void count(const tools::LoadedModel& model, const std::string& what);  // counts every program of the model
  // Counts every network that this class knows, for inference and for training. Networks of missing shared data are
  // skipped.
  void count_networks();

  int print() const;  // prints errors, then sums; returns the number of errors
  std::string text() const;

 private:
  bool listed(const std::string& kernel);
  void count_program(const tools::LoadedModel& model, uint32_t program, const std::string& tier,
                     const std::string& what);

  struct Line {
    std::string pattern, reason;
    std::map<std::string, uint64_t> steps = {};  // by kernel
  };
  std::vector<Line> lines_;  // lines of the list
  std::map<std::string, uint64_t> untrue_;
  std::set<std::string> tiers_;
  uint64_t programs_ = 0, steps_ = 0, bound_ = 0, reference_ = 0;
  int missing_ = 0;  // missing networks
};

}  // namespace nacre::test
