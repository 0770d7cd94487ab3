// The functions of NVIDIA's driver that the port and its measurements call. They are found when a program runs, so a
// program with the port starts on a machine without a driver too. Names, arguments and numbers are those of <cuda.h>
// (CUDA 13). If the toolkit is installed, the build compares them (declared/driver.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "ports/cuda/library.h"

namespace nacre::cuda {

using Result = int;  // CUresult; 0 is success
using DeviceNumber = int;
using DevicePointer = unsigned long long;
using Context = struct CUctx_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Graph = struct CUgraph_st*;
using GraphExec = struct CUgraphExec_st*;

enum : Result {
  kSuccess = 0,
  kOutOfMemory = 2,
  kNoDevice = 100,
  kNoBinaryForDevice = 209,
  kUnsupportedPtx = 222,
  kNotFound = 500,
};

// The functions, as library.h's list describes them.
#define NACRE_CUDA_FUNCTIONS(F)                                                                                        \
  F(init, cuInit, Result, (unsigned flags))                                                                            \
  F(driver_version, cuDriverGetVersion, Result, (int* version))                                                        \
  F(device_count, cuDeviceGetCount, Result, (int* count))                                                              \
  F(device_get, cuDeviceGet, Result, (DeviceNumber * device, int ordinal))                                             \
  F(device_name, cuDeviceGetName, Result, (char* name, int length, DeviceNumber device))                               \
  F(device_attribute, cuDeviceGetAttribute, Result, (int* value, DeviceAttribute attribute, DeviceNumber device))      \
  F(retain_context, cuDevicePrimaryCtxRetain, Result, (Context * context, DeviceNumber device))                        \
  F(release_context, cuDevicePrimaryCtxRelease_v2, Result, (DeviceNumber device))                                      \
  F(set_context, cuCtxSetCurrent, Result, (Context context))                                                           \
  F(stream_create, cuStreamCreate, Result, (Stream * stream, unsigned flags))                                          \
  F(stream_destroy, cuStreamDestroy_v2, Result, (Stream stream))                                                       \
  F(stream_synchronize, cuStreamSynchronize, Result, (Stream stream))                                                  \
  F(event_create, cuEventCreate, Result, (Event * event, unsigned flags))                                              \
  F(event_destroy, cuEventDestroy_v2, Result, (Event event))                                                           \
  F(event_record, cuEventRecord, Result, (Event event, Stream stream))                                                 \
  F(event_elapsed, cuEventElapsedTime_v2, Result, (float* milliseconds, Event first, Event last))                      \
  F(begin_capture, cuStreamBeginCapture_v2, Result, (Stream stream, CaptureMode mode))                                 \
  F(end_capture, cuStreamEndCapture, Result, (Stream stream, Graph * graph))                                           \
  F(graph_instantiate, cuGraphInstantiateWithFlags, Result, (GraphExec * exec, Graph graph, unsigned long long flags)) \
  F(graph_launch, cuGraphLaunch, Result, (GraphExec exec, Stream stream))                                              \
  F(graph_destroy, cuGraphDestroy, Result, (Graph graph))                                                              \
  F(graph_exec_destroy, cuGraphExecDestroy, Result, (GraphExec exec))                                                  \
  F(module_load, cuModuleLoadData, Result, (Module * module, const void* image))                                       \
  F(module_unload, cuModuleUnload, Result, (Module module))                                                            \
  F(module_function, cuModuleGetFunction, Result, (Function * function, Module module, const char* name))              \
  F(function_load, cuFuncLoad, Result, (Function function))                                                            \
  F(memory_allocate, cuMemAlloc_v2, Result, (DevicePointer * at, size_t bytes))                                        \
  F(memory_free, cuMemFree_v2, Result, (DevicePointer at))                                                             \
  F(host_allocate, cuMemHostAlloc, Result, (void** at, size_t bytes, unsigned flags))                                  \
  F(host_free, cuMemFreeHost, Result, (void* at))                                                                      \
  F(host_pointer, cuMemHostGetDevicePointer_v2, Result, (DevicePointer * device, void* host, unsigned flags))          \
  F(copy_to_device, cuMemcpyHtoDAsync_v2, Result, (DevicePointer to, const void* from, size_t bytes, Stream stream))   \
  F(copy_to_host, cuMemcpyDtoHAsync_v2, Result, (void* to, DevicePointer from, size_t bytes, Stream stream))           \
  F(copy_on_device, cuMemcpyDtoDAsync_v2, Result, (DevicePointer to, DevicePointer from, size_t bytes, Stream stream)) \
  F(memory_information, cuMemGetInfo_v2, Result, (size_t * free_bytes, size_t * all_bytes))                            \
  F(set_bytes, cuMemsetD8Async, Result, (DevicePointer at, unsigned char value, size_t bytes, Stream stream))          \
  F(launch, cuLaunchKernel, Result,                                                                                    \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,         \
     unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters, void** extra))

enum DeviceAttribute : unsigned { kCapabilityMajor = 75, kCapabilityMinor = 76 };
enum CaptureMode : unsigned { kCaptureThread = 1 };
enum : unsigned { kStreamNonBlocking = 1, kHostMapped = 2 };

struct Driver {
  NACRE_CUDA_FUNCTIONS(NACRE_LIBRARY_MEMBER)
};

// Returns the driver of this machine; null if there is none. A driver older than CUDA 13 may lack functions.
const Driver* load_driver();

}  // namespace nacre::cuda
