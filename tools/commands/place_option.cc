#include "tools/commands/place_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

constexpr std::string_view kPort = "xnnpack=";

// Reads decimal digits from the front of `text` and removes them. Returns false if there are none.
bool take_number(std::string_view& text, size_t* number) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  if (error != std::errc()) return false;
  text.remove_prefix(size_t(rest - text.data()));
  return true;
}

// Reads "2-4" or "3" as first and last.
bool take_range(std::string_view& text, size_t* first, size_t* last) {
  if (!take_number(text, first)) return false;
  *last = *first;
  if (!text.starts_with('-')) return true;
  text.remove_prefix(1);
  return take_number(text, last) && *first <= *last;
}

}  // namespace

std::vector<uint8_t> parse_places(const std::string& text, size_t steps) {
  std::vector<uint8_t> places(steps, 0);
  if (text.empty()) return places;
  const std::string option = "--place " + text;
  if (!text.starts_with(kPort))
    throw Error(kUsage, option, "names no port: there is xnnpack", "write --place xnnpack=0,2-4");
  for (std::string_view rest = std::string_view(text).substr(kPort.size());;) {
    size_t first = 0, last = 0;
    if (!take_range(rest, &first, &last) || (!rest.empty() && !rest.starts_with(',')))
      throw Error(kUsage, option, "is no list of steps", "write --place xnnpack=0,2-4");
    if (last >= steps)
      throw Error(kUsage, option, fmt::format("the program has {}, the first of which is 0", counted(steps, "step")),
                  "nacre inspect --steps lists them");
    std::fill(places.begin() + ptrdiff_t(first), places.begin() + ptrdiff_t(last) + 1, kXnnpackPlace);
    if (rest.empty()) return places;
    rest.remove_prefix(1);
  }
}

void require_xnnpack(const std::string& option) {
  if (xnnpack_port() != nullptr) return;
  const std::vector<std::string> choices = kernel_choices();
  if (std::ranges::find(choices, "xnnpack") == choices.end())
    throw Error(kUnsupported, option, "this nacre is built without XNNPACK: there are only our own kernels",
                "build it with -Dxnnpack=enabled, or leave it out");
  throw Error(kUnsupported, option, "XNNPACK does not run on this processor", "leave it out");
}

std::string places_text(std::span<const uint8_t> places) {
  std::string text;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] != kXnnpackPlace) continue;
    const size_t first = i;
    while (i + 1 < places.size() && places[i + 1] == kXnnpackPlace) ++i;
    text += (text.empty() ? "" : ",") + (i == first ? fmt::format("{}", i) : fmt::format("{}-{}", first, i));
  }
  return text.empty() ? text : std::string(kPort) + text;
}

}  // namespace nacre::tools
