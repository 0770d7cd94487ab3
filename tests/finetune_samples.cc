// Makes data for the fine-tuning image and networks without labelled samples here: smooth random features in the shape
// of 49 frames of 10 cepstral coefficients for the keyword network, random pictures of 32 x 32 pixels for the image
// network. The labels are MODEL's own answers to these samples. The samples that are written, for training and for
// tests, are shifted as another microphone or another light does, with noise.
//
//   finetune_samples MODEL SEED TRAIN_SAMPLES TEST_SAMPLES DATA TEST     MODEL: the int8 network for inference
//
// DATA, TEST: samples one after the other, each its bytes and an int32 label. Integers from SplitMix64 alone: the same
// everywhere.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tools/base/error.h"
#include "tools/base/split_mix64.h"
#include "tools/model/loaded_model.h"

namespace {

using nacre::tools::SplitMix64;

constexpr int kFrames = 49, kCoefficients = 10, kKnots = 7, kSpacing = 8;  // frames between two knots
constexpr int kZero = 83;                                                  // code of 0 in the network's input
constexpr int kNoise = 6;
constexpr int kMostDraws = 20000;
constexpr size_t kClasses = 4;  // no class gets more than one of kClasses samples

constexpr int kSide = 32, kColours = 3, kShapes = 4;

using Sample = std::vector<uint8_t>;

int between(SplitMix64& random, int lowest, int highest) {
  return lowest + int(random.below(uint64_t(highest - lowest + 1)));
}

uint8_t code(int value) { return uint8_t(int8_t(std::clamp(value, -128, 127))); }

// Each coefficient is linear between knots, around a level of its own. The first one, the loudness, is lower, and the
// higher ones vary less, as in speech.
Sample draw_features(SplitMix64& random) {
  const int loudness = between(random, -160, 0), liveliness = between(random, 40, 240);
  Sample x(kFrames * kCoefficients);
  for (int c = 0; c < kCoefficients; ++c) {
    const int swing = liveliness / (2 + c), level = c == 0 ? loudness : between(random, -60, 60);
    int knot[kKnots + 1];
    for (int& k : knot) k = kZero + level + between(random, -swing, swing);
    for (int t = 0; t < kFrames; ++t) {
      const int i = t / kSpacing, part = t % kSpacing;
      x[size_t(t * kCoefficients + c)] = code((knot[i] * (kSpacing - part) + knot[i + 1] * part) / kSpacing);
    }
  }
  return x;
}

// Simulates another microphone: its frequency response adds a constant to each cepstral coefficient. Noise is added
// too.
Sample shifted_features(const Sample& x, SplitMix64& random) {
  static constexpr int kChannel[kCoefficients] = {40, -40, 40, -40, 30, -30, 20, -20, 10, -10};
  Sample y(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    y[i] = code(int8_t(x[i]) + kChannel[i % kCoefficients] + between(random, -kNoise, kNoise));
  return y;
}

// Draws a background that fades from one colour to another, and ellipses of other colours on it.
Sample draw_picture(SplitMix64& random) {
  const auto colour = [&] {
    std::array<int, kColours> c;
    for (int& level : c) level = between(random, -128, 127);
    return c;
  };
  const auto top = colour(), bottom = colour();
  Sample x(kSide * kSide * kColours);
  const auto paint = [&](int i, int j, const std::array<int, kColours>& c) {
    for (int k = 0; k < kColours; ++k) x[size_t((i * kSide + j) * kColours + k)] = code(c[size_t(k)]);
  };
  for (int i = 0; i < kSide; ++i)
    for (int j = 0; j < kSide; ++j) {
      std::array<int, kColours> mixed;
      for (size_t k = 0; k < kColours; ++k) mixed[k] = (top[k] * (kSide - 1 - i) + bottom[k] * i) / (kSide - 1);
      paint(i, j, mixed);
    }
  for (int shape = between(random, 1, kShapes); shape > 0; --shape) {
    const auto c = colour();
    const int y = between(random, 6, 25), z = between(random, 6, 25);
    const int high = between(random, 2, 12), wide = between(random, 2, 12);
    for (int i = 0; i < kSide; ++i)
      for (int j = 0; j < kSide; ++j) {
        const int dy = i - y, dz = j - z;
        if (dy * dy * wide * wide + dz * dz * high * high <= high * high * wide * wide) paint(i, j, c);
      }
  }
  return x;
}

// Simulates another light: half of the contrast, red brighter and blue darker, plus noise.
Sample shifted_picture(const Sample& x, SplitMix64& random) {
  static constexpr int kLight[kColours] = {50, 0, -50};
  Sample y(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    y[i] = code(int8_t(x[i]) / 2 + kLight[i % kColours] + between(random, -kNoise, kNoise));
  return y;
}

int32_t best(const std::vector<uint8_t>& scores) {
  size_t best = 0;
  for (size_t i = 1; i < scores.size(); ++i) best = int8_t(scores[i]) > int8_t(scores[best]) ? i : best;
  return int32_t(best);
}

class Set {
 public:
  Set(const char* path, size_t wanted) : file_(path, std::ios::binary), wanted_(wanted) {}

  bool full() const { return kept_ == wanted_; }

  // Keeps the sample unless the set is full or the class has its share already.
  void offer(const Sample& x, int32_t label) {
    size_t& taken = taken_[label];
    if (full() || taken * kClasses >= wanted_) return;
    ++taken, ++kept_;
    file_.write(reinterpret_cast<const char*>(x.data()), std::streamsize(x.size()));
    file_.write(reinterpret_cast<const char*>(&label), sizeof label);
  }

  // Returns a text such as "64 samples; of class 1: 12, 3: 2".
  std::string text() const {
    std::string text = std::to_string(kept_) + " samples; of class";
    for (const auto& [label, taken] : taken_) text += " " + std::to_string(label) + ": " + std::to_string(taken) + ",";
    text.pop_back();
    return text;
  }

 private:
  std::ofstream file_;
  size_t wanted_, kept_ = 0;
  std::map<int32_t, size_t> taken_;
};

void run(char** a) {
  using namespace nacre::tools;
  const LoadedModel model(a[1]);
  BoundProgram network(model, model.infer_program());
  const size_t bytes = network.program().input(0).size();
  const bool features = bytes == kFrames * kCoefficients;
  if (!features && bytes != kSide * kSide * kColours)
    throw Error(kBadInput, a[1], "its input is neither 49 x 10 nor 32 x 32 x 3 codes of int8",
                "give kws_ref_model or pretrainedResnet_quant, converted");
  SplitMix64 random(std::strtoull(a[2], nullptr, 10));
  Set sets[] = {Set(a[5], size_t(std::atoi(a[3]))), Set(a[6], size_t(std::atoi(a[4])))};
  for (int draws = 0; !sets[0].full() || !sets[1].full(); ++draws) {
    if (draws == kMostDraws)
      throw Error(kFailed, a[1], "the network gives nearly all of the drawn inputs the same class",
                  "ask for fewer samples");
    const Sample x = features ? draw_features(random) : draw_picture(random);
    const int32_t answer = best(network.run(x));
    const bool tested = sets[0].full() || (draws % 2 == 1 && !sets[1].full());
    sets[tested].offer(features ? shifted_features(x, random) : shifted_picture(x, random), answer);
  }
  for (const Set& set : sets) std::printf("%s\n", set.text().c_str());
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) {
    std::fprintf(stderr, "finetune_samples MODEL SEED TRAIN_SAMPLES TEST_SAMPLES DATA TEST\n");
    return 2;
  }
  try {
    run(arguments);
  } catch (const nacre::tools::Error& error) {
    std::fprintf(stderr, "finetune_samples: %s\n", error.what());
    return 1;
  }
  return 0;
}
