// Named places where a test can kill the process. SHMTENSOR_FAULT=name[:n] kills it at the n-th
// pass. If SHMTENSOR_FAULT_TOKENS names a folder, each kill first removes one of its files 0 to 9;
// without a file left the process is not killed. SHMTENSOR_FAULT_SIGNAL is the number of another
// signal than SIGKILL. The macro expands to nothing unless the build option SHMTENSOR_FAULT_POINTS
// is on.
#pragma once

#if defined(SHMTENSOR_FAULT_POINTS)
namespace shmtensor {
void fault_point(const char* name) noexcept;
}
#define SHMTENSOR_FAULT_POINT(name) ::shmtensor::fault_point(name)
#else
#define SHMTENSOR_FAULT_POINT(name) static_cast<void>(0)
#endif
