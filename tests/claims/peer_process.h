// Another engine in a process of its own, timed in turns with ours: it speaks lines.
//
//   its first line   what it is, and the names of what it can time, separated by blanks, behind a tab; or one sentence,
//                    which says why there is nothing
//   run NAME N       N runs; it answers with their nanoseconds, or with a sentence
//   its input ends   it ends
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace nacre::test {

class PeerProcess {
 public:
  PeerProcess() = default;
  ~PeerProcess() { end(); }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // Runs the command in a shell. False: sentence() says why there is nothing to time.
  bool start(const std::string& command, double limit_seconds);
  void end();

  const std::string& about() const { return about_; }
  const std::vector<std::string>& names() const { return names_; }
  const std::string& sentence() const { return sentence_; }

  // Seconds of `count` runs; below 0: it failed, or took longer than the limit. From then on it is ended.
  double run(const std::string& name, int count, double limit_seconds);

 private:
  bool read_line(std::string* line, double limit_seconds);

  pid_t process_ = 0;
  int to_ = -1, from_ = -1;
  std::string about_, sentence_, read_;
  std::vector<std::string> names_;
};

}  // namespace nacre::test
