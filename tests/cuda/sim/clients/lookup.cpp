// How clients find the driver's functions: by plain name and version (driver API, "Driver Entry
// Point Access").
#include <cstring>

#include "clients/declarations.hpp"
#include "sim.hpp"

using namespace shmtensor::sim;   // NOLINT: what follows is the library's surface
using namespace shmtensor::cuda;  // NOLINT

namespace {

struct Form {
  const char* plain;
  int version;
  void* function;
};

#define OWN(plain, version, name) {#plain, version, reinterpret_cast<void*>(&name)},
#define CLIENT(plain, version, name, signature) OWN(plain, version, name)
const Form kForms[] = {SIM_OWN_VERSIONS(OWN) SIM_CLIENT_FUNCTIONS(CLIENT) SIM_CLIENT_CUDA13(CLIENT)
                           SIM_CLIENT_PROFILER(CLIENT)};

constexpr std::uint64_t kLegacyStream = 1;

// The newest form of a name that is not newer than the version. Forms whose null stream is the one
// of the thread (flag 2) are not here.
Result look_up(const char* symbol, void** function, int version, std::uint64_t flags, int* status) {
  if (symbol == nullptr || function == nullptr) return kInvalidValue;
  if ((flags & ~kLegacyStream) != 0) return kNotSupported;
  const Form* best = nullptr;
  bool known = false;
  for (const Form& form : kForms) {
    if (std::strcmp(form.plain, symbol) != 0) continue;
    known = true;
    if (form.version <= version && (best == nullptr || best->version < form.version)) best = &form;
  }
  *function = best != nullptr ? best->function : nullptr;
  *status = best != nullptr ? kLookupFound : known ? kLookupTooOld : kLookupUnknown;
  return kSuccess;
}

}  // namespace

// A name that is not found is an error of the first form only; tests/integrations compares both
// forms with the drivers 535 and 550.
SIM_EXPORT Result cuGetProcAddress(const char* symbol, void** function, int version,
                                   std::uint64_t flags) {
  return call("cuGetProcAddress", Needs::nothing, [&]() -> Result {
    int status = 0;
    if (const Result code = look_up(symbol, function, version, flags, &status)) return code;
    return status == kLookupFound ? kSuccess : kNotFound;
  });
}

SIM_EXPORT Result cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                      std::uint64_t flags, int* status) {
  return call("cuGetProcAddress_v2", Needs::nothing, [&]() -> Result {
    int ignored = 0;
    return look_up(symbol, function, version, flags, status != nullptr ? status : &ignored);
  });
}
