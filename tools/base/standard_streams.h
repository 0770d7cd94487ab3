// Keeps descriptors 0, 1 and 2 open, if the process was started with one of them closed. Otherwise the next file that
// the process opens gets this number, and printed text goes into the file.
#pragma once

namespace nacre::tools {

// Opens each closed descriptor on the null device. Call it before any file is opened. Returns false if that device
// cannot be opened.
bool open_standard_streams();

// Returns whether standard output was closed when the process began. Printed text is lost then.
bool standard_output_was_closed();

}  // namespace nacre::tools
