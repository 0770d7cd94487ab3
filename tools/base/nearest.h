// Names close to a wrong one, for the remedies of errors: one of them was probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nacre::tools {

// Least number of characters to insert, delete or replace that makes `a` into `b` (Wagner and Fischer 1974,
// doi:10.1145/321796.321811), letters' case apart. Time |a| |b|.
size_t edit_distance(std::string_view a, std::string_view b);

// At most `limit` of the names, nearest first, equally near ones in their order; none farther than a third of the wrong
// name's length (and 2). Names longer than 200 characters are not compared: a file must not be able to make this slow.
std::vector<std::string> nearest_names(std::string_view wrong, std::span<const std::string> names, size_t limit = 3);

// "a", "a or b", "a, b or c"; "" of none.
std::string alternatives(const std::vector<std::string>& names);

// 'text', at most `most` characters of it; what is no printable ASCII or UTF-8 shows as \x0a.
std::string in_quotes(std::string_view text, size_t most = 80);

// "a, b, c and 7 more".
std::string listed(const std::vector<std::string>& names, size_t most = 5);

}  // namespace nacre::tools
