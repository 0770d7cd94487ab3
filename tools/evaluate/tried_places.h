// Measures which steps of a program XNNPACK runs faster than our own kernels on this machine.
//
// Two bound programs run their steps one after the other, on the same inputs, in turns: a round is one run of each. One
// program has all steps on our fastest kernels, the other has every step that XNNPACK takes on XNNPACK. A step moves to
// XNNPACK if the upper quartile of the rounds' ratios, XNNPACK's time to ours, is below 1. The time of a step includes
// reading the clock, in both programs.
//
// Only whole runs show the cost of going from one library's kernels to the other's. So a program with the moved steps
// then runs in turns with the program without. If the upper quartile of these ratios is not below 1, no step moves.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace nacre::tools {

struct Quartiles {
  double lower, median, upper;
};

struct TriedStep {
  std::string own, xnnpack;           // kernels, "avx2/dense_f32"; xnnpack "" if it does not take the step
  double own_us = 0, xnnpack_us = 0;  // medians
  Quartiles ratio = {1, 1, 1};        // xnnpack to own, round by round

  bool faster() const { return !xnnpack.empty() && ratio.upper < 1; }
};

struct TriedPlaces {
  std::vector<TriedStep> steps;
  std::string own;                  // set of kernels
  uint32_t taken = 0;               // steps that XNNPACK takes
  uint64_t rounds = 0;              // rounds of single steps
  uint64_t whole_rounds = 0;        // rounds of whole runs; 0: no step was faster
  double own_us = 0, moved_us = 0;  // of whole runs, medians
  Quartiles ratio = {1, 1, 1};      // moved to own, round by round
  std::vector<uint8_t> places;      // the result, by step

  bool moved() const { return whole_rounds > 0 && ratio.upper < 1; }
};

// `write` returns the model's bytes with these places, by step. `threads` is for our own kernels. The machine must
// have XNNPACK.
TriedPlaces try_places(const std::function<std::vector<uint8_t>(std::span<const uint8_t> places)>& write, size_t steps,
                       uint32_t threads, const std::string& name);

}  // namespace nacre::tools
