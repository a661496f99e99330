"""Error codes, by what they mean: a runtime's name for an error says the same in every message.

CUDA's, HIP's and HSA's, Level Zero's and Unified Runtime's, Neuron's (``NRT_``), Ascend's
(``ACL``), Gaudi's (``syn``), Cambricon's and NVML's, and what opens a device in each.
The kernel's own numbers (errno) are :data:`NETWORK_ERRNO`; of clouds' interfaces
:data:`TRANSIENT` are the answers that another try may get.
"""

from __future__ import annotations

from typing import Final

DEVICE_MEMORY: Final = (
    r"\b(?:CUDA_ERROR|hipError|cudaError)_?(?:OutOfMemory|OUT_OF_MEMORY|MemoryAllocation)\b"
    r"|\b\w+_STATUS_ALLOC_FAILED\b|\b(?:ZE|UR|PI)_(?:RESULT_)?ERROR_OUT_OF_(?:DEVICE_MEMORY"
    r"|RESOURCES)"
    r"|\bHSA_STATUS_ERROR_OUT_OF_RESOURCES\b|\bNRT_RESOURCE\b|\bsynStatus\w*OutOf\w*Memory"
    r"|\bnrt_\w+.{0,40}\ballocation failure\b|\bACL_ERROR_(?:RT_MEMORY_ALLOCATION"
    r"|STORAGE_OVER_LIMIT)\b|\b(?:CNRT_RET_ERR|cnrtError)_?NoMem"
)
DEVICE_LOST: Final = (
    r"\b(?:CUDA_ERROR|cudaError|hipError)_?(?:ECC_?(?:UNCORRECTABLE|NotCorrectable)"
    r"|NVLINK_?UNCORRECTABLE|CONTAINED)\b"
    r"|\b(?:ZE|UR|PI)_(?:RESULT_)?ERROR_DEVICE_LOST\b|\bNRT_(?:EXEC_)?HW_ERR\w*"
    r"|\bNVML_ERROR_GPU_IS_LOST\b"
)
DEVICE_CLOSED: Final = (
    r"\b(?:CUDA_ERROR|cudaError|hipError)_?(?:NO_?DEVICE|SYSTEM_?NOT_?READY|NOT_?INITIALIZED"
    r"|SYSTEM_?DRIVER_?MISMATCH|INITIALIZATION_?ERROR|INSUFFICIENT_?DRIVER|DEVICE_?UNAVAILABLE"
    r"|DEVICES_?UNAVAILABLE|STUB_?LIBRARY|COMPAT_NOT_SUPPORTED_ON_DEVICE)\b"
    r"|\b(?:ZE|UR|PI)_(?:RESULT_)?ERROR_UNINITIALIZED\b|\bNRT_(?:UNINITIALIZED|INVALID_HANDLE)\b"
    r"|\bsyn(?:NoDeviceFound|DeviceAlreadyAcquired)\b|\bHSA_STATUS_ERROR_NOT_INITIALIZED\b"
    r"|\bNVML_ERROR_(?:DRIVER_NOT_LOADED|LIB_RM_VERSION_MISMATCH|LIBRARY_NOT_FOUND|UNINITIALIZED)\b"
)
_OPENS: Final = (
    r"(?:cuda|hip|musa|cnrt)_?GetDeviceCount|(?:cu|hip|acl|ze|hsa_|nrt_|rsmi_|amdsmi_|nvml|cnrt"
    r"|syn)Init"
    r"(?:ialize)?|aclrtSetDevice|synDeviceAcquire\w*|hccl_?comm_?init\w*_device"
)
OPENING_FAILED: Final = (
    rf"\b(?:{_OPENS})\b.{{0,80}}\b(?:error|fail\w*|returned|code)\b"
    rf"|\b(?:error|fail\w*)\b.{{0,40}}\b(?:{_OPENS})\b"
)
"""A runtime's call that opens its devices, and did not."""

COLLECTIVE_TIMEOUT: Final = (
    r"\bNRT_TIMEOUT\b|\bHCCL_E_TIMEOUT\b|\b(?:notify register|getting socket) times out\b"
    r"|\bnotify wait\b.{0,120}\b(?:fail|tim(?:ed|es) ?out)"
)
"""Ranks that wait for each other on the device itself."""

NETWORK_ERRNO: Final = r"\berrno (?:10[0-4]|11[0-3]|121)\b"
"""A network that is down or unreachable, a connection aborted, reset, refused or timed out."""
MOUNT_ERRNO: Final = r"\berrno (?:107|108|116)\b|transport endpoint|stale (?:nfs )?file handle"
"""A file system behind a network that has gone, and does not come back to this mount by itself."""

TRANSIENT: Final = (
    r"(?<!clocks )(?<!clock )(?<!hw )(?<!thermal )\b(?:SlowDown|\w*Throttl(?:ed|ing)\w*"
    r"|RequestTimeout\w*|RequestLimitExceeded|TooManyRequests"
    r"\w*|ServerBusy|OperationTimedOut|InternalServerError|GatewayTimeout|BadGateway"
    r"|reduce your request rate|rate limit (was |has been )?(?:reached|exceeded)|rateLimitExceeded"
    r"|backendError|ProvisionedThroughputExceeded\w*)\b"
)
"""What an object store or a cloud answers that is overloaded, or fails by itself."""
