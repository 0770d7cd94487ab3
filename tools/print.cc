#include "tools/print.h"

#include <cstdio>

namespace nacre::tools {

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_json(const Json& json) { print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"); }

}  // namespace nacre::tools
