// Translates the errors that the tools throw into the package's own exception.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace nacre::python {

// Converts text that may contain a file's name, which need not be UTF-8, as Python's os.fsdecode does.
nanobind::str text_of(const std::string& text);

// Makes tools::Error become nacre.Error from now on. If the engine refused something, it has code, table and index.
void translate_errors();

}  // namespace nacre::python
