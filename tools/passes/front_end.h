// Joins a network that reads features of a stream with the front end that makes these features of samples. The result
// is one program. Its input is the samples that are new since the previous run. Older samples and features are values
// of the stream region.
//
//   L samples a frame, H from one frame to the next, F features a frame; N frames a run; the network reads R frames
//
//   s [1, L - H]   the last samples of the run before      x [1, N H]   the new ones
//   t = concat(s, x)                                       f_i [F] = front_end(t[i H .. i H + L)),  0 <= i < N
//   r [R F]        the features of the run before, oldest first
//   r' = concat(r[N F ..], f_0 .. f_N-1)                   y = network(r')
//   then s = t[N H ..], r = r'                             s and r are zeros when a stream begins
//
// The program has the front end's steps N times, over shared tables. Each copy passes the state that the front end
// keeps between frames to the next copy.
#pragma once

#include <cstdint>
#include <string>

#include "tools/graph/graph.h"

namespace nacre::tools {

struct FrontEndRequest {
  std::string network;  // the front end's file; "" if there is none
  uint32_t hop = 0;     // H
  uint32_t hops = 1;    // N
};

inline constexpr uint32_t kMostHops = 15;  // concat takes 16 operands: the older features and these

// Joins two graphs after apply_policy. The front end must give the codes, or reals, that the network reads.
void join_front_end(Graph& network, const Graph& front_end, const FrontEndRequest& request);

}  // namespace nacre::tools
