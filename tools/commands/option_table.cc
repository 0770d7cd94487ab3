#include "tools/commands/option_table.h"

#include "tools/files/npy.h"
#include "tools/model/writer.h"

namespace nacre::tools {
namespace {

struct ValuesOf {
  using Values = std::vector<std::string>;
  Values operator()(const Flag& flag) const { return *flag.value == flag.given ? Values{""} : Values{}; }
  Values operator()(const Whole& number) const { return {std::to_string(number.get())}; }
  Values operator()(const Choice& choice) const {
    const size_t i = choice.index();
    return i < choice.words.size() ? Values{choice.words[i]} : Values{};
  }
  Values operator()(const Choices& choices) const { return *choices.list; }
  Values operator()(const std::string* text) const { return {*text}; }
  Values operator()(const Values* list) const { return *list; }
  Values operator()(const float* number) const { return {fmt::format("{}", *number)}; }
  Values operator()(const double* number) const { return {fmt::format("{}", *number)}; }
};

}  // namespace

std::vector<std::string> values_of(const OptionField& field) { return std::visit(ValuesOf(), field); }

std::string hash_text(const std::string& path) { return "sha256:" + sha256(read_file(path)); }

}  // namespace nacre::tools
