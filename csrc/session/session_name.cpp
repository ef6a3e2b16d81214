#include "session/session_name.hpp"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "manager/manager_address.hpp"
#include "os/process.hpp"
#include "os/process_stat.hpp"
#include "os/random.hpp"

namespace shmtensor {
namespace {

std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Returns nothing unless the first variable is set: the others only distinguish runs.
std::string joined(std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names) {
    const std::string value = value_of(name);
    if (value.empty() && text.empty()) return {};
    text += std::string(name) + '=' + value + ';';
  }
  return text;
}

}  // namespace

SessionId session_named(const std::string& text) {
  const bool is_id =
      text.size() == 32 && text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  if (is_id) return SessionId::parse(text);
  if (const SocketDirectory* directory = runtime_directory()) {
    const auto [device, inode] = directory->identity();  // which has one user
    return SessionId::parse(text + "directory=" + std::to_string(device) + ':' +
                            std::to_string(inode));
  }
  return SessionId::parse(text + "uid=" + std::to_string(::geteuid()));
}

std::string job_id() {
  // torchrun. Without --rdzv-id its id is "none" in every run, so the port distinguishes them.
  if (std::string job = joined(
          {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"});
      !job.empty()) {
    return job;
  }
  // srun: a step of a job. A batch script itself has no rank and is not part of a step.
  if (!value_of("SLURM_PROCID").empty() && !value_of("SLURM_STEP_ID").empty()) {
    if (std::string job = joined({"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"});
        !job.empty()) {
      return job;
    }
  }
  // Open MPI from 4 on, prterun, Slurm with PMIx. Open MPI computes the name from a host's name and
  // a pid, which two containers may have in common, so the server's port distinguishes them. Each
  // machine has another server.
  if (std::string job = joined({"PMIX_NAMESPACE", "PMIX_SERVER_URI2"}); !job.empty()) return job;
  for (const char* name : {
           "OMPI_MCA_ess_base_jobid",  // older Open MPI
           "I_MPI_HYDRA_UUID",         // Intel MPI
           "PMI_JOBID",                // PMI-2, as of Cray PALS
           "FLUX_JOB_ID",
           "JSM_NAMESPACE_ID",
       }) {
    if (std::string job = joined({name}); !job.empty()) return job;
  }
  return {};
}

SessionId session_of_run(std::int32_t first) {
  const ProcessStat stat = read_stat(first);
  const std::uint64_t scope = pid_namespace();
  if (stat.start_time == 0 || scope == 0) return {random_word(), random_word()};
  std::string text = "run";
  const auto number = static_cast<std::uint64_t>(first);
  const auto [code, code_end, stack] = stat.image;
  for (const std::uint64_t part : {scope, number, stat.start_time, code, code_end, stack}) {
    text += ';' + std::to_string(part);
  }
  return session_named(text);
}

}  // namespace shmtensor
