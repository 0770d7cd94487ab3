// NameIndex finds in constant time whether a record of a list has a name, while the list grows at its end. It indexes
// the list anew if the list is shorter than before, or a record it finds has another name. Copies start empty.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

namespace nacre::tools {

class NameIndex {
 public:
  NameIndex() = default;
  NameIndex(const NameIndex&) {}
  NameIndex& operator=(const NameIndex&) {
    forget();
    return *this;
  }

  template <class Record>
  bool has(const std::vector<Record>& records, const std::string& name) {
    take_in(records);
    const auto found = places_.find(name);
    if (found == places_.end()) return false;
    if (found->second < records.size() && records[found->second].name == name) return true;
    forget();
    take_in(records);
    return places_.contains(name);
  }

  // Returns `name` if no record has it. Else returns one of name_2, name_3, ... that no record has.
  template <class Record>
  std::string unique(const std::vector<Record>& records, const std::string& name) {
    if (!has(records, name)) return name;
    for (int& suffix = suffixes_.try_emplace(name, 2).first->second;; ++suffix) {
      std::string candidate = name + "_" + std::to_string(suffix);
      if (!places_.contains(candidate)) return candidate;
    }
  }

  // Renames records[at].
  template <class Record>
  void rename(std::vector<Record>& records, size_t at, const std::string& name) {
    take_in(records);
    places_.erase(records[at].name);
    records[at].name = name;
    places_.insert_or_assign(name, at);
  }

 private:
  void forget() {
    places_.clear();
    suffixes_.clear();
    count_ = 0;
  }

  template <class Record>
  void take_in(const std::vector<Record>& records) {
    if (count_ > records.size()) forget();
    for (; count_ < records.size(); ++count_) places_.insert_or_assign(records[count_].name, count_);
  }

  std::unordered_map<std::string, size_t> places_;
  std::unordered_map<std::string, int> suffixes_;  // per name: all smaller suffixes are taken
  size_t count_ = 0;                               // number of records indexed
};

}  // namespace nacre::tools
