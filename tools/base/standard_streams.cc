#include "tools/base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace nacre::tools {
namespace {

bool output_was_closed = false;

}  // namespace

// open() takes the lowest free number. It is the closed descriptor's, since all lower ones are open by then.
bool open_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    output_was_closed = output_was_closed || stream == STDOUT_FILENO;
    if (open("/dev/null", O_RDWR) != stream) return false;
  }
  return true;
}

bool standard_output_was_closed() { return output_was_closed; }

}  // namespace nacre::tools
