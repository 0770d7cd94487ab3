// The half of claim no_silent_fallback that is about speed: which steps of real networks no fast kernel takes.
//
// On every tier each step's kernel, as `nacre inspect --json --target x86/TIER` prints it, is the one that bind takes,
// and those that the reference runs are the ones of tests/claims/reference_steps.txt: no other, and none in vain.
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

  void count(const tools::LoadedModel& model, const std::string& what);  // every program of it
  // Every network that this class knows, for inference and to be trained: those of the shared data that are there.
  void count_networks();

  int print() const;  // what is untrue, then sums; returns how much is untrue
  std::string text() const;

 private:
  bool listed(const std::string& kernel);
  void count_program(const tools::LoadedModel& model, uint32_t program, const std::string& tier,
                     const std::string& what);

  struct Line {
    std::string pattern, reason;
    std::map<std::string, uint64_t> steps = {};  // by kernel
  };
  std::vector<Line> lines_;  // of the list
  std::map<std::string, uint64_t> untrue_;
  std::set<std::string> tiers_;
  uint64_t programs_ = 0, steps_ = 0, bound_ = 0, reference_ = 0;
  int missing_ = 0;  // networks
};

}  // namespace nacre::test
