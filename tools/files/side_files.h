// Files beside what a command is for: a log, a page of curves. One that cannot be written costs nothing of the rest:
//
//   SideFiles beside;
//   if (const Error* error = beside.write("--csv", path, text)) note(error->what());   // the first time that it fails
//   ...                                                                               // the work goes on
//   beside.require_written();                                                         // at the end: throws that Error
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tools/base/error.h"

namespace nacre::tools {

class SideFiles {
 public:
  // Null: written, or it had failed before. A file that failed is tried again where `last` says so.
  const Error* write(const std::string& path, std::string_view text, bool last = false);

  // Whether the newest text that was given for `path` is there.
  bool written(const std::string& path) const { return !failed_.contains(path); }

  // Throws the error of a file whose newest text is not there, with what is: "t.nacre is written".
  void require_written(const std::string& what_is) const;

 private:
  std::map<std::string, Error> failed_;  // by path
};

}  // namespace nacre::tools
