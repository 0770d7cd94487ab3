#include "tools/base/print.h"

#include <cstdio>

namespace nacre::tools {

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string printable(std::string text) {
  for (char& c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7F) c = '?';
  return text;
}

void print_json(const Json& json) { print(json.dump(2) + "\n"); }

}  // namespace nacre::tools
