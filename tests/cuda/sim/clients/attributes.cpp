// Attributes of a device that only clients ask for.
#include "clients/attributes.hpp"

#include "sim.hpp"

namespace shmtensor::sim {

int other_attribute(int attribute, int device) {
  constexpr int kPciBus = 33;
  switch (attribute) {
#define CASE(number, name, value) \
  case number:                    \
    return value;
    SIM_ATTRIBUTES(CASE)
    case kPciBus:
      return machine_number(device) + 1;
    default:
      return 0;
  }
}

}  // namespace shmtensor::sim
