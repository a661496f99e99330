"""What programs print when something ends them: one table, the deepest cause first.

Each sign is the message of a mechanism (a kernel, a scheduler, a runtime, a library), written
so that its variants match: not of one incident. The order is that of causes: a scheduler's
own word explains whatever the program shouts while dying, a full disk explains a failed write,
lost memory explains a collective that times out on the other ranks.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Action = Literal["relaunch", "fix_then_relaunch", "escalate", "wait", "none"]


class Sign(NamedTuple):
    """A class of SPEC T, the pattern that shows it, and the action when the job is over."""

    name: str
    pattern: re.Pattern[str]
    action: Action
    alive: Action
    """The action when the job still runs."""


TIMED_OUT = (
    r"(?:timed ?out|time ?out(?!_|[\"']?\s*(?:\([a-z]+\)\s*)?(?:=|:\s*[\"']?\d|(?:of|is)\s+\d)))"
)
"""A time-out that happened; ``timeout: 1200 secs`` is only a setting."""


def _sign(name: str, action: Action, alive: Action, *patterns: str) -> Sign:
    return Sign(name, re.compile("|".join(patterns), re.I), action, alive)


SIGNS: tuple[Sign, ...] = (
    _sign(
        "preempted",
        "relaunch",
        "none",
        r"due to preempt",
        r"\bTERM_PREEMPT\b",
        r"\bpreempted\b(?! ?[=:] ?(0|false|no))",
        r"preemption (notice|warning|event|signal)\b(?!.*(no|none|disabled))",
        r"\b(spot|preemptible|capacity).{0,40}(interrupt|reclaim|terminat|evict)",
        r"instance.{0,30}(will be|is being) (stopped|terminated|reclaimed)",
        r"\bTERMINATE_ON_HOST_MAINTENANCE\b",
    ),
    _sign(
        "walltime",
        "relaunch",
        "escalate",
        r"due to time limit",
        r"\bTERM_RUNLIMIT\b",
        r"wall ?(clock)? ?time .{0,40}(exceed|limit|reached)",
        r"exceed\w* .{0,30}(wall ?(clock)? ?time|time limit|run limit|h_rt)",
        r"\b(time|run) ?limit (was )?(reached|exceeded)",
        r"hard runtime limit",
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
        r"\bnode\b.{0,60}\b(is dead|died|was lost|marked (as )?dead|unreachable|went away)",
        r"raylet.{0,60}(died|dead|lost|crashed|unreachable)",
        r"missed too many heartbeats",
        r"heartbeat(?! monitor).{0,30}(lost|expired|timed? ?out)|stopped sending heartbeats",
        r"\bworker (process|node|host).{0,30}(lost|unreachable|disappeared)",
    ),
    _sign(
        "hbm_exhausted",
        "escalate",
        "escalate",
        r"memory space hbm",
        r"program hbm requirement",
        r"largest program allocations in hbm",
        r"compiler_base\.cc:\d+",
        r"exceeded hbm capacity",
        r"attempting to (reserve|allocate) .{0,80}not possible|\(0x\w+_HBM\d",
        r"(does not|doesn't|cannot) fit (in|into) hbm",
    ),
    _sign(
        "oom_host",
        "escalate",
        "escalate",
        r"oom[-_ ]?kill",
        r"out of memory: kill",
        r"memory cgroup out of memory",
        r"\btask \d+: out of memory",
        r"\bOUT_OF_MEMORY\b",
        r"node running low on memory",
        r"exceeds the memory usage threshold",
        r"exceeded .{0,30}memory limit",
        r"\bTERM_MEMLIMIT\b",
        r"^\s*MemoryError\b",
        r"cannot allocate memory",
        r"std::bad_alloc",
        r"unable to allocate .{0,40}\bfor an array",
        r"defaultcpuallocator.{0,40}memory",
        r"insufficient shared memory",
        r"low on resource: memory",
        r"dataloader worker .{0,40}killed by signal: (killed|bus)",
    ),
    _sign(
        "oom_device",
        "escalate",
        "escalate",
        r"\b(cuda|hip|xpu|mps|npu)\b.{0,30}out of memory",
        r"\boutofmemoryerror\b(?!.*task was killed)",
        r"(CUDA|CUBLAS|CUDNN|cuda)_?\w*(OUT_OF_MEMORY|ALLOC_FAILED|MemoryAllocation)",
        r"resource_exhausted:.{0,40}(out of memory|oom|allocat|failed to allocate)",
        r"oom when allocating tensor",
        r"out of memory (while trying to allocate|allocating) \d+",
        r"ran out of memory (trying to allocate|on device)",
    ),
    _sign(
        "disk_full",
        "fix_then_relaunch",
        "fix_then_relaunch",
        r"no space left on device",
        r"\bENOSPC\b|\bEDQUOT\b",
        r"(disk )?quota exceeded",
        r"\berrno (28|122)\b",
        r"(out of|no (more|free)) inodes",
        r"(disk|file ?system|volume) is full",
        r"unexpected pos \d+ vs|PytorchStreamWriter failed writing",
        r"low on resource: ephemeral-storage",
    ),
    _sign(
        "hardware_fault",
        "relaunch",
        "escalate",
        r"uncorrectable ecc|ECCUncorrectable|double[- ]bit ecc",
        r"\bNVRM: Xid\b|\bS?Xid \(",
        r"\bXid (error )?\d+",
        r"fallen off the bus|gpu is lost",
        r"unable to determine the device handle",
        r"nvlink.{0,40}(error|fail|down|fatal)",
        r"\b(infiniband|ib|mlx5_?\d*|ibv|port|link)\b.{0,40}\blink (is )?(down|failure|lost)",
        r"machine check (exception|error)|hardware error",
        r"ibv_\w+.{0,30}failed",
        r"got completion .{0,60}(error|status)",
        r"transport retry count exceeded|async event.{0,20}(fatal|port error)",
    ),
    _sign(
        "bad_node",
        "escalate",
        "escalate",
        r"no accelerator found",
        r"tpu initialization failed|failed to (open|initialize) (?!.*cannot open shared object)"
        r".{0,20}(tpu|accel|libtpu)",  # no library at all: a machine without a TPU, as JAX says it
        r"^(?!.*(\.nfs|rmtree|unlink|rmdir|/tmp/)).*device or resource busy",
        r"couldn.?t open iommu",
        r"bad[- ]node signature",
        r"failed_precondition.{0,80}(driver|device|tpu|accelerator|clean)",
        r"no cuda gpus are available|cudaGetDeviceCount|found no nvidia driver|cuda unknown error",
        r"no cuda-capable device|cuda driver (version|initialization).{0,30}(insufficient|fail)",
        r"cuda-capable device\(s\) is/are busy|all cuda.{0,10}devices are busy",
        r"nvidia-smi has failed|failed to initialize nvml",
        r"the tpu is already in use|libtpu.{0,30}already in use",
    ),
    _sign(
        "numeric_instability",
        "escalate",
        "escalate",
        r"\b(loss|grad\w*|norm|activation\w*|logits|weights?|param\w*)\b.{0,40}"
        r"\b(is|are|was|became|contains?|has|=|:)\s*(a )?(nan|inf(inity)?|non-?finite)\b",
        r"\b(nan|inf|non-?finite)s?\b.{0,30}\b(loss|grad\w*|norm|logits)",
        r"\b(nan|inf|non-?finite)s?\b.{0,30}\bin (output|forward|backward)",
        r"(returned|produced|detected|found|encountered|contains) (nan|inf|non-?finite)\b",
        r"loss.?scale.{0,40}(minimum|too small|underflow|cannot decrease)",
        r"minimum loss scale|loss scaler? .{0,20}\bto (0\.0\b|\d(\.\d+)?e-\d+)",
        r"\bFloatingPointError\b",
        r"\bloss\b.{0,20}\b(diverged|exploded)|training (has )?diverged",
    ),
    _sign(
        "distributed_hang",
        "escalate",
        "escalate",
        r"watchdog.{0,60}(timeout|timed out)|heartbeat monitor timed out",
        r"timed out after .{0,30}waiting for (clients|workers|ranks|peers)|\bDistStoreError\b",
        r"(collective|allreduce|all_reduce|allgather|broadcast|nccl|gloo|rccl)\b.{0,80}"
        rf"{TIMED_OUT}",
        rf"barrier.{{0,60}}{TIMED_OUT}|{TIMED_OUT}.{{0,60}}barrier",
        r"timed out (initializing|waiting for).{0,40}(process group|ranks|clients|workers)",
        r"coordination (service|agent).{0,80}(timed? ?out|deadline|unhealthy)",
        r"deadline_?exceeded.{0,80}(barrier|coordination|collective)",
        r"(error from|rpc to) (the )?coordination service|distributed service detected fatal",
        r"\[c10d\].{0,80}(timed out|failed to connect)|\bDistNetworkError\b",
    ),
)

DATA = re.compile(
    r"caught \w+ in dataloader worker|in dataloader worker process"
    r"|corrupt\w* (shard|record|file|data|sample|image|parquet|archive)"
    r"|\bDataLossError\b|\bArrowInvalid\b|\bUnidentifiedImageError\b|\bUnpicklingError\b"
    r"|datasets\.(exceptions|builder|table)|\bDatasetGenerationError\b"
    r"|\bBadZipFile\b|\bJSONDecodeError\b|EOFError: ran out of input"
    r"|truncated (record|file|image|shard)|tokenizer.{0,60}(mismatch|not found|missing|invalid)"
    r"|not a (gzip|zip|parquet) file|invalid (tar|parquet|zip) "
    r"|(could not|couldn't|can(no|')t|failed to|unable to|error|cannot)( \w+)? "
    r"(read|load|open|decode|pars|deseriali|fetch|unpack|decompress)\w*\b"
    r"(?!.{0,80}\b(checkpoint|ckpt|weights?|model|optimi[sz]er|safetensors|state.?dict|config"
    r"|shared object|librar\w+|\w+\.so)\b)"
    r".{0,80}\b(shards?|samples?|records?|examples?|data ?(set|file|point)?|tfrecords?|batch"
    r"|corpus|tokens|\w+\.(tar|parquet|arrow|jsonl(\.\w+)?|tfrecord|npy|npz|bin|mds|jpe?g|png))\b"
    r"|\b(shard|sample|record|dataset|data file)\b.{0,60}\b(corrupt\w*|truncated|unreadable"
    r"|malformed|missing|bad (magic|header|checksum)|checksum mismatch|crc)\b"
    r"|unexpected end of data"
    r"|\b(crc|checksum)\b.{0,40}\b(mismatch|fail\w*|error)\b.{0,80}\b(shard|record|data|sample)",
    re.I,
)
"""Trouble that the input data makes; decisive only where it ended the job."""

NETWORK = re.compile(
    r"connection ?(reset|refused|aborted|timed out|error)|connect(ion)? ?timeout|read timed out"
    r"|temporary failure in name resolution|name or service not known|max retries exceeded"
    r"|remote end closed|remotedisconnected|network is unreachable|no route to host"
    r"|\b(429|502|503|504)\b.{0,40}(error|too many|unavailable|gateway|timeout|retry)"
    r"|service unavailable|too many requests|unexpected eof|: eof\b|tls handshake|ssl.{0,20}error"
    r"|retrying (error|request|in|after)|\bretry(ing)?\b.{0,40}(attempt|request|connection)",
    re.I,
)
TRACKER = re.compile(
    r"\bwandb\b|tensorboard|api\.wandb|forge\.coreweave|\bmlflow\b|file_stream", re.I
)
TROUBLE = re.compile(
    r"error|fail|retry|timed? ?out|refus|denied|unauthori|exception|\b4\d\d\b", re.I
)

STOPPED = re.compile(
    r"\bkeyboard ?interrupt\b|ctrl ?[-+]? ?c\b|^\^C|terminated by user"
    r"|cancelled by (user|uid|owner)"
    r"|\bTERM_OWNER\b|killed by (the )?(user|owner)|interrupted by (the )?user"
    r"|cancelled at (?!.*due to)|\bsigint\b|received signal 2\b|\bscancel\b",
    re.I,
)
"""Ended by a person. The schedulers' own reasons (``DUE TO``) come before it."""

STEP_CANCELLED = re.compile(r"\bstep \S+ on \S+ cancelled at (?!.*due to)", re.I)
"""Slurm ends what is left of a step: somebody told it to, or one of its tasks had failed."""
TASK_DIED = re.compile(
    r"\bsrun: error: .*\btasks? [\d,-]+: (exited with|segmentation|aborted|killed|bus error"
    r"|floating|illegal|out of memory)",
    re.I,
)

KILLED = re.compile(
    r"\b(sigkill|signal 9|exit(ed)?( with)?( exit)? (code|status):? ?(137|-9))\b|^\s*killed\s*$",
    re.I,
)
TERMINATED = re.compile(r"\bsigterm\b|signal:? ?15\b", re.I)

WAITING = re.compile(
    r"\bPENDING\b|\(Resources\)|\(Priority\)|\(Dependency\)|\(QOS\w*\)|\bquota\b|insufficient"
    r"|scale.?up|waiting for|unsatisfied|queued|no capacity|stockout",
    re.I,
)
NEVER_STARTS = re.compile(
    r"DependencyNeverSatisfied|JobHeld|PartitionNodeLimit|BadConstraints|PartitionTimeLimit"
    r"|QOSMax\w*PerJob|never (be )?(satisf|schedul)|exceeds? .{0,30}(limit|maximum|total|capacity)"
    r"|NotTriggerScaleUp|didn.t trigger scale-?up"
    r"|requested node configuration is not available|no node (type )?can",
    re.I,
)
REQUEUED = re.compile(r"\brequeu", re.I)

STARTS = re.compile(
    r"tracking run with wandb version|\bresuming training from\b|starting from scratch", re.I
)
"""A job has begun here: what stands before belongs to an earlier one."""

USAGE = re.compile(
    r": error: (unrecognized arguments|the following arguments are required|argument \S+: )"
    r"|can't open file '|: command not found$|could not override '",
    re.I,
)
"""A command line that the program, or the shell, did not understand."""

CRASH = re.compile(
    r"segmentation fault|core dumped|\bSIG(SEGV|ABRT|BUS)\b|fatal python error"
    r"|device-side assert|illegal memory access",
    re.I,
)
"""Native code has died: no traceback says where."""

SPECULATES = re.compile(
    r"\beither\b.{0,160}\bor\b|\b(possible|likely|common|potential) (causes?|reasons?)\b"
    r"|\b(may|might|could) (be|have been)\b|\bpossibly\b|\bfor example\b|\be\.g\.",
    re.I,
)
"""A text that lists possible causes: it names none (SPEC T)."""
SPECULATED = frozenset(("preempted", "walltime", "node_death", "hardware_fault", "bad_node"))
"""Classes that such texts like to name."""

OPENING = re.compile(
    r"\b(set_device|_lazy_init|_setup_devices|init_device|get_device_properties)\b"
)
"""Code that opens a device: what fails there is no fault in mid-run."""

DRAIN = re.compile(r"\bdrain|\bRMA\b|replace the (gpu|node)", re.I)

DONE = re.compile(
    r"training (is )?(already )?(complete|finished|done)\b|finished training"
    r"|successfully completed|reached (the )?(final|max)\w* step",
    re.I,
)
ALARM = re.compile(r"error|warn|fail|overflow|exception|traceback|nan\b|skipp|retry", re.I)

FATAL = re.compile(
    r"\w(Error|Exception)\b|\b(error|fatal|failed|exception|abort(ed|ing)?|assert\w*)\b", re.I
)
"""What a program says that does not go on."""

ELSEWHERE = frozenset(("FileNotFoundError", "NotADirectoryError", "IsADirectoryError"))
"""Small exceptions that a library raises for its caller."""
SMALL = frozenset(
    (
        "ImportError",
        "ModuleNotFoundError",
        "NameError",
        "UnboundLocalError",
        "SyntaxError",
        "IndentationError",
        "TabError",
        "KeyError",
        *ELSEWHERE,
    )
)
"""Exceptions that one line usually mends (SPEC T: import, name, syntax, wrong key, wrong path)."""

NOT_SMALL = re.compile(
    r"undefined symbol|cannot open shared object|GLIBC|version `|\bABI\b|dll load failed"
    r"|circular import|state_dict|checkpoint|unexpected key|missing key",
    re.I,
)
"""An environment or a checkpoint that does not fit, whatever the exception is called."""

TRAJECTORY = re.compile(
    r"(^|[/_.-])(models?|modell?ing|optim\w*|data|dataset\w*|dataload\w*|loss\w*|trainer"
    r"|train(ing)?_(loop|step))([/_.-]|$)",
    re.I,
)
"""File names whose change can alter the training trajectory: then a person decides."""

LIBRARY = re.compile(
    r"site-packages|dist-packages|/lib/python\d|^<|\.pyx$|/(opt|usr)/\S*python\d|^python/"
)
ECHO_NAMES = frozenset(
    (
        *("ConnectionResetError", "ConnectionAbortedError", "ConnectionRefusedError"),
        *("BrokenPipeError", "DistBackendError", "DistNetworkError", "DistStoreError"),
        *("ClientDisconnectedError", "CancelledError", "BrokenProcessPool"),
        *("ActorDiedError", "ActorUnavailableError", "WorkerCrashedError", "ObjectLostError"),
    )
)
ECHO = re.compile(
    r"connection (was )?(reset|closed|aborted|lost|refused) ?(by peer)?|broken pipe"
    r"|socket (closed|timeout)|remote process (exited|has)|peer .{0,20}(gone|closed|disconnect)"
    r"|\b(nccl|gloo|rccl|process ?group|watchdog|c10d|tcpstore|rendezvous)\b"
    r"|\bunavailable: |coordination (service|agent)|another (task|process|rank) (died|failed|has)",
    re.I,
)
"""What a process meets when another one has gone: an echo, wherever it is the last word."""
WRAPPERS = frozenset(
    (
        "ChildFailedError",
        "CalledProcessError",
        "RayTaskError",
        "SignalException",
        "RayActorError",
        "ProcessRaisedException",
        "ProcessExitedException",
        "SystemExit",
    )
)
"""Exceptions that only report that another process has failed."""
