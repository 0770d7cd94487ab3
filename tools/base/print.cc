#include "tools/base/print.h"

#include <cstdio>

#include "tools/base/caller.h"

namespace nacre::tools {

namespace {

std::FILE* printed_to = nullptr;  // null: standard output

}  // namespace

void print(const std::string& text) {
  if (Caller* const to = caller()) to->print(text);
  else std::fwrite(text.data(), 1, text.size(), printed_to == nullptr ? stdout : printed_to);
}
void print_to_standard_error() { printed_to = stderr; }

void note(const std::string& line) {
  if (Caller* const to = caller()) to->note(line);
  else std::fprintf(stderr, "%s\n", line.c_str());
}

std::string printable(std::string text) {
  for (char& c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7F) c = '?';
  return text;
}

void print_json(const Json& json) { print(json.dump(2) + "\n"); }

}  // namespace nacre::tools
