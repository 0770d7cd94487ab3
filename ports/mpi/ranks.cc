#include "ports/mpi/ranks.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <sstream>

namespace nacre::mpi {
namespace {

constexpr int kTurnTag = 1;
constexpr uint32_t kSameLines = 0xFFFF0001;

// Waiting ranks share cores with those that compute: first others' turn, then short sleeps.
class Pause {
 public:
  void operator()() {
    if (++asked_ < 200) {
      sched_yield();
      return;
    }
    const timespec moment = {0, 50'000};
    nanosleep(&moment, nullptr);
  }

 private:
  int asked_ = 0;
};

}  // namespace

void Turn::say(const std::string& words) {
  const size_t length = std::min(words.size(), sizeof text - 1);
  std::memcpy(text, words.data(), length);
  text[length] = 0;
}

const Turn* first_failed(std::span<const Turn> turns, int* rank) {
  for (size_t i = 0; i < turns.size(); ++i) {
    if (turns[i].failed == 0) continue;
    if (rank != nullptr) *rank = int(i);
    return &turns[i];
  }
  return nullptr;
}

Ranks::Ranks(MPI_Comm communicator) {
  MPI_Comm_dup(communicator, &communicator_);
  MPI_Comm_rank(communicator_, &rank_);
  MPI_Comm_size(communicator_, &count_);
}

Ranks::~Ranks() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Comm_free(&communicator_);
}

void Ranks::wait(MPI_Request* request) {
  Pause pause;
  for (int done = 0; done == 0;) {
    MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (done == 0) pause();
  }
}

// On rank 0, from the others, in the order in which they come.
void Ranks::collect(std::vector<Turn>* turns) {
  std::vector<MPI_Request> requests(size_t(count_ - 1));
  for (int r = 1; r < count_; ++r)
    MPI_Irecv(&(*turns)[size_t(r)], int(sizeof(Turn)), MPI_BYTE, r, kTurnTag, communicator_, &requests[size_t(r - 1)]);
  std::vector<int> done(requests.size());
  const auto start = std::chrono::steady_clock::now();
  auto next = start + patience_;
  Pause pause;
  for (size_t left = requests.size(); left > 0;) {
    int some = 0;
    MPI_Testsome(int(requests.size()), requests.data(), &some, done.data(), MPI_STATUSES_IGNORE);
    if (some > 0) {
      left -= size_t(some);
      continue;
    }
    pause();
    const auto now = std::chrono::steady_clock::now();
    if (now < next) continue;
    next += patience_;
    std::vector<int> late;
    for (size_t i = 0; i < requests.size(); ++i)
      if (requests[i] != MPI_REQUEST_NULL) late.push_back(int(i) + 1);
    if (late_) late_(late, std::chrono::duration<double>(now - start).count());
  }
}

std::vector<Turn> Ranks::turn(const Turn& mine) {
  std::vector<Turn> turns(size_t(count_), mine);
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank_ == 0) {
    collect(&turns);
  } else {
    MPI_Isend(&mine, int(sizeof mine), MPI_BYTE, 0, kTurnTag, communicator_, &request);
    wait(&request);
  }
  MPI_Ibcast(turns.data(), int(turns.size() * sizeof(Turn)), MPI_BYTE, 0, communicator_, &request);
  wait(&request);
  const bool together =
      std::ranges::all_of(turns, [&](const Turn& turn) { return turn.what == turns[0].what || turn.failed != 0; });
  if (!together && first_failed(turns) == nullptr)
    for (Turn& turn : turns) {
      turn.failed = 1;
      turn.say("the ranks are at different places of the training: a defect, report it with the command");
    }
  return turns;
}

void Ranks::broadcast(std::span<std::byte> bytes) {
  constexpr size_t kMost = size_t{1} << 28;  // MPI counts in int
  for (size_t at = 0; at < bytes.size(); at += kMost) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibcast(bytes.data() + at, int(std::min(kMost, bytes.size() - at)), MPI_BYTE, 0, communicator_, &request);
    wait(&request);
  }
}

std::string Ranks::broadcast_text(const std::string& text) {
  uint64_t length = text.size();
  broadcast(std::as_writable_bytes(std::span(&length, 1)));
  std::string all = text;
  all.resize(size_t(length));
  broadcast(std::as_writable_bytes(std::span(all)));
  return all;
}

std::string Ranks::require_same(const std::string& lines) {
  const std::string wanted = broadcast_text(lines);
  Turn mine = {.what = kSameLines};
  std::istringstream have(lines), want(wanted);
  std::string a, b;
  while (mine.failed == 0) {
    const bool more = bool(std::getline(have, a)), wants_more = bool(std::getline(want, b));
    if (!more && !wants_more) break;
    if (more && wants_more && a == b) continue;
    mine.failed = 1;
    mine.say("has '" + (more ? a : "nothing") + "' where rank 0 has '" + (wants_more ? b : "nothing") + "'");
  }
  const std::vector<Turn> turns = turn(mine);
  int rank = 0;
  const Turn* const failed = first_failed(turns, &rank);
  return failed == nullptr ? "" : "rank " + std::to_string(rank) + " " + failed->text;
}

}  // namespace nacre::mpi
