// Descriptors 0, 1 and 2 of a process that was started with one of them closed. The next file that it opens would get
// that number, and what is printed would be written into the file.
#pragma once

namespace nacre::tools {

// Opens each that is closed on the null device. Call it before any file is opened. False: that device is not there.
bool open_standard_streams();

// Whether standard output was closed when the process began: what is printed is lost.
bool standard_output_was_closed();

}  // namespace nacre::tools
