#include "tools/base/print.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "tools/base/caller.h"
#include "tools/base/colour.h"
#include "tools/base/foreign_text.h"
#include "tools/base/held_pipe_signal.h"

namespace nacre::tools {

namespace {

std::FILE* printed_to = nullptr;  // null: standard output
int first_failure = 0;            // errno of the first failed write to standard output; 0: no write failed
bool outlives_reader = false;     // a pipe whose reader has ended does not end the program

void keep_failure(bool written) {
  if (!written && first_failure == 0) first_failure = errno != 0 ? errno : EIO;
}

// Prints a text without control codes but those of colours.
void print_shown(const std::string& shown) {
  if (Caller* const to = caller()) return to->print(shown);
  if (printed_to != nullptr) return complain(shown);
  const HeldPipeSignal held(outlives_reader);
  errno = 0;
  keep_failure(std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size());
}

}  // namespace

void print(const std::string& text) { print_shown(visible_lines(text)); }
void print_in_colour(Colour colour, const std::string& word) {
  print_shown(in_colour(colour, visible_lines(word), printed_to != nullptr ? STDERR_FILENO : STDOUT_FILENO));
}
void print_to_standard_error() { printed_to = stderr; }
void print_to_the_end() { outlives_reader = true; }

void note(const std::string& line) {
  const std::string shown = visible_lines(line);
  if (Caller* const to = caller()) to->note(shown);
  else complain(shown + "\n");
}

void warn(const std::string& sentence) {
  const std::string shown = visible_lines(sentence);
  if (Caller* const to = caller()) to->warn(shown);
  else complain(in_colour(Colour::kYellow, "warning:", STDERR_FILENO) + " " + shown + "\n");
}

void complain(const std::string& text) {
  const HeldPipeSignal held(true);
  const bool written = std::fwrite(text.data(), 1, text.size(), stderr) == text.size() && std::fflush(stderr) == 0;
  if (!written) std::clearerr(stderr);
}

int flush_printed() {
  const HeldPipeSignal held(outlives_reader);
  errno = 0;
  keep_failure(std::fflush(stdout) == 0 && std::ferror(stdout) == 0);
  return first_failure;
}

std::string printable(std::string text) {
  for (char& c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7F) c = '?';
  return text;
}

void print_json(const Json& json) { print(json.dump(2) + "\n"); }

}  // namespace nacre::tools
