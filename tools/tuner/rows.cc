#include "tools/tuner/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/option_id.h"
#include "tools/base/split_mix64.h"
#include "tools/evaluate/sample_data.h"

namespace nacre::tools {
namespace {

// Epoch number of the draw that chooses rows for validation; no epoch has this number.
constexpr uint64_t kSplitEpoch = ~uint64_t{0};

std::vector<int64_t> drawn(int64_t rows, double fraction, uint64_t seed) {
  if (!(fraction > 0 && fraction < 1))
    throw Error(kUsage, option("validate"), fmt::format("is {}", fraction),
                "give a fraction between 0 and 1, or a .npy of rows");
  const int64_t count = std::llround(fraction * double(rows));
  if (count < 1 || count >= rows)
    throw Error(kBadInput, option("validate"),
                fmt::format("{} of {} leaves {} to validate on and {} to train on", fraction,
                            counted(uint64_t(rows), "row"), count, rows - count),
                "give another fraction, or more data");
  std::vector<int64_t> order = shuffled(rows, seed, kSplitEpoch);
  order.resize(size_t(count));
  std::ranges::sort(order);
  return order;
}

std::vector<int64_t> listed(int64_t rows, const std::string& path) {
  std::vector<int64_t> list = read_rows(path, rows);
  std::ranges::sort(list);
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] < 0 || list[i] >= rows)
      throw Error(kBadInput, path,
                  fmt::format("names row {}, but there are {}", list[i], counted(uint64_t(rows), "row")),
                  "give numbers of rows, from 0");
    if (i > 0 && list[i] == list[i - 1])
      throw Error(kBadInput, path, fmt::format("names row {} twice", list[i]),
                  "name each once; a mask of all rows is a .npy of bools");
  }
  if (int64_t(list.size()) == rows) throw Error(kBadInput, path, "names every row: none is left to train on");
  return list;
}

// Returns the fraction that `validate` states, or nothing if it names a file.
std::optional<double> fraction_of(const std::string& validate) {
  double fraction = 0;
  const auto [end, error] = std::from_chars(validate.data(), validate.data() + validate.size(), fraction);
  if (error != std::errc() || end != validate.data() + validate.size()) return std::nullopt;
  return fraction;
}

}  // namespace

std::vector<int64_t> shuffled(int64_t rows, uint64_t seed, uint64_t epoch) {
  SplitMix64 of_epoch(epoch);
  of_epoch.next();
  SplitMix64 draw(SplitMix64(seed).next() + of_epoch.next());
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (size_t j = order.size(); j-- > 1;) std::swap(order[j], order[size_t(draw.below(j + 1))]);
  return order;
}

bool draws_rows(const std::string& validate) { return fraction_of(validate).has_value(); }

Split split_rows(int64_t rows, const std::string& validate, uint64_t seed) {
  Split split;
  if (!validate.empty()) {
    const std::optional<double> fraction = fraction_of(validate);
    split.validate = fraction ? drawn(rows, *fraction, seed) : listed(rows, validate);
  }
  for (int64_t row = 0; row < rows; ++row)
    if (!std::ranges::binary_search(split.validate, row)) split.train.push_back(row);
  return split;
}

}  // namespace nacre::tools
