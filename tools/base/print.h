// Prints the output of commands to standard output, and their notices and warnings to standard error. With a caller
// (caller.h) all of these go to the caller. run_tool() flushes standard output and reports a failed write. Texts may
// hold names from files: foreign_text.h says how they are shown.
#pragma once

#include <string>

#include "tools/base/json.h"

namespace nacre::tools {

void print(const std::string& text);
void note(const std::string& line);       // a notice, without the end of its line
void warn(const std::string& sentence);   // something is wrong: prints "warning: " and the sentence
void print_to_standard_error();           // print() uses standard error from now on: standard output takes a file
void print_to_the_end();                  // from now on a pipe whose reader has ended gives a failed write, no SIGPIPE
std::string printable(std::string text);  // replaces control codes but '\n' by '?'
void print_json(const Json& json);        // with indents of 2; bytes that are no UTF-8 become U+FFFD

// Writes the text to standard error as it is. If the write fails, the text is lost and no error is reported.
void complain(const std::string& text);

// Flushes standard output. Returns the errno of the first failed write to it, or 0 if everything was written.
int flush_printed();

}  // namespace nacre::tools
