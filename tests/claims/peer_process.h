// Another engine in a process of its own, timed in turns with Nacre. It reads and writes lines.
//
//   its first line   what it is, and after a tab the names of what it can time, separated by blanks; or one sentence
//                    that says why it times nothing
//   run NAME N       runs N times, and answers with the nanoseconds, or with a sentence
//   its input ends   then it ends
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

  // Runs the command in a shell. Returns false if there is nothing to time; then sentence() says why.
  bool start(const std::string& command, double limit_seconds);
  void end();

  const std::string& about() const { return about_; }
  const std::vector<std::string>& names() const { return names_; }
  const std::string& sentence() const { return sentence_; }

  // Returns the seconds of `count` runs; below 0 if the peer failed or took longer than the limit. Then the peer is
  // ended.
  double run(const std::string& name, int count, double limit_seconds);

 private:
  bool read_line(std::string* line, double limit_seconds);

  pid_t process_ = 0;
  int to_ = -1, from_ = -1;
  std::string about_, sentence_, read_;
  std::vector<std::string> names_;
};

}  // namespace nacre::test
