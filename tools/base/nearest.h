// Finds names close to a wrong one. Errors suggest them, because one of them was probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nacre::tools {

// Returns the least number of characters to insert, delete or replace that makes `a` into `b` (Wagner and Fischer
// 1974, doi:10.1145/321796.321811). Letters' case is ignored. Time |a| |b|.
size_t edit_distance(std::string_view a, std::string_view b);

// Returns at most `limit` of the names, nearest first; equally near names keep their order. No name is farther than a
// third of the wrong name's length (and 2). Names longer than 200 characters are not compared: a file must not be
// able to make this slow.
std::vector<std::string> nearest_names(std::string_view wrong, std::span<const std::string> names, size_t limit = 3);

// Returns "a", "a or b", "a, b or c"; "" if there are no names.
std::string alternatives(const std::vector<std::string>& names);

// Returns 'text' in quotes, at most `most` characters of it. A byte that is no printable ASCII or UTF-8 shows as
// \x0a.
std::string in_quotes(std::string_view text, size_t most = 80);

// Returns "a, b, c and 7 more".
std::string listed(const std::vector<std::string>& names, size_t most = 5);

}  // namespace nacre::tools
