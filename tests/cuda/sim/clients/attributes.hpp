// Attributes of a device that clients ask for, as an H100's specification gives them: X(number,
// name, value). tests/cuda/test_headers.py compares the numbers with cuda.h. All others are 0.
#pragma once

#define SIM_ATTRIBUTES(X)                             \
  X(1, MAX_THREADS_PER_BLOCK, 1024)                   \
  X(2, MAX_BLOCK_DIM_X, 1024)                         \
  X(3, MAX_BLOCK_DIM_Y, 1024)                         \
  X(4, MAX_BLOCK_DIM_Z, 64)                           \
  X(5, MAX_GRID_DIM_X, 2147483647)                    \
  X(6, MAX_GRID_DIM_Y, 65535)                         \
  X(7, MAX_GRID_DIM_Z, 65535)                         \
  X(8, MAX_SHARED_MEMORY_PER_BLOCK, 49152)            \
  X(9, TOTAL_CONSTANT_MEMORY, 65536)                  \
  X(10, WARP_SIZE, 32)                                \
  X(11, MAX_PITCH, 2147483647)                        \
  X(12, MAX_REGISTERS_PER_BLOCK, 65536)               \
  X(14, TEXTURE_ALIGNMENT, 512)                       \
  X(16, MULTIPROCESSOR_COUNT, 132)                    \
  X(19, CAN_MAP_HOST_MEMORY, 1)                       \
  X(31, CONCURRENT_KERNELS, 1)                        \
  X(39, MAX_THREADS_PER_MULTIPROCESSOR, 2048)         \
  X(40, ASYNC_ENGINE_COUNT, 3)                        \
  X(41, UNIFIED_ADDRESSING, 1)                        \
  X(51, TEXTURE_PITCH_ALIGNMENT, 32)                  \
  X(75, COMPUTE_CAPABILITY_MAJOR, 9)                  \
  X(76, COMPUTE_CAPABILITY_MINOR, 0)                  \
  X(78, STREAM_PRIORITIES_SUPPORTED, 1)               \
  X(81, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472) \
  X(82, MAX_REGISTERS_PER_MULTIPROCESSOR, 65536)      \
  X(97, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448)    \
  X(99, HOST_REGISTER_SUPPORTED, 1)                   \
  X(106, MAX_BLOCKS_PER_MULTIPROCESSOR, 32)           \
  X(115, MEMORY_POOLS_SUPPORTED, 1)                   \
  X(119, MEMPOOL_SUPPORTED_HANDLE_TYPES, 1)           \
  X(122, CAN_USE_64_BIT_STREAM_MEM_OPS, 1)
