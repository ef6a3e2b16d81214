// What torch's expandable segments look up in NVIDIA's management library (NVML). There is neither
// NVLink nor a fabric between the GPUs.
#define SUCCEEDS(name) \
  extern "C" int name() { return 0; }
#define NOT_SUPPORTED(name) \
  extern "C" int name() { return 3; }  // NVML_ERROR_NOT_SUPPORTED

SUCCEEDS(nvmlInit_v2)
SUCCEEDS(nvmlDeviceGetHandleByPciBusId_v2)
NOT_SUPPORTED(nvmlDeviceGetComputeRunningProcesses)
NOT_SUPPORTED(nvmlDeviceGetGpuFabricInfoV)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
NOT_SUPPORTED(nvmlSystemGetCudaDriverVersion_v2)
