// Times in one process, for claims about speed: contenders that run in turns, ratios by round, and what to make of them
// where the machine has other work to do.
//
// A claim about time is shown, or not: on a machine that others use, no bar that is missed says anything. So a bar that
// is missed is NOT SHOWN, with the load as a reason, and the suite counts it as skipped; only what is far off, beyond
// `wide` times the bar, fails. `strict` as the first argument of the claim, on a machine that does nothing else, makes
// every missed bar a failure.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace nacre::test {

struct Timed {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds = {};  // of one run, by round
  // Seconds of so many runs by another clock than the host's, in place of `run`; below 0: they failed.
  std::function<double(int)> clock = {};
};

inline constexpr int kTimedRounds = 11;

struct Rounds {
  int count = kTimedRounds;
  double burst_seconds = 5e-3;
  double limit_seconds = 1e9;  // no round begins that would end behind it, if it took as long as the longest
};

// Chooses how often each runs in a round, then runs all of them in every round, in an order that is rotated. How many
// rounds there were; where a clock fails the contender's time of that round is no number.
int time_in_turns(std::vector<Timed>& contenders, const Rounds& rounds = {});

struct Ratio {
  double low = 0, median = 0, high = 0;  // quartiles over the rounds; 0: there were none
};
Ratio quartiles(std::vector<double> values);  // of those that are numbers
Ratio ratio(const Timed& numerator, const Timed& denominator);
double median_seconds(const Timed& timed);

class Bars {
 public:
  explicit Bars(const char* claim, bool strict) : claim_(claim), strict_(strict) {}

  // Met where the upper quartile reaches `least`; far off below least / wide.
  void at_least(const std::string& what, const Ratio& found, double least, double wide = 3);

  int print(const std::string& about) const;  // the claim's line; its exit code

 private:
  const char* claim_;
  bool strict_;
  int all_ = 0, missed_ = 0, far_ = 0;
};

double load_of_machine();  // of the last minute

}  // namespace nacre::test
