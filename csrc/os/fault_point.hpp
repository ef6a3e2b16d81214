// Named places where a test may kill the process: SHMTENSOR_FAULT=name[:n] kills it at the n-th
// pass, as long as a file named 0 to 9 can be removed from the folder SHMTENSOR_FAULT_TOKENS, if
// that is set. SHMTENSOR_FAULT_SIGNAL is another signal's number. Compiled to nothing unless the
// build option SHMTENSOR_FAULT_POINTS is on.
#pragma once

#if defined(SHMTENSOR_FAULT_POINTS)
namespace shmtensor {
void fault_point(const char* name) noexcept;
}
#define SHMTENSOR_FAULT_POINT(name) ::shmtensor::fault_point(name)
#else
#define SHMTENSOR_FAULT_POINT(name) static_cast<void>(0)
#endif
