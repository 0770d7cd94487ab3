// Colours of words on a terminal: "nacre:" before an error, "warning:", the states of `nacre doctor`. Only in_colour()
// makes a colour. A file or a pipe gets the words alone.
#pragma once

#include <cstdint>
#include <string>

namespace nacre::tools {

enum class Colour : uint8_t { kGreen, kYellow, kRed };

// Says why words on a descriptor have colours or none.
enum class Colouring : uint8_t {
  kOn,
  kNoTerminal,  // it is a file or a pipe, or a caller runs the command (caller.h)
  kNoColor,     // the variable NO_COLOR is set and not empty (no-color.org)
  kDumb         // the variable TERM is "dumb", empty or not set
};
Colouring colouring(int descriptor);

// Returns the word between the sequences that begin and end the colour, if this descriptor has colours; else the word.
std::string in_colour(Colour colour, const std::string& word, int descriptor);

// Prints the word as print() does, in this colour.
void print_in_colour(Colour colour, const std::string& word);

// Writes "nacre: MESSAGE" and the end of the line to standard error. "nacre:" is red.
void complain_of(const std::string& message);

}  // namespace nacre::tools
