#include "tests/claims/timed_rounds.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace nacre::test {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double time_of(const Timed& timed, int count) {
  if (timed.clock) return timed.clock(count);
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < count; ++i) timed.run();
  return since(start);
}

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  const double at = q * double(values.size() - 1);
  const auto low = size_t(at);
  return values[low] + (at - double(low)) * (values[std::min(low + 1, values.size() - 1)] - values[low]);
}

}  // namespace

int time_in_turns(std::vector<Timed>& contenders, const Rounds& rounds) {
  const Clock::time_point start = Clock::now();
  std::vector<int> counts;
  for (const Timed& timed : contenders) {
    int count = 1;
    time_of(timed, 1);
    for (double seconds = time_of(timed, 1); seconds >= 0 && seconds < rounds.burst_seconds;
         seconds = time_of(timed, count))
      count *= 2;
    counts.push_back(count);
  }
  double longest = 0;
  for (int round = 0; round < rounds.count; ++round) {
    const double begun = since(start);
    if (begun + longest > rounds.limit_seconds) return round;
    for (size_t i = 0; i < contenders.size(); ++i) {
      const size_t at = (i + size_t(round)) % contenders.size();
      time_of(contenders[at], 1);  // untimed, because the caches hold the last contender's data
      const double seconds = time_of(contenders[at], counts[at]);
      contenders[at].seconds.push_back(seconds < 0 ? NAN : seconds / counts[at]);
    }
    longest = std::max(longest, since(start) - begun);
  }
  return rounds.count;
}

Ratio quartiles(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  if (values.empty()) return {};
  return {quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75)};
}

Ratio ratio(const Timed& numerator, const Timed& denominator) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(numerator.seconds.size(), denominator.seconds.size()); ++i)
    ratios.push_back(numerator.seconds[i] / denominator.seconds[i]);
  return quartiles(std::move(ratios));
}

double median_seconds(const Timed& timed) { return quartiles(timed.seconds).median; }

void Bars::at_least(const std::string& what, const Ratio& found, double least, double wide) {
  const bool met = found.high >= least;
  ++all_;
  missed_ += met ? 0 : 1;
  far_ += found.high < least / wide ? 1 : 0;
  std::printf("%s %s: %.2f [%.2f, %.2f], at least %.2f\n", met ? "MET    " : "NOT MET", what.c_str(), found.median,
              found.low, found.high, least);
}

int Bars::print(const std::string& about) const {
  if (missed_ == 0) {
    std::printf("CLAIM %s shown: %d of %d bars are met, %s\n", claim_, all_, all_, about.c_str());
    return 0;
  }
  const bool fails = strict_ || far_ > 0;
  std::printf("CLAIM %s NOT SHOWN: %d of %d bars are missed, %d of them by far, with a load of %.2f, %s%s\n", claim_,
              missed_, all_, far_, load_of_machine(), about.c_str(),
              fails ? "" : "; run it with `strict` where nothing else runs");
  return fails ? 1 : 77;
}

double load_of_machine() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : -1;
}

}  // namespace nacre::test
