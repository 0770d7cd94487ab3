// Finds names close to a wrong one. Errors suggest them, because one of them was probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nacre::tools {

// Returns the least number of bytes to insert, delete or replace that turns `a` into `b` (Wagner and Fischer 1974,
// doi:10.1145/321796.321811). The case of letters is ignored. The time grows with a.size() * b.size().
size_t edit_distance(std::string_view a, std::string_view b);

// Returns at most `limit` of the names, nearest first; equally near names keep their order. A returned name differs in
// at most a third of the wrong name's length, or in at most 2 bytes if that is more, and never in each of its bytes.
// Names longer than 200 bytes are not compared: a file must not be able to make this slow.
std::vector<std::string> nearest_names(std::string_view wrong, std::span<const std::string> names, size_t limit = 3);

// Returns "a", "a or b", "a, b or c"; "" if there are no names.
std::string alternatives(const std::vector<std::string>& names);

// Returns 'text' in quotes, at most `most` characters of it, then "..." if more follow. Printable ASCII and UTF-8
// characters of 2 or 3 bytes stay; any other byte shows as \x0a.
std::string in_quotes(std::string_view text, size_t most = 80);

// Returns "a, b and c", or "a, b, c and 7 more" if there are more than `most` + 1 names, of which it lists `most`.
std::string listed(const std::vector<std::string>& names, size_t most = 5);

}  // namespace nacre::tools
