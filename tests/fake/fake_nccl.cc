#include "tests/fake/fake_nccl.h"

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace nacre::test {
namespace {

constexpr cuda::NcclResult kInvalidUsage = 5;  // ncclInvalidUsage
constexpr int kTag = 7;

struct Message {
  bool sends;
  void* at;
  size_t bytes;
  int peer;
  cuda::Stream stream;
  std::vector<std::byte> staged = {};
};

struct State {
  const cuda::Driver* driver = nullptr;
  MPI_Comm communicator = MPI_COMM_NULL;
  std::vector<Message> messages;
  bool grouped = false;
  unsigned fails = 0;
  uint64_t sent = 0, bytes = 0;
} state;

cuda::DevicePointer address(void* at) { return cuda::DevicePointer(reinterpret_cast<uintptr_t>(at)); }

cuda::NcclResult version(int* number) {
  *number = 23203;
  return cuda::kNcclSuccess;
}

cuda::NcclResult unique_id(cuda::NcclId* id) {
  std::memset(id->internal, 0x5A, sizeof id->internal);
  return cuda::kNcclSuccess;
}

// All ranks must pass the id that rank 0 made.
cuda::NcclResult init_rank(cuda::NcclComm* made, int ranks, cuda::NcclId id, int rank) {
  cuda::NcclId wanted;
  unique_id(&wanted);
  MPI_Comm_dup(MPI_COMM_WORLD, &state.communicator);
  int size = 0, mine = 0;
  MPI_Comm_size(state.communicator, &size);
  MPI_Comm_rank(state.communicator, &mine);
  if (state.fails == kRefusesToOpen && rank == ranks - 1) return kInvalidUsage;
  if (size != ranks || mine != rank || std::memcmp(&id, &wanted, sizeof id) != 0) return kInvalidUsage;
  *made = reinterpret_cast<cuda::NcclComm>(&state);
  return cuda::kNcclSuccess;
}

cuda::NcclResult destroy(cuda::NcclComm) {
  std::fprintf(stderr, "fake nccl: %llu messages, %llu bytes sent\n", static_cast<unsigned long long>(state.sent),
               static_cast<unsigned long long>(state.bytes));
  return cuda::kNcclSuccess;
}

cuda::NcclResult group_start() {
  if (state.grouped) return kInvalidUsage;
  state.grouped = true;
  return cuda::kNcclSuccess;
}

cuda::NcclResult group_end() {
  if (!state.grouped) return kInvalidUsage;
  state.grouped = false;
  std::vector<MPI_Request> requests(state.messages.size(), MPI_REQUEST_NULL);
  bool done = true;
  for (size_t i = 0; i < requests.size(); ++i) {
    Message& m = state.messages[i];
    m.staged.resize(m.bytes);
    if (m.sends) {
      done = done && state.driver->copy_to_host(m.staged.data(), address(m.at), m.bytes, m.stream) == cuda::kSuccess &&
             state.driver->stream_synchronize(m.stream) == cuda::kSuccess;
      MPI_Isend(m.staged.data(), int(m.bytes), MPI_BYTE, m.peer, kTag, state.communicator, &requests[i]);
    } else {
      MPI_Irecv(m.staged.data(), int(m.bytes), MPI_BYTE, m.peer, kTag, state.communicator, &requests[i]);
    }
  }
  MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  for (const Message& m : state.messages)
    done = done && (m.sends || (state.driver->copy_to_device(address(m.at), m.staged.data(), m.bytes, m.stream) ==
                                    cuda::kSuccess &&
                                state.driver->stream_synchronize(m.stream) == cuda::kSuccess));
  state.messages.clear();
  return done ? cuda::kNcclSuccess : kInvalidUsage;
}

cuda::NcclResult send(const void* from, size_t count, unsigned type, int peer, cuda::NcclComm, cuda::Stream stream) {
  if (!state.grouped || type != cuda::kNcclBytes || stream == nullptr) return kInvalidUsage;
  int rank = 0, size = 0;
  MPI_Comm_rank(state.communicator, &rank);
  MPI_Comm_size(state.communicator, &size);
  ++state.sent, state.bytes += count;
  if (state.sent == state.fails && rank == size - 1) return kInvalidUsage;
  state.messages.push_back({true, const_cast<void*>(from), count, peer, stream});
  return cuda::kNcclSuccess;
}

cuda::NcclResult receive(void* to, size_t count, unsigned type, int peer, cuda::NcclComm, cuda::Stream stream) {
  if (!state.grouped || type != cuda::kNcclBytes || stream == nullptr) return kInvalidUsage;
  state.messages.push_back({false, to, count, peer, stream});
  return cuda::kNcclSuccess;
}

const char* text(cuda::NcclResult) { return "invalid usage"; }

}  // namespace

const cuda::Nccl& fake_nccl(const cuda::Driver& driver, unsigned fails) {
  static const cuda::Nccl functions = {version,   unique_id, init_rank, destroy, group_start,
                                       group_end, send,      receive,   text};
  state.driver = &driver;
  state.fails = fails;
  return functions;
}

}  // namespace nacre::test
