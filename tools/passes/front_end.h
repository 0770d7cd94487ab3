// A network that reads features of a stream, and the front end that makes them of its samples, as one program. Its
// input is what is new since the run before; older samples and features are values of the stream region.
//
//   L samples a frame, H from one frame to the next, F features a frame; N frames a run; the network reads R frames
//
//   s [1, L - H]   the last samples of the run before      x [1, N H]   the new ones
//   t = concat(s, x)                                       f_i [F] = front_end(t[i H .. i H + L)),  0 <= i < N
//   r [R F]        the features of the run before, oldest first
//   r' = concat(r[N F ..], f_0 .. f_N-1)                   y = network(r')
//   then s = t[N H ..], r = r'                             s and r are zeros when a stream begins
//
// The front end's steps stand in the program N times, over the same tables. Each copy passes the state that the front
// end keeps from frame to frame to the next copy.
#pragma once

#include <cstdint>
#include <string>

#include "tools/graph/graph.h"

namespace nacre::tools {

struct FrontEndRequest {
  std::string network;  // file of the front end; "": none
  uint32_t hop = 0;     // H
  uint32_t hops = 1;    // N
};

inline constexpr uint32_t kMostHops = 15;  // with the older features 16 operands of one concat

// Both graphs behind apply_policy: the front end gives the codes, or reals, that the network reads.
void join_front_end(Graph& network, const Graph& front_end, const FrontEndRequest& request);

}  // namespace nacre::tools
