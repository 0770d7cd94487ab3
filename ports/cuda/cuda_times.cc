// Device times, measured by driver events between launches.
#include "ports/cuda/cuda_port.h"

namespace nacre::cuda {

void Device::time(Timing timing) {
  timing_ = timing;
  times_.clear();
  if (timing == Timing::kNone) forget_events();
}

// Records an event after all commands in the stream so far.
bool Device::mark(bool ends, const char* kernel) {
  if (marks_.size() == events_.size()) {
    Event event = nullptr;
    if (!succeeded(driver_->event_create(&event, 0), "cuEventCreate")) return false;
    events_.push_back(event);
  }
  if (!succeeded(driver_->event_record(events_[marks_.size()], stream_), "cuEventRecord")) return false;
  marks_.push_back({ends, kernel});
  return true;
}

// Reads the times of a finished segment.
bool Device::read_times() {
  for (size_t i = 1; i < marks_.size(); ++i) {
    float milliseconds = 0;
    if (!marks_[i].ends) continue;
    if (!succeeded(driver_->event_elapsed(&milliseconds, events_[i - 1], events_[i]), "cuEventElapsedTime"))
      return false;
    times_.push_back({marks_[i].kernel, milliseconds * 1000});
  }
  marks_.clear();
  return true;
}

void Device::forget_events() {
  if (!events_.empty()) driver_->set_context(context_);
  for (Event event : events_) driver_->event_destroy(event);
  events_.clear(), marks_.clear();
}

}  // namespace nacre::cuda
