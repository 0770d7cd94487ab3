// The functions of NVIDIA's driver that the port and its measurements call, found when a program runs: one that links
// the port starts on a machine without a driver too. Their names, arguments and numbers are those of <cuda.h> (CUDA
// 13); where the toolkit is there, the build compares them (declared/driver.cc).
#pragma once

#include <cstddef>
#include <cstdint>

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

// name in `Driver`, symbol of the library, arguments
#define NACRE_CUDA_FUNCTIONS(F)                                                                                \
  F(init, cuInit, (unsigned flags))                                                                            \
  F(driver_version, cuDriverGetVersion, (int* version))                                                        \
  F(device_count, cuDeviceGetCount, (int* count))                                                              \
  F(device_get, cuDeviceGet, (DeviceNumber * device, int ordinal))                                             \
  F(device_name, cuDeviceGetName, (char* name, int length, DeviceNumber device))                               \
  F(device_attribute, cuDeviceGetAttribute, (int* value, DeviceAttribute attribute, DeviceNumber device))      \
  F(retain_context, cuDevicePrimaryCtxRetain, (Context * context, DeviceNumber device))                        \
  F(release_context, cuDevicePrimaryCtxRelease_v2, (DeviceNumber device))                                      \
  F(set_context, cuCtxSetCurrent, (Context context))                                                           \
  F(stream_create, cuStreamCreate, (Stream * stream, unsigned flags))                                          \
  F(stream_destroy, cuStreamDestroy_v2, (Stream stream))                                                       \
  F(stream_synchronize, cuStreamSynchronize, (Stream stream))                                                  \
  F(event_create, cuEventCreate, (Event * event, unsigned flags))                                              \
  F(event_destroy, cuEventDestroy_v2, (Event event))                                                           \
  F(event_record, cuEventRecord, (Event event, Stream stream))                                                 \
  F(event_elapsed, cuEventElapsedTime_v2, (float* milliseconds, Event first, Event last))                      \
  F(begin_capture, cuStreamBeginCapture_v2, (Stream stream, CaptureMode mode))                                 \
  F(end_capture, cuStreamEndCapture, (Stream stream, Graph * graph))                                           \
  F(graph_instantiate, cuGraphInstantiateWithFlags, (GraphExec * exec, Graph graph, unsigned long long flags)) \
  F(graph_launch, cuGraphLaunch, (GraphExec exec, Stream stream))                                              \
  F(graph_destroy, cuGraphDestroy, (Graph graph))                                                              \
  F(graph_exec_destroy, cuGraphExecDestroy, (GraphExec exec))                                                  \
  F(module_load, cuModuleLoadData, (Module * module, const void* image))                                       \
  F(module_unload, cuModuleUnload, (Module module))                                                            \
  F(module_function, cuModuleGetFunction, (Function * function, Module module, const char* name))              \
  F(function_load, cuFuncLoad, (Function function))                                                            \
  F(memory_allocate, cuMemAlloc_v2, (DevicePointer * at, size_t bytes))                                        \
  F(memory_free, cuMemFree_v2, (DevicePointer at))                                                             \
  F(host_allocate, cuMemHostAlloc, (void** at, size_t bytes, unsigned flags))                                  \
  F(host_free, cuMemFreeHost, (void* at))                                                                      \
  F(host_pointer, cuMemHostGetDevicePointer_v2, (DevicePointer * device, void* host, unsigned flags))          \
  F(copy_to_device, cuMemcpyHtoDAsync_v2, (DevicePointer to, const void* from, size_t bytes, Stream stream))   \
  F(copy_to_host, cuMemcpyDtoHAsync_v2, (void* to, DevicePointer from, size_t bytes, Stream stream))           \
  F(copy_on_device, cuMemcpyDtoDAsync_v2, (DevicePointer to, DevicePointer from, size_t bytes, Stream stream)) \
  F(memory_information, cuMemGetInfo_v2, (size_t * free_bytes, size_t * all_bytes))                            \
  F(set_bytes, cuMemsetD8Async, (DevicePointer at, unsigned char value, size_t bytes, Stream stream))          \
  F(launch, cuLaunchKernel,                                                                                    \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
     unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters, void** extra))

enum DeviceAttribute : unsigned { kCapabilityMajor = 75, kCapabilityMinor = 76 };
enum CaptureMode : unsigned { kCaptureThread = 1 };
enum : unsigned { kStreamNonBlocking = 1, kHostMapped = 2 };

struct Driver {
#define NACRE_CUDA_FUNCTION(name, symbol, arguments) Result(*name) arguments;
  NACRE_CUDA_FUNCTIONS(NACRE_CUDA_FUNCTION)
#undef NACRE_CUDA_FUNCTION
};

// The driver of this machine; null where there is none. One that is older than CUDA 13 may lack functions.
const Driver* load_driver();

}  // namespace nacre::cuda
