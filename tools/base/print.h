// Output of commands to standard output, their warnings to standard error; or both to their caller (caller.h). main()
// flushes standard output and reports a failure. Texts may hold names of files: foreign_text.h says how they are shown.
#pragma once

#include <string>

#include "tools/base/json.h"

namespace nacre::tools {

void print(const std::string& text);
void note(const std::string& line);       // a warning, without the end of its line
void print_to_standard_error();           // from now on: standard output takes a file's bytes
void print_to_the_end();                  // from now on: the end of a pipe's reader is a failed write, no signal
std::string printable(std::string text);  // control codes, which a name of a file may hold, as '?'; lines stay lines
void print_json(const Json& json);        // names that are no UTF-8 are mended, not refused

// Writes the text to standard error as it is. If the write fails, the text is lost and no error is reported.
void complain(const std::string& text);

// Flushes standard output. Returns the errno of the first failed write to it, or 0 if everything was written.
int flush_printed();

}  // namespace nacre::tools
