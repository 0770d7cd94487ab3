// Options of a command as data: name, help text, destination of the value, and conditions under which the option acts.
// The code that registers, refuses or prints such options reads these tables (tools/cli/option_table.h, text_of below),
// so each row is the only definition of its option. Other options are registered in tools/cli directly.
//
//   std::vector<OptionRow<RunArguments>> rows = {
//       {.name = "--repeat", .value = "N", .help = "run every sample N times [1]",
//        .field = [](RunArguments& a) { return whole(a.repeat, 1, 1000); }}};
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tools/compile/stage.h"

namespace nacre::tools {

// An option without a value. `given`: what it sets `value` to.
struct Flag {
  bool* value;
  bool given = true;
};

// A number in decimal digits.
struct Whole {
  uint64_t low, high;
  std::function<uint64_t()> get;
  std::function<void(uint64_t)> set;
};
template <class T>
Whole whole(T& value, uint64_t low, uint64_t high) {
  return {low, high, [&value] { return uint64_t(value); }, [&value](uint64_t number) { value = T(number); }};
}

// One of several words.
struct Choice {
  std::vector<std::string> words;
  std::function<size_t()> index;  // of the present value; words.size(): no word
  std::function<void(size_t)> take;
};
template <class T>
Choice choice(T& value, const std::vector<std::pair<std::string, T>>& words) {
  Choice made;
  for (const auto& [word, unused] : words) made.words.push_back(word);
  made.index = [&value, words] {
    return size_t(std::ranges::find(words, value, &std::pair<std::string, T>::second) - words.begin());
  };
  made.take = [&value, words](size_t i) { value = words[i].second; };
  return made;
}
inline Choice choice(std::string& value, const std::vector<std::string>& words) {
  std::vector<std::pair<std::string, std::string>> same;
  for (const std::string& word : words) same.emplace_back(word, word);
  return choice(value, same);
}

// A list of values, each of which is one of `words`.
struct Choices {
  std::vector<std::string>* list;
  std::vector<std::string> words;
};

// Destination of an option's value. A list takes a value each time that the option is given, or several by a delimiter.
using OptionField =
    std::variant<Flag, Whole, Choice, Choices, std::string*, std::vector<std::string>*, float*, double*>;

// The option acts only if one of `with` is given, none of `without`, and `when` is true (empty ones demand nothing).
// Else it is refused with `fact` and `remedy`.
template <class Arguments>
struct ActsWhen {
  std::vector<std::string> with, without;
  std::function<bool(const Arguments&)> when;
  std::string fact, remedy;
};

enum class OptionText : uint8_t {
  kValue,    // the value itself
  kHash,     // the SHA-256 of the file's bytes
  kFile,     // only that a file was given
  kLeftOut,  // left out, because it does not change the result
};

template <class Arguments>
struct OptionRow {
  std::string name;   // "--lora"
  std::string value;  // what help calls its value: "RANK"; "" for a flag
  std::string help;   // with the default in brackets
  std::function<OptionField(Arguments&)> field;
  std::vector<ActsWhen<Arguments>> acts;
  OptionText text = OptionText::kValue;
  char delimiter = 0;                  // separates the values of a list within one text
  bool empty = false;                  // "" is a valid value
  bool hidden = false;                 // hidden from --help, because another option's text mentions it
  bool input = false, output = false;  // it names a file that is read, or written
  std::vector<std::string> (*files)(const std::string& value) = nullptr;  // null: the value is the file's path
  std::optional<Stage> stage = {};                                        // the converter's stage in which it acts
  std::string alias = "";                                                 // a second name, of other commands
};

template <class Arguments>
using OptionTable = std::vector<OptionRow<Arguments>>;

// Returns the texts of the field's values; none for a flag that is not given or a choice without a word.
std::vector<std::string> values_of(const OptionField& field);

template <class Arguments>
std::vector<std::string> names_of(const OptionTable<Arguments>& table) {
  std::vector<std::string> names;
  for (const OptionRow<Arguments>& row : table) names.push_back(row.name);
  return names;
}

// Returns "sha256:..." of a file's bytes.
std::string hash_text(const std::string& path);

// Returns the options that differ from their defaults, each as its OptionText says, for a model's metadata. The text
// begins with a blank, unless it is empty.
template <class Arguments>
std::string text_of(const OptionTable<Arguments>& table, Arguments given) {
  Arguments usual;
  std::string text;
  for (const OptionRow<Arguments>& row : table) {
    if (row.text == OptionText::kLeftOut) continue;
    const OptionField field = row.field(given);
    const std::vector<std::string> values = values_of(field);
    if (values == values_of(row.field(usual))) continue;
    if (std::holds_alternative<Flag>(field)) text += " " + row.name;
    else if (row.text == OptionText::kHash) text += fmt::format(" {} {}", row.name, hash_text(values[0]));
    else if (row.text == OptionText::kFile) text += fmt::format(" {} {}", row.name, row.value);
    else if (row.delimiter != 0)
      text += fmt::format(" {} {}", row.name, fmt::join(values, std::string(1, row.delimiter)));
    else
      for (const std::string& value : values) text += fmt::format(" {} {}", row.name, value);
  }
  return text;
}

}  // namespace nacre::tools
