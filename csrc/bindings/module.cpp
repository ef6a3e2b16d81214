// The extension module shmtensor._core: each part registers its own types and functions.
#include "bindings/channel/channel_type.hpp"
#include "bindings/channel/encoding.hpp"
#include "bindings/containers/caches.hpp"
#include "bindings/containers/item_packer.hpp"
#include "bindings/containers/item_sequence.hpp"
#include "bindings/containers/key_index.hpp"
#include "bindings/cuda/copy.hpp"
#include "bindings/cuda/device_functions.hpp"
#include "bindings/cuda/device_storage.hpp"
#include "bindings/cuda/dlpack_capsules.hpp"
#include "bindings/cuda/dlpack_exchange.hpp"
#include "bindings/cuda/event.hpp"
#include "bindings/cuda/ipc_exports.hpp"
#include "bindings/cuda/pinning.hpp"
#include "bindings/session/name_lock.hpp"
#include "bindings/session/name_table.hpp"
#include "bindings/session/observer.hpp"
#include "bindings/session/session_functions.hpp"
#include "bindings/storage/allocation.hpp"
#include "bindings/storage/lifetime.hpp"
#include "bindings/storage/lookup.hpp"
#include "bindings/storage/peer.hpp"
#include "bindings/storage/private_view.hpp"
#include "bindings/storage/storage.hpp"
#include "bindings/storage/words.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/support/os_functions.hpp"
#include "bindings/support/pybind_fork.hpp"
#include "bindings/support/python.hpp"
#include "bindings/support/report_log.hpp"
#include "bindings/sync/barriers.hpp"
#include "bindings/sync/conditions.hpp"
#include "bindings/sync/locks.hpp"
#include "bindings/sync/semaphores.hpp"
#include "bindings/tensor/atomic.hpp"
#include "bindings/tensor/shared_memory.hpp"
#include "bindings/tensor/tensor.hpp"
#include "bindings/transfer/array_reducers.hpp"
#include "bindings/transfer/outgoing_bytes.hpp"
#include "bindings/transfer/read_scope.hpp"
#include "bindings/transfer/reducers.hpp"
#include "bindings/transfer/send_scope.hpp"

PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
  using namespace shmtensor::python;
  reset_pybind_mutex_after_fork();
  add_errors(module);
  add_report_log(module);
  add_os_functions(module);
  add_session_functions(module);
  add_observer(module);
  add_name_table(module);
  add_name_lock(module);
  add_storage(module);
  add_allocation(module);
  add_lifetime(module);
  add_lookup(module);
  add_peer(module);
  add_words(module);
  add_private_view(module);
  add_tensor(module);
  add_atomic(module);
  add_shared_memory(module);
  add_send_scope(module);
  add_read_scope(module);
  add_reducers(module);
  add_array_reducers(module);
  add_outgoing_bytes(module);
  add_encoding(module);
  add_channels(module);
  add_locks(module);
  add_semaphores(module);
  add_conditions(module);
  add_barriers(module);
  add_item_sequence(module);
  add_caches(module);
  add_item_packer(module);
  add_key_index(module);
  add_device_functions(module);
  add_device_storage(module);
  add_device_copies(module);
  add_event(module);
  add_dlpack_exchange(module);
  add_dlpack_capsules(module);
  add_ipc_exports(module);
  add_pinning(module);
}
