// nacre inspect: shows what is in a model file, as text, JSON, picture or page. network.h is for networks' files.
#pragma once

#include <string>

#include "tools/commands/convert/convert.h"

namespace nacre::tools {

struct InspectOptions {
  std::string model;
  std::string svg;   // file for the picture; "": none
  std::string html;  // file for the page; "": none
  // Target whose kernels are named, "x86/avx2", and whose program the picture shows; "": the host. For a GPU,
  // "cuda/sm90", the report adds an estimate of the model's cost there, and advice.
  std::string target;
  bool steps = false;  // also one line per step
  bool json = false;
  ConvertOptions converting;  // for a network: options of its import
};

void inspect(const InspectOptions& options);

}  // namespace nacre::tools
