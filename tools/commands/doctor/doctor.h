// nacre doctor: tells what of this machine and this build Nacre can use, what is missing, and what brings it.
#pragma once

namespace nacre::tools {

struct DoctorOptions {
  bool json = false;
};

// Prints the facts (facts.h). Throws Error with the exit code 1 if the tool itself is broken.
void doctor(const DoctorOptions& options);

}  // namespace nacre::tools
