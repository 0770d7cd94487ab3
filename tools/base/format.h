// Writes numbers, shapes and file names as people read them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nacre::tools {

std::string grouped(uint64_t number);                           // 1234567 -> "1,234,567"
std::string counted(uint64_t number, const std::string& noun);  // "1 sample", "1,797 samples"
std::string dims_text(std::span<const int32_t> dims);           // "[1, 49, 10, 1]"
std::string dims_text(std::span<const int64_t> dims);

// Returns "2 steps run in another type than their policy says:" (or "1 step runs ..") and the lines, or "" if there
// are no lines.
std::string fallbacks_text(const std::vector<std::string>& lines);

std::string quantizer_text(float scale, int32_t zero);  // "real = 0.5 * (code + 128)"

// Makes a file's name of `name`: letters, digits, '.', '-' and '_' stay, everything else becomes '_'; at most 100
// characters, no dot in front.
std::string file_name_of(const std::string& name);

}  // namespace nacre::tools
