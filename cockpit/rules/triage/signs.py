"""What programs print when something ends them: one table, the deepest cause first."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.rules.triage.speakers import EVENTS, Speaker

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


Action = Literal["relaunch", "fix_then_relaunch", "escalate", "wait", "none"]


class Sign(NamedTuple):
    """A class of SPEC T, the pattern that shows it, and the action when the job is over."""

    name: str
    pattern: re.Pattern[str]
    action: Action
    alive: Action
    """The action when the job still runs."""
    speakers: frozenset[Speaker] = EVENTS
    """Those whose word counts."""


TIMED_OUT = (
    r"(?:timed ?out|time ?out(?!_|[\"']?\s*(?:\([a-z]+\)\s*)?(?:=|:\s*[\"']?\d"
    r"|(?:of|is|(?:is )?set to)\s+\d|\s\d[\d.]*\s?(?:s|secs?|seconds|ms|min)\b)))"
)
"""A time-out that happened; ``timeout: 1200 secs`` is only a setting."""
RANKS_END = r"\b(?:terminat|kill|abort)(?:ing|ed) (?:all )?ranks?\b"
"""What a launcher does to its ranks, not what it would do: ``will kill ranks after …``."""


def _sign(name: str, action: Action, alive: Action, *patterns: str) -> Sign:
    speakers = (
        EVENTS | frozenset[Speaker](("metrics",)) if name == "numeric_instability" else EVENTS
    )
    return Sign(name, late_regex("|".join(patterns), re.I), action, alive, speakers)


SIGNS: tuple[Sign, ...] = (
    _sign(
        "preempted",
        "relaunch",
        "wait",
        r"due to pre-?empt(ion|ed|ing)?\b|cancelled at \S+ due to job requeue",
        r"\bTERM_PREEMPT\b|\bITN\b.{0,20}\breceived",
        r"^(?!.*(sequence group|pre-?emptionmode|kv.?cache)).*\bpre-?empted\b(?![\"']? ?[=:] ?(0"
        r"|false|no))",
        r"\bPreemptionByScheduler\b|\bpreempting to accommodate\b"
        r"|\bimpending-node-termination\b",
        r"\bpre-?empted[\"']? ?[=:] ?true|\bpre-?empt(ing|ion of|s)? .{0,40}\b(vm|node|instance"
        r"|host)\b",
        r"pre-?emption (notice|warning|event|signal)\b(?!.*(no|none|disabled))",
        r"^(?!.*(memory|disk|storage|emptydir|pressure)).*\b(job|pod|workload|task) (was "
        r"|has been |is )?"
        r"evicted\b",
        r"\btermination (is|will be) (imminent|scheduled)\b|\bhost ec2 .{0,30}\bterminated\b"
        r"|\bpower key pressed\b",
        r"\b(spot|pre-?emptible|capacity)\b(?!.*\b(user[- ]initiated|risk|price)\b).{0,40}(stopping"
        r"|shut(ting )?down|interrupt|reclaim"
        r"|terminat|evict)",
        r"(instance|\bvm|machine)\b.{0,30}(will be|is being) (stopped|terminated|reclaimed"
        r"|deallocated)",
        r"\bevicted by|eviction (notice|in \d)|evicted.{0,60}higher[- ]priority",
        r"scheduled event.{0,40}pre-?empt",
        r"\b(spot|pre-?emptible)\b.{0,40}\bnotice (was |has been )?(received|arrived)\b",
        r"\bTERMINATE_ON_HOST_MAINTENANCE\b",
        r"\b(due to|because of|by|after) (\w+ ){0,2}pre-?emption\b|\boutbid\b"
        r"|\bhigher bid\b|\b(deleted|scaled down|removed)\b.{0,30}\bfor (\w+ )?pre-?emption\b",
        r"\bEventType\W{1,5}(Pre-?empt|Terminate)\b|_PRE-?EMPTED\b(?![\"']? ?[=:] ?(0|false|no))"
        r"|\b(instance|node|vm|worker|capacity|host|pod|machine)s?\b.{0,40}\b(was|been|is being"
        r"|being)? ?reclaimed\b"
        r"|\bImpendingNodeTermination\b|\bmaintenance event\b.{0,60}\b(terminat|shut|evict)\w*",
    ),
    _sign(
        "walltime",
        "relaunch",
        "escalate",
        r"due to time limit",
        r"\bthis job is timed-?out\b|\btimed-?out too many times\b",  # submitit
        r"\bTERM_RUNLIMIT\b|\b(job)?state[=:] ?timeout\b|\btimeout[ |]+0:\d+\b"
        r"|^\s*\d{1,12}[\w.]{0,20}[ |]+(?-i:TIMEOUT)[ |]+(\d+-)?\d\d:\d\d:\d\d\b",  # sacct
        r"^timeout: sending signal \w+ to command .{0,20}(torchrun|deepspeed|accelerate|train)"
        r"|\b(?-i:SIG[A-Z]+) from timeout\(|\btorchrun ended by timeout \d",  # coreutils
        r"wall[- ]?(clock|time)\b.{0,40}(exceed|reached|expired"
        r"|(limit|elapsed)(?! ?(?:[:=(]|of\b|is\b|\d)))"  # a figure: a setting, or a time
        r"|(reached|hit|over) .{0,20}\bwall[- ]?(clock|time)\b",
        r"exceed\w* .{0,30}(wall[- ]?(clock|time)|time limit|run ?time|run limit|h_rt|s_rt)",
        r"\b(time|run) ?limit (of [\w.:]+ (\w+ )?)?(was |has been )?(reached|exceeded|hit|expired)"
        r"|\b(job|session|kernel|run|wall)\b.{0,12}\btime ?limit\b.{0,30}\b(reached|exceeded)\b",
        r"(reached|hit|over) (the |its |your )?(\w+ )?(time|runtime|duration) limit\b",
        r"\bexiting (the )?(program|training) after [\d.]+ ?(minutes|hours)\b",
        r"\breached (the )?-{0,2}max[-_ ]([a-z]+[-_ ])?(hours|minutes|time|duration)\b"
        r"|\b(custom|training) ?job timed out after \d{4,}",
        r"hard runtime limit|max(imum)?[ _]?(run ?time|duration|run[ _]duration) ?(reached"
        r"|exceeded)",
        r"active deadline .{0,20}exceeded|\b(hit|reached|exceeded) (its|the) (\w+ )?timeout of\b",
        r"exceed\w* .{0,30}max\w* (allowed )?(run |execution |session )?(duration|runtime"
        r"|running time|execution time)"
        r"|\b(allocation|reservation|lease)\b (has )?expired\b|\bexception type=timeout\b",
        r"\blonger than .{0,40}\b(deadline|wall ?time|duration|session time|run ?time|time limit)\b"
        r"|\bmore than .{0,30}\b(wall ?time|time limit)\b"
        r"|\bmax\w*[ _-]?(run[ _-]?)?(duration|runtime|session time)[ _-](was |has been )?"
        r"(exceeded|reached|hit)\b|\bmaxRunDuration\w* (reached|exceeded)\b"
        r"|\breached (its|the) max(imum)? run duration\b",
        r"\b(run|job|task|function|workload|pod)\b.{0,20}\bexceeded (its |the )?timeout of\b"
        r"|\breached (the |its )?requested (run ?time|wall ?time)\b|\b[hs]_rt\b.{0,20}\b(exceeded"
        r"|reached)\b",
        r"\b(execution|run|job|task) deadline (was |has been )?(reached|exceeded)\b"
        r"|\bmax\w* time (was |has been )?(exceeded|reached)\b|\b\w*Task(TimedOut|Timeout)\b",
        r"active longer than specified deadline|\bjob\b.{0,30}timed out \(limit",
        r"\b(job|allocation|reservation)\b.{0,40}\b(time|lease) (has )?(expired|run out|ran out)",
    ),
    _sign(
        "node_death",
        "relaunch",
        "escalate",
        r"due to node fail",
        r"\bnode failure\b",
        r"\bNODE_?FAIL\b",
        r"\bOwnerDied(Error)?\b",
        r"\bNodeDied(Error)?\b",
        r"\bdead node\b",
        r"\bnodes?\b.{0,60}\b(is dead|died|was lost|marked (as )?dead|unreachable|went away"
        r"|not responding|has died)|\bNodeNotReady\b|\bNodeLost\b|\bnode (\S+ )?(is )?not ?ready\b"
        r"|\bpower(ed)? (state )?(is )?off\b"
        r"|\bssh: connect to host [\w-]+ port \d+: (no route to host|host is down)",
        r"(?<![=:])(failed|lost|dead|down(ed)?|crashed) node\b(?! ?[:=] ?0)"
        r"|setting down\b",
        r"(imminent|ungraceful|unexpected) node shutdown|node is shutting down|\bNodeShutdown\b",
        r"\b(host|machine|node|instance|vm)\b.{0,40}\b(rebooted(?! \d+ \w+ ago)|crashed|lost power"
        r"|went down"
        r"|kernel panic)",
        rf"heartbeat {TIMED_OUT}.{{0,80}}remote task|\btask:?\d* heartbeat timeout",
        r"raylet\b(?![,)]).{0,60}(died|dead|lost|crashed|unreachable)",  # (raylet) only tells it
        r"missed (too many|[1-9]\d*) (\w+ )?(heart-?beats|pings)|\bmissed heart-?beats for \d"
        r"|\b(instance|system|node|host)\b.{0,16}\bstatus checks?\W{1,3}0 ?(/|of) ?[1-9]"
        r"|\b(ping|heart-?beat) threshold (was )?exceeded"
        r"|\b(node|host|machine|instance|vm)\b.{0,40}\bnot (been )?heard from\b"
        r"|(\b|STATE_)WORKER_FAILED\b(?![\"']? ?[=:] ?0)",
        r"\b(declar|mark|consider)(s|es|ed|ing)\b.{0,30}\b(worker|node|host)\b.{0,30}\b(dead"
        r"|lost)\b",
        r"\bhost ?error\b(?!s?\s*[:=]\s*0\b)"
        r"|\b(replica|node|host|worker|vm|machine|instance)\b.{0,40}\b(became|is) unreachable\b",
        r"\bSLICE_FAILURE_\w*(WORKER|HOST)\w*",
        r"\b(host|node|worker|machine|instance|vm)\b.{0,40}\b(became|has become|went) (unavailable"
        r"|offline|lost)\b"
        r"|\b(host|node|machine|instance|vm)\b.{0,40}\bno longer exists?\b"
        r"|\bpod garbage collector\b",
        r"\bstopped posting node status\b|\bNodeStatusUnknown\b|\bpower (failure|loss|outage)\b"
        r"|\bhost down\b|\b(node|host|machine|instance)\b.{0,30}\b(disappeared|vanished)\b"
        r"|\bunexpectedly rebooted\b|\bExecutorLost\w*|\bworker lost\b",
        r"\b(soft|hard) lockup\b|\bself-detected stall on CPU\b"
        r"|\bkernel panic\b(?!.*\b(machine check|mce)\b)",
        r"lost (communication|contact|connection) (with|to) .{0,30}\b(daemon|node|host|worker"
        r"|agent)\b",
        rf"heartbeat(?! monitor)(?!.{{0,120}}{RANKS_END}).{{0,30}}(lost|expired|(?<!_){TIMED_OUT})"
        r"|stopped sending heartbeats",
        r"\bworker (process|node|host).{0,30}(lost|unreachable|disappeared)"
        r"|\blost (executor|task ?manager|node|host) \S+"
        r"|\bhost \S+ (is |was |went )?(unreachable|down)\b"
        r"|\bworker \S+ (is |was )?(lost|unreachable|gone)\b|"
        r"^(?!.*(nccl|process ?group|heartbeat ?monitor)).*\bno heartbeat (for|since|from)\b"
        r"(?! rank)",
        r"\b(job|shadow|starter|startd)\b.{0,30}\b(disconnected too long|reconnection failed)"
        r"|can ?not reconnect to (slot|node|host)",
    ),
    _sign(
        "hbm_exhausted",
        "escalate",
        "escalate",
        r"ran out of memory in memory space \w+|memory space hbm|exceeded scoped vmem limit",
        r"unlikely to have enough device memory",
        r"program hbm requirement",
        r"largest program allocations in hbm",
        r"compiler_base\.cc:\d+",
        r"\b(needs?|requires?)\b.{0,30}\bhbm\b.{0,40}\b(only|available|capacity|free)\b",
        r"exceeded hbm capacity|resource_exhausted\b.{0,300}\bhbm\b",
        r"attempting to (reserve|allocate) .{0,80}not possible|\(0x\w+_HBM\d",
        r"(does not|doesn't|cannot) fit (in|into) hbm",
        r"\ballocation \(size=\d+\) would exceed memory\b",
    ),
    _sign(
        "oom_host",
        "escalate",
        "escalate",
        r"oom[-_ ]?kill(?!er (is )?(disabled|enabled))"
        r"(?![\w-]*[\"']? ?[=:]? ?0\b(?! ?->))(?![\w-]*[\"']? ?[=:] ?[\"']?(false|no|none)\b)",
        r"out of memory: kill",
        r"memory cgroup out of memory",
        r"\btask \d+: out of memory|\b(system|node|host|machine) (ran|went|is|was) out of memory\b",
        r"\b(replica|container|pod|executor|worker)\b.{0,40}\b(ran|run|went) out[- ]of[- ]memory\b",
        r"\bOUT_OF_ME(MORY\b|M?O?R?\+)",  # as sacct cuts it
        r"node running low on memory|\b(allocate|use) more memory than (is )?available\b",
        r"exceeds the memory usage threshold",
        r"exceed\w* .{0,30}memory (limit|usage)|job killed: mem\b"
        r"|\bmem(ory)?\b \d+\w* exceeded limit",
        r"\b(kill|evict|terminat)\w*\b.{0,40}\bmem(ory)?\b[^<=]{0,30}(>|\bover\b|\babove\b)=? ?"
        r"(the )?(limit|request|cap)\b",
        r"memory (usage|limit) .{0,30}exceed|\bcgroup oom\b",
        r"\b(gone|went|is|was|grew) (over|above|beyond|past)\b.{0,20}\bmemory (limit|request)"
        r"|\bbeyond the '?\w+'? memory limit",
        r"\bcontainer (was )?killed (due to|because of|for) .{0,20}memory",
        r"memory pressure \(oom\)|unexpected bus error encountered in worker",
        r"\bmalloc of size \d+ failed\b|\bfailed to allocate \S+ ?(of )?host memory\b",
        r"_?arraymemoryerror|errno 12\b",
        r"\bTERM_MEMLIMIT\b",
        r"^\s*MemoryError\b",
        r"cannot allocate memory",
        r"std::bad_alloc",
        r"unable to allocate .{0,40}\bfor an array",
        r"defaultcpuallocator.{0,40}memory",
        r"insufficient shared memory",
        r"\bevict\w*\b.{0,60}\bMemoryPressure\b|low on resource: memory"
        r"|\b(?:replicas?|pods?|containers?|workers?|machines?|nodes?"
        r"|hosts?) low on memory\b",
        # Daemons that kill before the kernel must: systemd-oomd, earlyoom, nohang.
        r"\bkilled .{0,160}\bdue to memory (pressure|used|usage)",
        r"\b(\w*oomd|earlyoom|nohang)\b\S*\s.{0,40}\b(sending|sent) sig(term|kill)\b(?! when\b)",
        r"dataloader (worker|process) .{0,40}killed by signal: (killed|bus)",
    ),
    _sign(
        "oom_device",
        "escalate",
        "escalate",
        DEVICE_MEMORY,
        r"no available memory for the cache blocks",
        r"\berror out of memory at line \d+ in file\b",  # bitsandbytes
        r"\b[A-Z]{2,5} out of memory\. tried to allocate"
        r"|failed to allocate \S+ ?\w?B .{0,60}\bon ND\b",
        r"\b(cuda|hip|xpu|mps|npu)\b.{0,30}out of memory",
        r"\boutofmemoryerror\b(?!.*task was killed)",
        r"(CUDA|CUBLAS|CUDNN|cuda)_?\w*(OUT_OF_MEMORY|ALLOC_FAILED|MemoryAllocation)",
        r"resource_exhausted:.{0,40}(out of memory|oom|allocat|failed to allocate)",
        r"oom when allocating tensor|cuda failure.{0,10}out of memory|hipErrorOutOfMemory",
        r"out of memory (while trying to allocate|allocating) \d+",
        r"ran out of memory (trying to allocate|on device)",
        r"\bout of memory\b.{0,24}\bon (the )?(gpu|npu|xpu|device|accelerator)\b",
        r"(\b|_)(dev(ice)?[ _]?mem(ory)?|gpu memory)\b.{0,30}\balloc\w* fail"
        r"|failed to allocate .{0,30}\b(device|gpu) memory",
    ),
    _sign(
        "disk_full",
        "fix_then_relaunch",
        "fix_then_relaunch",
        r"no space left on device|not enough (free )?(disk )?space|insufficient disk space",
        r"\bENOSPC\b|\bEDQUOT\b",
        r"(disk |storage |block |inode |file |user )quota exceeded"
        r"|^(?!.*\b429\b).*[:)] quota exceeded"
        r"|exceeded (your |the )?(disk|storage|file|inode|block)s? quota|over (disk )?quota\b",
        r"\berrno (28|122)\b",
        r"(out of|no (more|free)) inodes",
        r"(disk|file ?system|volume|partition) (is |or disk is )?full\b|storagefull\b"
        r"|reached its minimum free (drive|disk|space)",
        r"unexpected pos \d+ vs|PytorchStreamWriter failed writing",
        r"low on resource: ephemeral-storage|\bDiskPressure\b(?!.*\bfalse\b)"
        r"|exceed\w* .{0,40}(ephemeral|local)[- ]storage"
        r"|ephemeral[- ](local )?storage usage exceeds"
        r"|\busage of emptydir\b.{0,60}\bexceed"
        r"|^(?!.*(neptune|wandb|comet)).*\bstorage (limit|quota) (was |has been )?(reached"
        r"|exceeded)\b",
    ),
    _sign(
        "hardware_fault",
        "relaunch",
        "escalate",
        DEVICE_LOST,
        r"\b(accelerator|tpu|device|core) (device )?halted (prematurely|unexpectedly)",
        r"\b(double|multi)[- ]?bit\b.{0,20}\becc\b(?!\s*[:=]\s*0\b)"
        r"|\bhbm\b.{0,30}\becc\b.{0,20}\berror\b(?!s?\s*[:=]\s*0\b)",
        r"\bremounting file ?system read-only\b|\b(EXT4-fs error|XFS \S+ metadata I/O error)\b",
        r"(?<!\b0 )uncorrectable (\w+ )?ecc(?! errors?\s*[:=]\s*0\b)|ECCUncorrectable"
        r"|\becc error\b(?!s)|(?<!\b0 )uncorrectable (\w+ )?(memory|error)(?!s?\s*[:=]\s*0\b)",
        r"double[- ]bit (\(?\w+\)? )?(ecc|error)s?\b(?!\s*[:=]\s*0\b)"
        r"|row remapp\w+ (failure|failed)",
        r"\bNVRM: Xid\b|\bS?Xid \(",
        r"\bS?Xid (error )?(?!0\b)\d+",
        r"fallen off the bus|gpu is lost",
        r"unable to determine the device handle",
        r"(nvlink|nvswitch|xgmi|\bici\b).{0,60}(error|fail|down|fatal)",
        r"\b(infiniband|ib\d*|mlx5_?\w*|ibv|port|hca|roce|nic|eth\d+|ici|chip)\b.{0,60}"
        r"\blink\b.{0,12}\b(down|fail\w*|lost)",
        r"machine check (exception|error)|hardware error\]?(?!.*\bcorrected\b)"
        r"|\buncorrected (\([\w-]+\) )?error\b|\bthermal (trip|shutdown)\b"
        r"|\bover[- ]?temperature\b(?! (threshold|limit)|: ?no)",
        r"\bparity error\b|\b(dropped|fell|fallen) off (the )?(pcie?|bus)\b|\bpower fault\b"
        r"|\bpcie link (is )?(lost|down)\b",
        r"\buncorrectable\b\W{0,3}[1-9]\d*\s*$",
        r"\[/dev/accel\d+ .{0,60}fatal error|\bresults may be corrupted\b"
        r"|\bsilent data corruption\b|\bSDC\b.{0,30}\b(detected|triggered|fail\w*)\b",
        r"\bEDAC\b.{0,20}\bUE\b|hw exception by gpu|\bgpu hang\b|gpu reset (failed|begin)",
        r"\bSLICE_FAILURE_\w*(CHIP|ICI|LINK)\w*|\btpu session error\b",
        r"critical (medium|target) error"
        r"|\b(blk_update_request|buffer i/o error|i/o error, dev)\b(?!.*\b(fd|sr|loop)\d)"
        r"|\bnvme\S* .{0,60}\bcontroller is down\b",
        r"(gpu|tpu|npu|chip|accelerator)\b.{0,30}\b(has )?(failed|lost|hung"
        r"|wedged)\b.{0,30}hardware",
        r"ibv_(?!open_)\w+.{0,30}(failed|error)",
        r"got completion .{0,60}(error|status)",
        r"transport retry count exceeded|async event.{0,20}(fatal|catastrophic|port error)"
        r"|\basync fatal event\b|\bIBV_EVENT_(DEVICE_FATAL|PORT_ERR)\b"
        r"|\bmlx5_\w+ .{0,60}\b(health compromised|firmware internal error)",
    ),
    _sign(
        "bad_node",
        "escalate",
        "escalate",
        DEVICE_CLOSED,
        OPENING_FAILED,
        r"\bibv_open_\w+.{0,30}\b(failed|error)\b",
        r"\bprolog\b.{0,60}(\bfail(ed|ure)\b|exit(ed)? with (exit )?(status|code) [1-9]|\berror\b)",
        r"\b(module|driver) (is )?not loaded\b|\b(dcgmi?|nhc|node[ _]health)\b(?!.*(\b0 fail"
        r"|\bpassed)).{0,80}\bfail(ed"
        r"|ure)?\b"
        r"|slurmstepd: error: .*\b(gres|cgroup|container|namespace|mount)\w*\b.*\bfail(ed|ure)\b",
        r"unable to determine \w+ driver version|\bcould not open the nd\d"
        r"|\bcall failed lazily at initialization\b|\bpre-?flight\b.{0,120}\b(fail\w*|unhealthy)\b",
        r"no accelerator found|\bexpected (?P<asked>\d+) gpus?\b.{0,40}\bdevice_count\(\)"
        r" ?(=+|is|returned) (?!(?P=asked)\b)\d",
        r"tpu initialization failed|failed to (open|initialize) (?!.*cannot open shared object)"
        r".{0,20}(tpu|accel|libtpu|hccp|\bnpu|\bhpu|gaudi|habana|neuron)",
        # No library at all: a machine without a TPU, as JAX says it.
        r"\bno (cuda|hip|rocm|xpu|npu|mps|gpu|tpu|hpu|habana|gaudi|neuron"
        r"|accelerator)s?[- ]?(capable )?"
        r"(gpus?|devices?|cores?|chips?)? ?(is|are|were|was)? ?\b(available|found|detected"
        r"|visible)\b"
        r"|nvidia-smi\W.{0,30}\bno devices were found",
        r"^(?!.*(\.nfs|rmtree|unlink|rmdir|/tmp/)).*device or resource busy",
        r"couldn.?t open iommu",
        r"bad[- ]node signature",
        r"failed_precondition(?!.{0,80}\b(zarr\w*|ocdbt|kvstore)\b).{0,80}(driver|device|tpu"
        r"|accelerator|clean)",
        r"no cuda gpus are available|cudaGetDeviceCount|found no nvidia driver|cuda unknown error",
        r"no cuda-capable device|cuda driver (version|initialization).{0,30}(insufficient|fail)",
        r"cuda-capable device\(s\) is/are busy|all cuda.{0,10}devices are busy",
        r"nvidia-smi has failed|failed to initialize nvml|nvml error|nvidia-container-\w+",
        r"nvidia driver on your system is too old|driver/library version mismatch",
        r"expected (?P<want>\d+) .{0,30}(gpu|tpu|accelerator|device|chip)s?\b.{0,60}\b(found|got"
        r"|have"
        r"|only|but|has)\b(?! (?P=want)\b)",
        r"\b(found|only|got|see) \d+ .{0,20}(gpu|tpu|accelerator|chip"
        r"|local device)s?\b.{0,40}expected",
        r"unable to initialize backend '(tpu|cuda|rocm)': (?!.*cannot open shared object)"
        r"(unknown|internal|aborted|failed_precondition|unavailable)",
        r"\b(sees|found|finds|got|has|have|only) (?P<seen>\d+) (of|/"
        r"|out of) (?!(?P=seen) )\d+ .{0,20}"
        r"(gpu|tpu|npu|accelerator|device|chip)s?\b|\bcount reported lower than configured\b"
        r"|\bno such device( or address)?: '/dev/",
        r"/dev/(accel|vfio/|nvidia|kfd|neuron|davinci|hl|dri|infiniband)\w*.{0,60}(no such"
        r"|not permitted"
        r"|denied|busy"
        r"|input/output error)",
        r"(unable to|can ?not|can't|could ?n[o']t|failed to) (open|access|initiali[sz]e|reset)"
        r" ((the )?(device )?/dev/(accel|vfio|nvidia|kfd|dri|neuron|davinci)"
        r"|(the )?(\w+ )?devices?\b(?! (mesh|map|plugin|list|config)|[./-]\w))",
        r"\b(gpu|tpu|npu|xpu|neuron|accelerator|device|driver)( runtime| driver)? (could not"
        r"|couldn't|can ?not|failed to) be initiali[sz]ed",
        r"\bdevice (acquire|open) failed\b|\bno healthy devices\b|\bunhealthy devices?\b",
        r"task launch for \S+ failed on node|invalid device ordinal|could not select device driver",
        r"system not yet initialized|no supported (gpu|device)|no hip gpus are available"
        r"|cuda initialization (error|failed)|failed call to cuinit",
        r"the tpu is already in use|libtpu.{0,30}already in use",
    ),
    _sign(
        "numeric_instability",
        "escalate",
        "escalate",
        r"\b(loss|grad\w*|norm|activation\w*|logits|weights?|param\w*)\b.{0,40}"
        r"\b(is|are|was|became|contains?|has|=|:)\s*(a )?(nan|inf(inity)?|non-?finite)\b",
        r"(?<![\w-])(nan|inf|non-?finite)s?\b(?![-=]|( \w+)?\s*[:=]\s*(0|false|none)).{0,30}"
        r"\b(loss|losses|grad\w*|norm|logits)\b(?!.{0,20}[:=]\s*(true|false|\d))",
        r"(?<![\w-])(nan|inf|non-?finite)s?\b(?!-).{0,30}\bin (output|forward|backward)",
        r"\bthere are (nan|inf)s?\b|\boverflow detected in \d+ consecutive\b",
        r"\bgrad(ient)?[ _]norm (inf|nan)\b",
        r"contains either `?(nan|inf)\b|\breturned nan values\b",
        r"(returned|produced|detected|found|encountered|contains) (an? )?(nan|inf|non-?finite)s?\b"
        r"(?![-\w])|invalid value \(nan\)|\bnon-?finite (loss|grad|value|norm|metric)|not finite\b",
        r"(loss|grad\w*).?scale.{0,40}(minimum(?! ?[:=])|too small|underflow|cannot decrease"
        r"|collaps\w*)",
        r"\bgrad\w*[ _]norm\b.{0,24}\b(over|above|beyond|exceed\w*)\b.{0,12}\b(limit|threshold"
        r"|max\w*)\b.{0,60}\b(abort|stop|refus|halt|giving up|exit)\w*",
        r"minimum loss scale(?! ?[:=])|loss scaler? .{0,20}\bto (0\.0\b|\d(\.\d+)?e-\d+)",
        r"\bFloatingPointError\b|\btensor\(\[[^\]]{0,200}\bnan\b",
        r"\bloss\b.{0,20}\b(diverged|exploded)|training (has )?diverged|loss (spike|explosion)\b"
        r".{0,40}\b(detected|abort|halt|stop)|\b(stopped|halted|aborted|ended)\b.{0,30}\bloss spike"
        r"|\bLoss(Spike|Diverge\w*|NaN|Explosion)\w*(Error|Exception)\b",
    ),
    _sign(
        "distributed_hang",
        "escalate",
        "escalate",
        COLLECTIVE_TIMEOUT,
        rf"watchdog(?!: BUG).{{0,60}}({TIMED_OUT}|stuck)"
        r"|heartbeat ?monitor\b.{0,60}(timed out|no heartbeat)"
        r"|timeout at nccl work",
        r"rendezvous\w*.{0,60}(timed ?out|timeouterror|expired|deadline[_ ]exceeded)"
        r"|\bRendezvous(Closed|Connection|State|Timeout)Error\b",
        r"nccl operations have failed or timed out|socketStartConnect",
        r"(watchdog|hang) (detector|detected|monitor)\b.{0,80}\b(no progress|stuck|hang|hung)"
        r"|\bhang (was )?detected\b(?!\s*[:=]\s*(0|no|false))"
        r"|\babort(s|ed|ing) (on|due to) (a )?hang\b"
        r"|\bno (\w+ )?(progress|steps?)\b.{0,40}\b(for|in|within|since) \d+"
        r"|\bstill waiting (for|on|in) (an? |the )?\w*(all_?\w+|collective|barrier|broadcast"
        r"|quorum|ranks?|peers?|send|recv)\b|\bquorum (can ?not|could not|can't) be"
        r" (formed|reached)|\b(ranks?|workers?|processes) (is|are|seems?) (stuck|hung)",
        r"\b(considered|declared|presumed|deemed|found) (to be )?(hung|hanging|stuck"
        r"|unresponsive)\b"
        r"|\bmismatch(ed)? (between )?collectives?\b|\bobject\(s\) not ready after\b"
        r"|\brpc call to \w+ timed out\b"
        r"|fatal error in (internal_|pmpi_|mpi_)+(allreduce|allgather|alltoall|bcast|barrier"
        r"|reduce)",
        r"timed out after .{0,30}waiting for (clients|workers|ranks|peers)|\bDistStoreError\b",
        r"\bstore\W.{0,60}\bwait timeout after \d+",  # c10d's: the others never came
        rf"\bheartbeat\b.{{0,120}}{RANKS_END}"
        r"|did not get (the )?(subsequent|initial|next) heartbeat"
        r"|\branks? \d+ (did not|has not|hasn't|didn't) (send|sent) (\w+ )?heart-?beats?\b",
        r"(collective|allreduce|all_reduce|allgather|broadcast|nccl|gloo|rccl)\b.{0,80}"
        rf"{TIMED_OUT}",
        rf"barrier.{{0,60}}{TIMED_OUT}|{TIMED_OUT}.{{0,60}}barrier",
        r"timed out (initializing|waiting for).{0,40}(process group|ranks?|clients|workers)\b",
        r"did not (call into|join|enter|reach) .{0,30}(barrier|collective|rendezvous)",
        r"coordination (service|agent).{0,80}(timed? ?out|deadline|unhealthy)",
        r"\bno collectives? completed for \d|\bDeepEP (error: )?timeout\b"
        r"|\bno heart-?beat from rank\b|\bsection '\w+' timeout\b",
        r"failed to pass monitoredbarrier|errors while waiting for send/recv from rank",
        r"deadline_?exceeded.{0,80}(barrier|coordination|collective)"
        r"|barrier.{0,80}deadline_?exceeded",
        r"timed out (in|during) (a )?(all_?to_?all|all_?reduce|all_?gather|reduce_?scatter"
        r"|broadcast|barrier|send|recv)",
        r"(error from|rpc to) (the )?coordination service|distributed service detected fatal",
        r"\[c10d\].{0,80}(timed out|failed to connect)|\bDistNetworkError\b",
        r"waiting for remainder of ranks|\bstall(ed)? (ranks?|tensors?|ops?|operations?"
        r"|collectives?|shutdown)\b|\branks?\b.{0,40}\b(is|are) stalled\b"
        r"|not all of them arrived|\bdesync(ed|hronized)?\b.{0,40}\b(ranks?|collectives?)\b",
        r"\b(thread|collective|operation|rank|watchdog)\b.{0,80}\b(has|have) been "
        r"(waiting|running|blocked|stuck)\b.{0,120}\bfor \d+ ?(ms|milliseconds|s|sec|seconds|min)",
    ),
)
