#include "tools/base/colour.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "tools/base/caller.h"
#include "tools/base/print.h"

namespace nacre::tools {
namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Colouring colouring(int descriptor) {
  if (caller() != nullptr || isatty(descriptor) != 1) return Colouring::kNoTerminal;
  if (!variable("NO_COLOR").empty()) return Colouring::kNoColor;
  const std::string_view terminal = variable("TERM");
  return terminal.empty() || terminal == "dumb" ? Colouring::kDumb : Colouring::kOn;
}

// Select Graphic Rendition (ECMA-48, 8.3.117): 31 red, 32 green, 33 yellow, 0 ends it.
std::string in_colour(Colour colour, const std::string& word, int descriptor) {
  if (colouring(descriptor) != Colouring::kOn) return word;
  constexpr const char* kBegins[] = {"\x1b[32m", "\x1b[33m", "\x1b[31m"};
  return kBegins[size_t(colour)] + word + "\x1b[0m";
}

void complain_of(const std::string& message) {
  complain(in_colour(Colour::kRed, "nacre:", STDERR_FILENO) + " " + message + "\n");
}

}  // namespace nacre::tools
