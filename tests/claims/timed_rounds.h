// Times in one process, for claims about speed. Contenders run in turns, and ratios are taken within a round. It also
// decides what a time means if the machine has other work.
//
// A claim about time is shown, or not. On a machine that others use a missed bar says nothing, so it is NOT SHOWN,
// with the load as a reason, and the suite counts it as skipped. Only a time that is far off, beyond `wide` times the
// bar, fails. `strict` as the claim's first argument, on a machine that does nothing else, makes every missed bar a
// failure.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace nacre::test {

struct Timed {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds = {};  // seconds of one run, by round
  // Returns the seconds of so many runs by another clock than the host's, in place of `run`; below 0 if they failed.
  std::function<double(int)> clock = {};
};

inline constexpr int kTimedRounds = 11;

struct Rounds {
  int count = kTimedRounds;
  double burst_seconds = 5e-3;
  double limit_seconds = 1e9;  // no round begins that would end later, at the pace of the longest
};

// Chooses how often each contender runs in a round. Then runs all of them in every round, in an order that rotates.
// Returns how many rounds there were. If a clock fails, the contender's time of that round is NaN.
int time_in_turns(std::vector<Timed>& contenders, const Rounds& rounds = {});

struct Ratio {
  double low = 0, median = 0, high = 0;  // quartiles over the rounds; 0 if there were none
};
Ratio quartiles(std::vector<double> values);  // ignores NaN
Ratio ratio(const Timed& numerator, const Timed& denominator);
double median_seconds(const Timed& timed);

class Bars {
 public:
  explicit Bars(const char* claim, bool strict) : claim_(claim), strict_(strict) {}

  // The bar is met if the upper quartile reaches `least`, and far off if it is below least / wide.
  void at_least(const std::string& what, const Ratio& found, double least, double wide = 3);

  int print(const std::string& about) const;  // prints the claim's line; returns its exit code

 private:
  const char* claim_;
  bool strict_;
  int all_ = 0, missed_ = 0, far_ = 0;
};

double load_of_machine();  // over the last minute

}  // namespace nacre::test
