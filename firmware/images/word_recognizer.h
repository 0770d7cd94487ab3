// Recognizes words in a stream from the scores that a network gives, in every run, of the stream's last second. The
// rule is much like that of micro_speech's recognize_commands (TensorFlow Lite Micro):
//
//   a_c = mean of (score_c + 128) over the last `window` runs, 0 to 255
//   c   = the class with the largest a_c, of equals the first
//   A word is heard if a_c > threshold and c is new: another class than the last heard one, or that one was more than
//   `suppression` runs ago. So a spoken word, which is in the network's window for many runs, is heard once.
//
// The first `lead` runs do not count, because the network's window is not full yet. Classes before `first_word`
// (silence and unknown) are not words; after one of them any word is new. It uses no heap and no float, so it suits a
// microcontroller.
#pragma once

#include <cstdint>
#include <span>

namespace nacre::samples {

struct Heard {
  int word;     // the class, or -1 if no word was heard
  int average;  // a_c
};

struct HearingRule {
  int lead, window, suppression;  // runs
  int threshold, first_word;
};

// Returns the rule for a run every `ms` milliseconds over a window of a second: means over half a second; the same word
// is heard again after 1.5 s.
constexpr HearingRule hearing_rule(int ms) {
  return {
      .lead = (1000 + ms - 1) / ms, .window = 500 / ms, .suppression = 1500 / ms, .threshold = 200, .first_word = 2};
}

class WordRecognizer {
 public:
  static constexpr int kMostClasses = 16, kMostWindow = 64;

  // Must be called before the first run of a stream. rule.window is 1 to kMostWindow.
  void start(const HearingRule& rule) {
    rule_ = rule;
    for (int32_t& sum : sums_) sum = 0;
    next_ = filled_ = last_ = since_ = 0;
  }

  // Takes the scores of the next run, int8 as a softmax gives them, of at most kMostClasses classes.
  Heard hear(std::span<const int8_t> scores) {
    if (rule_.lead > 0) {
      --rule_.lead;
      return {-1, 0};
    }
    const int best = average(scores);
    const int mean = sums_[best] / rule_.window;
    if (since_ <= rule_.suppression) ++since_;
    if (filled_ < rule_.window || mean <= rule_.threshold) return {-1, mean};
    if (best == last_ && since_ <= rule_.suppression) return {-1, mean};
    last_ = best;
    since_ = 0;
    return {best < rule_.first_word ? -1 : best, mean};
  }

 private:
  // Adds the scores to the sums and subtracts the oldest ones. Returns the class with the largest sum.
  int average(std::span<const int8_t> scores) {
    int best = 0;
    int8_t(&row)[kMostClasses] = scores_[next_];
    for (int c = 0; c < int(scores.size()); ++c) {
      if (filled_ == rule_.window) sums_[c] -= row[c] + 128;
      row[c] = scores[size_t(c)];
      sums_[c] += row[c] + 128;
      if (sums_[c] > sums_[best]) best = c;
    }
    if (filled_ < rule_.window) ++filled_;
    next_ = next_ + 1 == rule_.window ? 0 : next_ + 1;
    return best;
  }

  HearingRule rule_ = {};
  int8_t scores_[kMostWindow][kMostClasses] = {};  // of the last `window` runs, a ring
  int32_t sums_[kMostClasses] = {};
  int next_ = 0, filled_ = 0;  // the row for the next run; rows that hold scores
  int last_ = 0, since_ = 0;   // the class that was above the threshold last, and how many runs ago
};

}  // namespace nacre::samples
