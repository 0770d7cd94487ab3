// Opens those of the descriptors 0, 1 and 2 that were closed when the process started. If descriptor 1 stayed closed,
// the next file that the process opens could get the number 1, and printed text would go into that file.
#pragma once

namespace nacre::tools {

// Opens each closed descriptor of 0, 1 and 2 on the null device. Call it before any file is opened. Returns false if
// that device cannot be opened.
bool open_standard_streams();

// Returns whether standard output was closed when the process began. Printed text is lost then.
bool standard_output_was_closed();

}  // namespace nacre::tools
