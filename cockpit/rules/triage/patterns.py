"""Words that a class alone does not make: what failed, and what is only an echo."""

from __future__ import annotations

import re

from cockpit.model.late_regex import late_regex
from cockpit.rules.triage.signs import MOUNT_ERRNO, NETWORK_ERRNO, TRANSIENT

NETWORK = late_regex(
    r"connection ?(was )?(reset|refused|aborted|closed before|timed out|error)"
    r"|connect(ion)? ?timeout"
    r"|read time(d )?-?out"
    r"|temporary failure in name resolution|name or service not known|max retries exceeded"
    r"|connection unexpectedly closed|context deadline exceeded|unable to find the server at"
    r"|failed to connect to|remote end closed|remotedisconnected|network is unreachable"
    r"|no route to host"
    r"|\b(429|502|503|504)\b.{0,40}(error|too many|unavailable|gateway|timeout|retry|slow ?down)"
    r"|\b(http|server|service|api)\w*(error|exception)\b"
    r"(\W{1,3}|.{0,120}(, |\b(status|code)\w*\W{1,3}))(429|502|503|504)\b(?! ?m?s\b)"
    r"|\b500 (server|internal server) error\b|service ?unavailable|too many requests"
    r"|unexpected eof(?! in )|: eof\W*$|tls handshake|\bstream (was )?reset\b"
    r"|\bcurlcode: \d|\baws error network_connection\b"
    r"|\b(?:dial|read|write) (?:tcp|udp)\b.{0,80}\bi/o timeout\b|\berror while dialing\b"
    r"|ssl.{0,20}error"
    r"|server ?disconnected|incomplete ?read|protocol ?error\b|chunked ?encoding"
    r"|(failed to|could not|couldn't|can ?not) resolve|could not connect to the endpoint"
    r"|endpointconnectionerror"
    r"|\bconnection to \S+.{0,30} was lost; in progress|nfs: server \S+ not responding"
    r"|\binternal error\b.{0,20}\bplease try again"
    r"|retrying (error|request|in|after)|\bretry(ing)?\b.{0,40}(attempt|request|connection)"
    r"|\bhttp (response|status)\b.{0,12}\b(429|502|503|504)\b"
    r"|\b(unavailable|deadline_exceeded): error (reading|writing|opening|executing)\b"
    rf"|{TRANSIENT}|{NETWORK_ERRNO}",
    re.I,
)
"""Such as ``Connection reset by peer``."""
REFUSAL = late_regex(
    r"certificate[_ ]verif\w+|\bcertificate (has )?expired|self[- ]signed certificate"
    r"|\b407\b|proxy authentication|\btunnel connection failed: 4\d\d|\binvalid_grant\b"
    r"|\b(AccessDenied|ExpiredToken|InvalidAccessKeyId|SignatureDoesNotMatch)\w*\b"
    r"|\binsufficient_quota\b|\bcurrent quota\b|\bbilling\b"
    r"|\b(localhost|127\.0\.0\.1|0\.0\.0\.0)\b|\[::1\]|\bhost='::1'",
    re.I,
)
"""What the next try meets again: an identity that is not accepted, a server of the job's own."""
REMOTE_FILES = late_regex(
    r"\bnfs: server\b|\blustre(error)?: |\b(gpfs|mmfs|beegfs|weka|ceph)\w*: ", re.I
)
"""Such as ``nfs: server data1 not responding``."""
IO_ERROR = late_regex(r"\berrno 5\b|\binput/output error\b", re.I)
"""Such as ``OSError: [Errno 5] Input/output error``."""
MOUNT = late_regex(MOUNT_ERRNO, re.I)
NETWORK_MODULE = late_regex(
    r"^(aiohttp|httpx|httpcore|requests|urllib3|botocore|aiobotocore|s3fs|gcsfs|adlfs|google|azure"
    r"|grpc|huggingface_hub|hf_xet|http|socket|ssl|websockets?|paramiko|fsspec|oci|redis|pymongo"
    r"|concurrent|asyncssh)(\.|$)"
)
"""Clients of what lies behind a network, as they stand before the name of what they raise."""
GRPC_STATUS = late_regex(r"StatusCode\.(UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|ABORTED)")
"""Such as ``StatusCode.UNAVAILABLE``."""
NETWORK_NAME = late_regex(
    r"Timeout|TimedOut|Unavailable|Connect|Disconnect|Reset|Aborted|Gateway|Incomplete|Protocol"
    r"|TooMany|InternalServer|ServerError|RetryError|Transport|ServiceRequest|ServiceResponse"
)
"""Trouble on the way, not an answer (``NotFound``, ``Forbidden``, ``BadRequest``)."""

TRACKER = late_regex(
    r"\bpolyaxon\b|\bdvclive\b|\bdagshub\b|\btracking (client|server)\b|\bwandb\b|tensorboard"
    r"|api\.wandb|forge\.coreweave|\bmlflow\b|file_stream|\bcomet(_ml)?\b"
    r"|\bneptune\b|\bclearml\b|\btrackio\b|\bswanlab\b|\baim\.(sdk|ext)|/aim/(sdk|ext)/"
    r"|\bAim (repo|run)\b",
    re.I,
)
"""What a tracker's client prints; training goes on without it: ``wandb: Network error``."""
TROUBLE = late_regex(
    r"error|fail|retry|timed? ?out|refus|denied|unauthori|exception|warning|ignored|\b4\d\d\b", re.I
)
"""Such as ``request failed``."""

TASK_DIED = late_regex(
    r"\bsrun: error: .*\btasks? [\d,-]+: (exited with|segmentation|aborted|killed|bus error"
    r"|floating|illegal|out of memory)",
    re.I,
)
"""Such as ``srun: error: gpu1: task 3: Exited with exit code 1``."""

KILLED = late_regex(
    r"\b(sigkill|signal 9)\b|\brc ?[:=] ?(137|-9)\b"
    r"|\bexit(ed|s)?\W{0,3}((with|an?|the|non-?zero|exit)\W){0,3}_?((code|status)\W{0,5}"
    r"((of|is|was)\W)?)?(137|-9)\b"
    r"|^\s*killed\s*$|^\s*\d{2,10} (?-i:Killed)\s{2,}\S|\btasks? [\d,-]+: killed\b"
    r"|\bfailed[\s|]{1,40}(137:0|0:9)\b|\bexitcode=0:9\b"  # sacct, scontrol
    r"|: line \d+: +\d+ killed\b|(due to|by|on) signal:? 9\b|return code:? = -9\b",
    re.I,
)
"""Such as ``exit code 137``."""
TERMINATED = late_regex(r"\bsigterm\b|signal:? ?15\b", re.I)
"""Such as ``Received SIGTERM``."""

REQUEUED = late_regex(
    r"(?<!not )(?<!not be )\brequeu(ed|ing)\b(?!.{0,20}\b(disabled|not)\b)"
    r"|\brequeue(_exit)?\b(?! ?=).{0,20}\b(job|pending)\b|due to job requeue",
    re.I,
)
"""It comes back by itself: ``Requeue=1`` is only a setting."""

STARTED_AGAIN = late_regex(
    r"\b(?<!will )(restart(ed|ing)|relaunch(ed|ing)|resubmitted|starting again|started again)\b"
    r"|\b(attempt|restart|incarnation|try)[ :=#]{1,3}[1-9]\d*\b"
    r"(?! ?(/|of\b)(?!.{0,12}\b(start|begin)))"
    r"|\brestart_?count\W{1,3}[1-9]"
    r"|\b(load(ing|ed)|restor(ing|ed)) .{0,40}(checkpoint|ckpt|\biteration \d)"
    r"|\b(?<!will )resum(ed|ing)\b|\bpicking up\b|\bjob \S+ (begins|began|start(s|ed))\b"
    r"|\bstarting (from|attempt|job|training)\b|\bjob (was |has )?(been )?recovered\b"
    r"|\bjob executing on host\b|\badmitted by clusterqueue\b|\bstarted container\b",
    re.I,
)
"""A job that had ended begins once more: what stands behind ended another one."""

STARTS = late_regex(
    r"tracking run with wandb version|\bresuming training from\b|starting from scratch", re.I
)
"""A job has begun here: what stands before belongs to an earlier one."""

USAGE = late_regex(
    r": error: (unrecognized arguments|the following arguments are required|argument \S+: )"
    r"|^[\w./-]+\.py: error: |^error in call to target '"
    r"|can't open file '|: command not found$|could not override '|not in struct\b"
    r"|config(key|attribute|composition|missing)\w*(error|exception)|missingconfigexception"
    r"|\bunrecognized (options?|arguments?)\b|\bkey \"[^\"]+\" is not accepted"
    r"|no configurable matching"
    r"|^(source|cd|\.): .*no such file or directory$|no matching distribution found for"
    r"|no solution found when resolving|did not match any file\(s\) known to git"
    r"|missing mandatory value|bad interpreter: no such file"
    r"|^in '[^']*': could not find '|^available options in '"  # Hydra
    r"|^\W*error: (invalid value for|missing (option|argument|parameter)\b|got unexpected extra)"
    r"|^error: (unexpected argument '|the following required arguments were not)"  # clap
    r"|^(error: )?unknown (flag|option|shorthand flag): |flag provided but not defined: -"
    r"|: (unrecognized option|invalid option --|option requires) "
    r"|flags parsing error"
    r"|no such (option|command)\b|extra inputs are not permitted|executable file not found"
    r"|sh: .*: (no such file or directory|permission denied)$|syntax error near unexpected"
    r"|python\S*: (no module named|error while finding module)|execve\(\): \S+ no such file"
    r"|can't load (the )?(configuration|tokenizer) (of|for) '|not a valid model identifier"
    r"|unbound variable$",
    re.I,
)
"""A command line that the program, or the shell, did not understand."""

CRASH = late_regex(
    r"segmentation fault|\bsegfault\b|core dumped|\bthread '[^']*' panicked at|^panic: "
    r"|fatal error: unexpected signal"
    r"|\b(shape|dimension|size|dtype)s? ?mismatch\w*|\bmismatch\w* (shape|dimension|dtype)s?\b"
    r"|double free or corruption|illegal instruction|terminate called after throwing"
    r"|\w\(\): (invalid pointer|corrupted)|: assertion [`'].*' failed|stack smashing detected"
    r"|\bSIG(SEGV|ABRT|BUS)\b|fatal python error"
    r"|device-side assert|illegal memory access",
    re.I,
)
"""Native code has died: no traceback says where."""

DEVICE_ERROR = late_regex(
    r"\b(cuda|hip|xpu|npu|nvml|cublas|cudnn) (driver )?(error|failure)\b"
    r"|\b(acl|npu|nrt|syn|xla)\w*\b.{0,60}\b(error code|failed)\b"
    r"|\baccelerator (device )?halted|\bdevice halted|\binput/output error\b",
    re.I,
)
"""What a program meets when its device fails: the device's own words tell why, before or after."""

PROBE = late_regex(r"\b(readiness|liveness|startup) probe\b", re.I)
"""The kubelet's question to the container itself: no network lies between them."""

REFUSED = late_regex(
    r"\b(Resource|Instance|Vcpu)LimitExceeded\b|\bInsufficient(\w*Capacity\w*)\b"
    r"|\baccount-level service limit\b|_RESOURCE_POOL_EXHAUSTED\b|\bCapacityError\b"
    r"|\bUnable to provision\b|\bResourcesUnavailableError\b|[qQ]uotaExceeded\b"
    r"|\binsufficient quota\b|\b[qQ]uota (limit )?'\w+' (has been )?exceeded"
    r"|\b[jJ]ob not submitted\b"
    r"|\bjob submission failed\b|\bJOB_STATE_UNSCHEDULABLE\b"
    r"|\bUnable to allocate resources: (?!.*(timed out|[sS]ocket))"
    r"|\bstockout\b|\bno more capacity\b"
)
"""A cloud does not give the machines: nothing of the job has run."""

LAUNCHER = late_regex(
    r"\bexit(s|ed)? with (return|exit) code\b|\bexitcode\s*: -?\d|^\W*(\w+\W+)?last error:\s*$",
    re.I,
)
"""What a launcher says of a task that has gone, and what only leads to the next line."""

TRANSPORT = late_regex(r"\bibv_|got completion|transport retry|async event\W{1,4}port", re.I)
"""A transport's call that failed: where training goes on after it, another way was taken."""

BAD_ACCESS = late_regex(r"illegal (memory access|instruction|address)|misaligned address", re.I)
"""What a kernel may have done wrong itself."""

OPENING = late_regex(
    r"\b[Uu]nable to determine the device handle|\b(set_device|_lazy_init|_setup_devices"
    r"|init_device|get_device_properties)\b|(?i:configuration error in the fabric manager)"
)
"""Code that opens a device: what fails there is no fault in mid-run."""

DRAIN = late_regex(
    r"\bdrain|\bRMA\b|\breplac(e|ing) (the )?(gpu|node|host|board)|\bcordon|\bquarantin"
    r"|\b(excluding|blacklist\w*|banned) (the )?(node|host)|\bout of service\b"
    r"|\b(node|host)\b.{0,40}\bfor (repair|replacement)",
    re.I,
)
"""The node itself is suspected: ``node gpu7 is drained``."""

DONE = late_regex(
    r"training (is )?(already )?(completed?|finished|done)\b|finished training"
    r"|(?<!check )(?<!test )(?<!upload )(?<!step )(?<!evaluation )(?<!export )(?<!save )"
    r"successfully completed|\bjob \S+ succeeded\b|reached (the )?(final|max)\w* step"
    r"|saved (the )?final (model|checkpoint|weights)",
    re.I,
)
"""Such as ``Training completed``."""
THROUGH = late_regex(
    r"(?<!after )training (is )?(already )?(completed?|finished|done)\b|finished training"
    r"|\breached (the )?(final|last|max)\w*[ _]steps?\b|`?max_(steps|epochs)=\d+`? reached",
    re.I,
)
"""Training has taken its last step."""
ALARM = late_regex(r"error|warn|fail|overflow|exception|traceback|nan\b|skipp|retry", re.I)
"""Such as ``WARNING: overflow``."""

FATAL = late_regex(
    r"\w(Error|Exception)\b|\b(error|fatal|failed|exception|abort(ed|ing)?|assert\w*)\b", re.I
)
"""What a program says that does not go on."""

COUNTS = late_regex(
    r"^\W*+(\w+\W{1,3}){0,2}?((\w+=[\d.,%]+\S*|[\d.,]+ \w+)[ ,;|]{1,3}){2,}\w+(=[\d.,%]+\S*)?\W*$"
)
"""A line of figures, whatever they count: ``decoded=4118220 failed=2``."""

STUCK = late_regex(
    r"\b(watchdog|no (\w+ )?progress|not advanced for|no (new )?(log )?(output|lines?|steps?"
    r"|activity) (for|since"
    r"|in)|stall\w*|stuck|hang(s|ing)?|hung|unresponsive|unhealthy|degraded"
    r"|(sent|seen|heard|received|written) nothing|nothing (was )?(sent|seen|heard|received|written)"
    r"|silent for|disappear\w*|vanish\w*|wait status|still (waiting|draining)|not responding"
    r"|no (new )?(\w+ )?steps?|not (been )?heard from"
    r"|lost|dead|timed out|exit(ed)? (with )?(exit )?(code|status) -?[1-9]\d*)\b",
    re.I,
)
"""What may be the last that is heard of a run that stands still."""

USUAL = late_regex(
    r"(?<![a-z])(?:sav(?:e|ing)|checkpoint|ckpt|eval|valid|upload|download|compil|profil|sync"
    r"|epoch|sampl|generat|retry|garbage|gc\b|warn|resum|load|restor|learning rate|throughput"
    r"|memory|lr\b)|^[^a-z]*$",  # a line that was cut
    re.I,
)
"""What a run tells of between two steps."""

HANDLED = late_regex(
    r"\b(caught|handled|recover(ed|ing)|halving|reduc(ed|ing)|falling back|skipp(ed|ing)"
    r"|ignor(ed|ing)|continu(ed|ing)|retrying)\b",
    re.I,
)
"""The program met it and did something about it."""

HUNG = late_regex(
    r"\b(watchdog|stuck|hang(s|ing)?|hung|stall\w*|unresponsive|dead-?lock\w*)\b", re.I
)
"""What is killed because it was waited for in vain."""

ELSEWHERE = frozenset(
    (
        *("FileNotFoundError", "NotADirectoryError", "IsADirectoryError"),
        *("ConfigAttributeError", "ConfigKeyError", "MissingMandatoryValue"),
    )
)
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

OWN_CALL = late_regex(
    r"^AttributeError: '(?!NoneType|\w*(Tensor|Array|Cache|Layer|Model|Module))\w+' object has no"
    r"|^AttributeError: '(?!NoneType|[\w.]*(Tensor|Array|Cache|Layer|Model|Module))[\w.]+' object"
    r" has no attribute '\w+'\. Did you mean: "
    r"|^ValueError: '\w+' is not a valid \w+$"
    r"|^TypeError: (?!__)[\w.]*(?<!__init__)\(\) (got an unexpected keyword|missing \d+ required"
    r"|takes \d+)"
)
"""A name or an argument that is misspelled where it is used: one line, like a wrong key."""
NO_FOLDER = late_regex(r"^Parent directory \S+ does not exist")
"""What PyTorch says of a path to save to that is misspelled, or was never made."""
CONFIG = late_regex(
    r"\b(parameter|argument|option|flag|field|setting|keyword)\b.{0,40}\b(invalid value"
    r"|unexpected"
    r"|unrecognized|not used|unused|not recognized)\b|\bno (parameter|argument|option"
    r"|field) named\b"
    r"|\bpassed (?:at|on) the command line but\b|\bcould not consume arg\b"
    r"|\brequired (field|key|parameter|argument) (is )?missing\b"
    r"|\bnot found in (the )?config\b|\bkeys are not used\b|\b(ya?ml|toml|json5?): line \d+"
    r"|\b(yaml|ruamel|toml\w*|configparser|omegaconf|hydra|jsonargparse|dacite|argparse"
    r"|absl\.flags"
    r"|gin|draccus|tyro|simple_parsing|click)(\.\w+){0,4}\.\w*(Error|Exception|Flag\w*)\b"
    r"|extra inputs are not permitted"
    r"|field required \[type=missing"
    r"|not in struct\b|config(key|attribute|composition)\w*(error|exception)|missingconfigexception"
    r"|can't load (the )?(configuration|tokenizer) (of|for) '|not a valid model identifier"
    r"|\b(fields?|keys?|options?|arguments?|parameters?)\b.{0,40}\b(are|is) (not valid|unknown"
    r"|not known"
    r"|not recognized|not permitted|not supported) (for|in|by)\b|\bunknown (config|option"
    r"|argument|field)"
    r"|unrecognized (config\w*\b(?! class)|option|argument|field|key)|\b(undefined"
    r"|unknown) dataset\b",
    re.I,
)
"""A setting, or a name of something to load, that nothing knows."""

CONFIG_FILE = late_regex(
    r"\b\w*(conf(ig)?|settings|args)\w*(/[\w-]{1,60}){0,4}\.(json5?|ya?ml|toml|ini)\b", re.I
)
"""Such as ``configs/train.yaml``."""
SYNTAX = late_regex(r"\b(JSONDecode|Parser|Scanner|TOMLDecode|Parsing|Decoding|Syntax)Error\b")
"""A file of settings: that it cannot be parsed is no trouble of the data."""

NOT_SMALL = late_regex(
    r"\bincompatible\b|(is required for|requires?) .{0,60}\b(but|found|you have|installed)\b|"
    r"undefined symbol|cannot open shared object|GLIBC|version `|\bABI\b|dll load failed"
    r"|circular import|failed to import|compiled (using|with|against|for)|state_dict|checkpoint"
    r"|unexpected key(?!word)|missing key(\(s\)|s? in\b)",
    re.I,
)
"""An environment or a checkpoint that does not fit, whatever the exception is called."""

TRAJECTORY = late_regex(
    r"(^|[/_.-])(models?|modell?ing|optim\w*|data|dataset\w*|dataload\w*|loss\w*|trainer"
    r"|train(ing)?_(loop|step))([/_.-]|$)",
    re.I,
)
"""File names whose change can alter the training trajectory: then a person decides."""

LOOP = late_regex(r"trainer|train(ing)?_(loop|step)", re.I)
"""Files of a training loop."""
TRAINS = late_regex(
    r"(forward|backward|forward_backward\w*|compute_loss|loss_fn|__getitem__|__iter__"
    r"|_?(\w+_)?train(ing)?_(\w+_)?(step|loop|epoch|iter(ation)?|batch|inner|update)(_\w+)?|train_inner"
    r"|((run|do|inner|outer|one|single|main|micro)_)+(step|loop|epoch|iter(ation)?|batch|update)"
    r"|(fit|epoch|update|step|optim\w*)_(step|loop|epoch|batch|fn|once|params|model|weights)|step"
    r"|collate\w*|optimizer_step|configure_optimizers|apply_gradients?|clip_grad\w*|get_batch"
    r"|(next|sample|load|make|prepare)_batch|(compute_)?\w+_loss|loss_\w+|get_lr|lr_(lambda|sched\w*)"
    r"|(build|make|create|get|init|setup|configure)_(\w+_)?(model|optim\w*|sched\w*|loss\w*|data\w*"
    r"|(data_?)?loaders?))$"
)
"""Functions of model, training loop, optimizer and data by their usual names."""

LIBRARY = late_regex(
    r"site-packages|dist-packages|/lib/python\d|^<|\.pyx$|/(opt|usr)/\S*python\d|^python/"
)
"""Such as ``/venv/lib/python3.11/site-packages/torch/nn.py``."""
MISTAKES = frozenset(
    (
        *("TypeError", "NameError", "UnboundLocalError", "AttributeError", "ImportError"),
        *("ModuleNotFoundError", "SyntaxError", "IndentationError", "KeyError", "IndexError"),
        *("AssertionError", "ZeroDivisionError", "NotImplementedError"),
    )
)
"""Exceptions of code that is wrong, or of what it was given."""
OFFICIAL = late_regex(
    r"\bslurmstepd\b|\bsrun: |\bslurmctld\b|\bDUE TO\b|\bNVRM\b|\bkernel: |\bTERM_[A-Z]+\b"
    r"|\bPBS: |\bkubelet\b|\binterruption notice\b|\binstance[-/]action\b|metadata service"
)
"""Who decides himself, or the machine: no program says this in passing."""
SHAPES = late_regex(
    r"\b(shapes?|sizes?|dtypes?|dimensions?|state_dict)\b.{0,60}\b(mismatch\w*|cannot be multiplied"
    r"|is invalid|must match|incompatible|expected)\b|\bin loading state_dict\b",
    re.I,
)
"""Such as ``shape mismatch for lm_head``."""
LEAVING = late_regex(
    r"'NoneType'|\bclosed\b|\bshut ?down|\bshutting|\bterminat|\bsignal\b|\bexit|\bdestroy"
    r"|\bgone\b|\bno longer|\bdaemonic|\bchild process|\bcannot schedule|\bworkers?\b|\bnode",
    re.I,
)
"""Words of a program that is being ended."""
ECHO_NAMES = frozenset(
    (
        *("ConnectionResetError", "ConnectionAbortedError", "ConnectionRefusedError"),
        *("BrokenPipeError", "DistBackendError", "DistNetworkError", "DistStoreError"),
        *("ClientDisconnectedError", "CancelledError", "BrokenProcessPool"),
        *("ActorDiedError", "ActorUnavailableError", "WorkerCrashedError", "ObjectLostError"),
        "RayActorError",
    )
)
ECHO = late_regex(
    r"connection (was )?(reset|closed|aborted|lost|refused) ?(by peer)?|broken pipe"
    r"|socket (closed|timeout)|remote process (exit\w*|has)|peer .{0,20}(gone|closed|disconnect)"
    r"|\b(nccl\w*|gloo|rccl|hccl\w*|process ?group|watchdog|c10d|tcpstore|rendezvous)\b"
    r"|\bsocket\w*Connect\b|\breturned connection timed out\b"
    r"|killed by signal: (terminated|interrupt)|exited unexpectedly$|resource busy: \S*(\.nfs"
    r"|/tmp/)"
    r"|\bunexplained error\b|\bunavailable: |coordination (service|agent)|another (task|process"
    r"|rank) (died|failed|has)",
    re.I,
)
"""What a process meets when another one has gone: an echo, wherever it is the last word."""
COLLECTIVE = late_regex(
    r"\b(nccl(?!InvalidUsage|UnhandledCuda)\w*|gloo|rccl|hccl\w*|process ?group|c10d|tcpstore"
    r"|coordination (service|agent)|all-?reduce)\b",
    re.I,
)
"""What ranks do together: it breaks for all when one has gone."""
COLLECTIVE_CALL = late_regex(
    r"\b(all_?gather|all_?reduce|reduce_?scatter|all_?to_?all|broadcast|barrier|isend|irecv)\w*"
    r" \(|\b(distributed_c10d|p2p_communication)\.py\b|\bsync_global_devices\b",
    re.I,
)
"""A call of what ranks do together, as a picture of a stack shows it."""
INTERRUPTS = frozenset(("KeyboardInterrupt", "SystemExit", "SignalException"))
"""What a program raises because it is told to leave."""
WRAPPERS = frozenset(
    (
        "ChildFailedError",
        "CalledProcessError",
        "AlgorithmError",
        "ExecuteUserScriptError",
        "RayTaskError",
        "SignalException",
        "RayActorError",
        "ProcessRaisedException",
        "ProcessExitedException",
        "SystemExit",
    )
)
"""Exceptions that only report that another process has failed."""
