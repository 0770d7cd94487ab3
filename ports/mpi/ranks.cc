#include "ports/mpi/ranks.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <sstream>

namespace nacre::mpi {
namespace {

constexpr int kTurnTag = 1;
constexpr uint32_t kSameLines = 0xFFFF0001;

// The pause between two looks at a message. At first there is none, because most messages come at once. Then come
// short sleeps, after which the scheduler favours a process. Yielding alone would wait for whole time slices on a
// busy machine.
class Pause {
 public:
  void operator()() {
    if (++asked_ < 100) return;
    const timespec moment = {0, 20'000};
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

void Ranks::wait_all(std::span<MPI_Request> requests, std::span<const int> peers) {
  std::vector<int> done(requests.size());
  const auto start = std::chrono::steady_clock::now();
  auto next = start + patience_;
  Pause pause;
  const auto open = [](MPI_Request request) { return request != MPI_REQUEST_NULL; };
  while (std::ranges::any_of(requests, open)) {
    int some = 0;
    MPI_Testsome(int(requests.size()), requests.data(), &some, done.data(), MPI_STATUSES_IGNORE);
    if (some > 0) continue;
    pause();
    const auto now = std::chrono::steady_clock::now();
    if (now < next) continue;
    next += patience_;
    std::vector<int> late;
    for (size_t i = 0; i < requests.size(); ++i)
      if (open(requests[i]) && std::ranges::count(late, peers[i]) == 0) late.push_back(peers[i]);
    if (late_ && rank_ == 0) late_(late, std::chrono::duration<double>(now - start).count());
  }
}

// Sends `size` bytes from every other rank to rank 0, or from rank 0 to the others if `back`. bytes(r) is the address
// for rank r. Messages are taken in the order in which they come.
template <class F>
void Ranks::to_first(size_t size, F bytes, bool back) {
  std::vector<MPI_Request> requests;
  std::vector<int> peers;
  const auto add = [&](int peer, std::byte* at, bool sends) {
    peers.push_back(peer);
    MPI_Request* const request = &requests.emplace_back(MPI_REQUEST_NULL);
    if (sends) MPI_Isend(at, int(size), MPI_BYTE, peer, kTurnTag, communicator_, request);
    else MPI_Irecv(at, int(size), MPI_BYTE, peer, kTurnTag, communicator_, request);
  };
  for (int r = 1; r < count_ && rank_ == 0; ++r) add(r, bytes(size_t(r)), back);
  if (rank_ != 0) add(0, bytes(size_t(rank_)), !back);
  wait_all(requests, peers);
}

std::vector<Turn> Ranks::turn(const Turn& mine) {
  std::vector<Turn> turns(size_t(count_), mine);
  to_first(sizeof(Turn), [&](size_t r) { return reinterpret_cast<std::byte*>(&turns[r]); }, false);
  to_first(turns.size() * sizeof(Turn), [&](size_t) { return reinterpret_cast<std::byte*>(turns.data()); }, true);
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
  for (size_t at = 0; at < bytes.size(); at += kMost)
    to_first(std::min(kMost, bytes.size() - at), [&](size_t) { return bytes.data() + at; }, true);
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
