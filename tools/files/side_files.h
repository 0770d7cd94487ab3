// SideFiles: files beside a command's main output, such as a log or a page of curves. If one cannot be written, the
// work goes on:
//
//   SideFiles beside;
//   if (const Error* error = beside.write(path, text)) note(error->what());  // the first time that it fails
//   ...                                                                      // the work goes on
//   beside.require_written("m.nacre is written");                            // at the end: throws that Error
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tools/base/error.h"

namespace nacre::tools {

class SideFiles {
 public:
  // Writes the file. Returns its error the first time that it fails, else null. A file that failed is tried again
  // only with `last`.
  const Error* write(const std::string& path, std::string_view text, bool last = false);

  // Returns whether the newest text given for `path` was written.
  bool written(const std::string& path) const { return !failed_.contains(path); }

  // Throws the error of a file whose newest text was not written, and adds what exists: "t.nacre is written".
  void require_written(const std::string& what_is) const;

 private:
  std::map<std::string, Error> failed_;  // by path
};

}  // namespace nacre::tools
