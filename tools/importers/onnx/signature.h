// Reads the inputs of a torch.export program, as its exporter writes them into an ONNX file. They tell which
// constants of the file are parameters of the module. Private to torch.cc.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

namespace nacre::tools::onnx_import {

class Signature {
 public:
  explicit Signature(const ::onnx::GraphProto& graph);

  bool empty() const { return entries_.empty(); }
  // torch.export gives a constant two names. Calls name it by a placeholder ("p_fc_weight"), the module by a target
  // ("fc.weight").
  bool has(const std::string& placeholder) const { return entries_.contains(placeholder); }
  bool is_parameter(const std::string& placeholder) const;
  // Returns the first placeholder that is a parameter, or "" if none is.
  std::string parameter_of(const std::vector<std::string>& placeholders) const;
  const std::string& target(const std::string& placeholder) const { return entries_.at(placeholder).target; }
  std::string of_target(const std::string& target) const;  // placeholder of a target; "" if no constant has that name
  std::vector<std::string> parameters() const;             // placeholders of all parameters

 private:
  struct Entry {
    std::string kind, target;
  };
  void add(const std::string& placeholder, const std::string& kind, const std::string& target);
  void read_lines(const std::string& text);
  void read_specs(const std::string& text);

  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> placeholders_;  // target to placeholder
};

// Returns the names of the values that a call reads: x and p_fc_weight for "%linear : [..](args = (%x, %p_fc_weight),
// kwargs = {})".
std::vector<std::string> arguments_of_call(const std::string& call);
// Returns the names of the constants that the exporter computed this one from.
std::vector<std::string> folded_from(const ::onnx::ValueInfoProto& value);

}  // namespace nacre::tools::onnx_import
