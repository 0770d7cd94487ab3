// Places the boxes of a layered drawing, and the points through which its edges pass: rows from top to bottom, and no
// edge crosses a box.
//
// After Sugiyama, Tagawa and Toda 1981 (doi:10.1109/TSMC.1981.4308636): longest-path rows, dummy
// nodes where an edge passes a row, orders by barycentres, then positions. Every step is
// deterministic.
#pragma once

#include <cstddef>
#include <vector>

namespace nacre::tools {

struct LayoutEdge {
  int from, to;  // from < to
};

struct LayoutOptions {
  double box_width = 180, lane_width = 16, gap = 28;
};

struct GraphLayout {
  int rows = 0;
  double width = 0;
  std::vector<int> row;                    // of each node
  std::vector<double> x;                   // of each node: its middle, in [0, width]
  std::vector<std::vector<double>> lanes;  // of each edge: its x in the rows between, from top to bottom
};

// Lays out a graph. Nodes are given in the order in which they run, so a later node is in the same row or below.
// Edges that leave one node share their lanes.
GraphLayout lay_out(int nodes, const std::vector<LayoutEdge>& edges, const LayoutOptions& options = {});

// Returns the number of dummy nodes that lay_out would make. Its work and the drawing's size grow with it.
size_t lane_count(int nodes, const std::vector<LayoutEdge>& edges);

// Returns the positions x_i with x_{i+1} - x_i >= separation_i that minimise sum_i weight_i (x_i - wanted_i)^2:
// isotonic regression by pooling adjacent violators (Ayer et al. 1955, doi:10.1214/aoms/1177728423).
std::vector<double> spread(const std::vector<double>& wanted, const std::vector<double>& separation,
                           const std::vector<double>& weight);

}  // namespace nacre::tools
