"""What phrases mean: an order, a doubt, a complaint, something about data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.rules.triage.signs import Action

_THINGS: Final = (
    r"(?:the |a |an |its |our |this |another )?(?:system|scheduler|slurm|kernel|watchdog|signal"
    r"|launcher|pre|server|client|peer|parent|caller|remote|upstream|time-?out|deadline|executor"
    r"|context|future|auto-?scal|maintenance|quota|policy|nodes?\b|hosts?\b|health|admission|runtime"
    r"|framework|ray\b|kube|k8s|controller|supervisor|dependency|itself|default|error|exception|evict"
    r"|sig(?:term|kill|abrt|hup)|asyncio|grpc|out[ -]of|oom|memory|cluster|heart-?beat|fail|kueue"
    r"|all_?-?(?:reduce|gather))"
)
"""What also cancels something, and is nobody."""
_OF_THE_PROGRAM: Final = r"[- ](?:defined|code|callback|hook|function|script|rule|median|setting)"
"""Words after which the user, or an operator, is a part of the program."""
_BESIDE: Final = r"(?:checkpoint|ckpt|snapshot|sav|eval|profil|dump|pause|resum|(?:re)?start)"
"""What a person asks for besides an end."""
_STOP_FILE: Final = (
    r"(?<!no )(?<!early )(?<!if )(?<!if a )(?<!if the )(?<!whether )(?<!whether a )"
    r"(?<!whether the )\bstop[- _]?(file|flag|marker|sentinel)\b"
    r"(?!.{0,20}\b(not?|never|false|none|0)\b).{0,20}"
    r"\b(found|detected|seen|exists|present|appeared)\b(?!\W{0,3}(no|false|none|0)\b)"
)
"""A file by which a person has a program leave: it lay there, and was not only looked for."""

STOPPED = late_regex(
    r"\bkeyboard ?interrupt\b(?! (?:is|was|will be) (?:handled|caught|ignored))"
    r"|ctrl ?[-+]? ?c\b|^\^C|terminated by user\b"
    rf"(?!{_OF_THE_PROGRAM})"
    r"|cancell?ed by (user|uid|owner)|\bsigterm\b.{0,60}\buid[ =:]?[1-9]\d*"
    r"|\bTERM_OWNER\b|(killed|interrupted|stopped|aborted) by (the )?(user|owner|operator)\b"
    rf"(?!{_OF_THE_PROGRAM})"
    r"|(?<!can be )(?<!be )\bstopped (from|in|via|through) the (ui|web|console|dashboard|w&b"
    r"|wandb)\b"
    r"|\bstop (was )?requested (by|in|from) (the )?(user|owner|operator|web|w&b|wandb|ui)\b"
    r"|(?<!eval )(?<!export )(?<!upload )\bjob \S+ was (stopped|cancell?ed)\b"
    r"(?!.{0,40}\b(because|due|since|after|depend\w*)\b)"
    rf"(?! by {_THINGS})|^srun: interrupt\b|\buser[- ]initiated\b(?! {_BESIDE})"
    rf"|terminated-by-user|{_STOP_FILE}|\b(exit(ing|ed)?|stopp(ing|ed)) "
    r"((with|code|status|run|job|training|cleanly|gracefully|\d{1,3}) ){0,3}on request\b"
    r"(?=\W*$|[.,;:]| \(| (of|by|from|at|after)\b)"
    r"|(?<!use )(?<!run )(?<!with )\b(kubectl delete|docker (stop|kill)(?! timeout)"
    r"|podman (stop|kill)"
    r"|condor_rm|oardel|sky (jobs )?cancel"
    r"|ray job stop|modal app stop)\b|^qdel: "
    rf"|(?:^\W*|[|:=]\s{{0,3}}|\b(job|run|task|pod|workload|experiment|training|sweep|session)\b"
    rf".{{0,60}}\b)cancell?ed by (?!{_THINGS})\w+"
    r"|\bdeleted by (the )?(user|owner"
    r"|\S+@)"
    r"|\b(killed|cancell?ed|deleted|terminated)\b.{0,20}\b(qdel|bkill)\b|\b(qdel|bkill) by\b"
    r"|cancelled at (?!.*due to)|\bsigint\b(?! ?=|.{0,40}\bignor| from timeout)"
    r"|received signal 2\b|\bscancel\b",
    re.I,
)
"""Ended by a person. The schedulers' own reasons (``DUE TO``) come before it."""

_ENDS: Final = (
    r"(?:stop|abort|shut ?down|terminat(?:e|ion|ing)|quit|exit|kill|cancel(?:lation)?|interrupt"
    r"|delet(?:e|ion)|removal|paus(?:e|ing)|suspen(?:d|sion)|reboot)"
)
_ENDED: Final = (
    r"(?:stopp(?:ed|ing)|suspend(?:ed|ing)|paus(?:ed|ing)|delet(?:ed|ing)|remov(?:ed|ing)|archived"
    r"|cancell?(?:ed|ing)|withdrawn|discarded|replac(?:ed|ing)|killing|terminating|interrupted)"
)
_JOB: Final = (
    r"(?<![/.])\b(?:jobs?|run|trial|experiment|workload|training|pods?|container|replicas?|sweep"
    r"|deployment|statefulset|session|\S{1,80}\.service)\b(?![/.-]\w|[:=] ?\d)"
)
_NOBODY: Final = (
    r"(?:an? |the |its |uncaught |unhandled )?(?:sig|kernel\b|os\b|oom|peer|remote|exit|error"
    r"|exception|launcher|unknown|external|-?\d|rank|worker|another|other|srun|slurm|torch|parent)"
)
"""What ends a process that others depend on, or is told for want of a name."""

_COMMANDS: Final = (
    r"\b(?:docker|podman|systemctl) (?:stop|kill|restart)\b"
    r"|\bkill-(?:session|server|window|pane)\b"
    r"|\bp?kill(?:all)? (?:-s ?|--signal[ =]|-)(?:9|15|(?:SIG)?(?:KILL|TERM|INT))\b|\bkillall\b"
)
BY_COMMAND: Final = late_regex(_COMMANDS, re.I)
"""What a person types to end what runs on a machine."""
BY_HAND = late_regex(
    r"\b(?:operator|admin\w*|manual\w*|on request|requested by|by \S+@\S+|budget|idle"
    r"|policy(?![ /-](?:loss|entropy|grad|kl\b|ratio|clip|reward|lr\b))|utili[sz]ation|reaper"
    r"|janitor|spending)\b"
    rf"|{_COMMANDS}"
    r"|\bscontrol (?:requeue|suspend|hold|update)\b|\bhelm (?:upgrade|uninstall|delete|rollback)\b"
    r"|\bkubectl (?:scale|drain|delete|rollout|cordon)\b"
    r"|\bsen[dt]s? (?:a )?(?:sigkill|signal 9|kill signal)\b"
    rf"|\b{_ENDS}\b.{{0,12}}\b(?:request\w*|command\w*|order\w*|button|signal from|via)\b"
    rf"|\b(?:ask|told|order|command|request|decid|instruct)\w*\b.{{0,12}}\b{_ENDS}\b"
    r"|\b(?:killed|stopped|terminated|aborted|paused|suspended|deleted|removed|drained|ended"
    rf"|evicted|interrupted|cancell?ed|marked as \w{{1,12}}) by (?!{_NOBODY})\w"
    rf"|\b{_ENDED}\b.{{0,20}}{_JOB}|{_JOB}.{{0,30}}\b{_ENDED}\b"
    r"|\bearly[- _]?stop\w*|\bprun(?:ed|ing)\b(?!.{0,40}\b(?:checkpoint|ckpt|snapshot|weight))"
    r"|\bdiverge(?:d|nce)\b|\bbad (?:run|trial|hyper)|\bsupersed\w+|\bduplicate (?:run|job)\b"
    r"|\bscal(?:e|ed|ing)[- ](?:down|in|to (?:0|zero))\b|\bdesired replicas\b"
    r"|\brolling[- ](?:update|restart)\b|\bhot[- ]reload\b|\bnew(?:er)? (?:submission|config)\b"
    r"|\b(?:drain|cordon)\w*|\bmaintenance\b|\bquota\b|\bfair[- ]?share\b|\bfenc(?:ed|ing)\b"
    r"|\blicen[cs]e\b|\b(?:lease|lock|leadership|ownership)\b.{0,20}\b(?:lost|taken|expired"
    r"|stolen|revoked|held)\b|^interrupt(?:ed)?\b"
    r"|\bcancelled(?:\+| by \d+)?[\s|]{1,40}\d+:\d+\b"  # sacct
    r"|\b(?:supervisord?|docker(?:-compose)?|systemd|pm2)\b.{0,60}\bstop",
    re.I,
)
"""A person's hand in a kill, or the rule of one: who has decided it may not want it undone."""

_CLOUD: Final = (
    r"(?:the )?(?:spot|pre-?empt|platform|pod|kubelet|daemon|taint|garbage|gc\b|job-?controller|aws"
    r"|ec2|gcp|google|azure|cloud|compute|provider|auto|higher|job|limit|time)"
)
"""What takes a job away by itself, as its scheduler's or its cloud's part."""
PLAIN_ORDER: Final = late_regex(
    rf"\b{_ENDS}\b.{{0,12}}\b(?:requested by|command|button)\b"
    r"|\b(?:run|job|trial|training|experiment|sweep)\b.{0,30}\b(?:paused|archived"
    r"|withdrawn)\b|\bsuperseded by\b"
    r"|\b(?:lease|lock|leadership|ownership)\b.{0,20}\b(?:taken|stolen|held by)\b"
    r"|\b(?:killed|stopped|terminated|aborted|paused|suspended|deleted|removed|drained|cancell?ed)"
    rf" by (?!{_NOBODY}|{_THINGS}|{_CLOUD})\w|\bscancel \S|\bscontrol (?:requeue|suspend|hold) \d",
    re.I,
)
"""An order that leaves no doubt that somebody, or another job, had this one ended."""

ORDERED = late_regex(
    r"\b(exit\w*|abnormal\w*|terminat\w*|closed|quit\w*|leaving|died|dropped|lost|disconnect\w*"
    r"|expired"
    r"|cancel\w*|abort\w*|delet\w+|remov(ed|ing)|requested|manual\w*|operator|admin\w*|stopp(ed"
    r"|ing)"
    r"|shut(ting)? ?down|\bby \S+@\S+)\b",
    re.I,
)
"""Words of an order, perhaps a person's, or of an end: then it did not just stop."""

JOB_CANCELLED = late_regex(r"\*{3} job \S+ on \S+ cancelled at (?!.*due to)", re.I)
"""Slurm ends the whole job: only somebody's order does that without a reason."""
STEP_CANCELLED = late_regex(r"\bstep \S+ on \S+ cancelled at (?!.*due to)", re.I)
"""Slurm ends what is left of a step: somebody told it to, or one of its tasks had failed."""


_CAUSES: Final = (
    r"(?:possible|common|likely|potential|typical|usual) (?:\w+ )?"
    r"(?:causes?|reasons?|explanations?|culprits?|fixes|solutions|remed(?:y|ies)|problems)\b"
)
_LIST: Final = (
    rf"{_CAUSES}[^(]{{0,40}}\((?:1|a|i)\).*",  # to the end of the line: each is a sentence
    r"\((?:[^()]*(?:\betc\b|\be\.g\.|\bi\.e\.|,? or )[^()]*|[^(),=\d]+(?:, [^(),=\d]+){2,})\)",
    r"(?<![\w/.-])[a-z]+(?:/[a-z]+){2,}(?![\w/.-])",  # preempted/died/restarted
    r"(?<=: )[A-Za-z]\w*(?:, [A-Za-z]\w*){2,}\b",  # rules: OOM, Xid, preempted
    r"\b\w+(?: \w+)?, (?:\w+ )?\w+(?: \w+)?,? or \w+(?: \w+)?",  # failed, got preempted, or crashed
)
"""Alternatives, wherever they stand in a sentence."""
_SETTINGS: Final = (
    r"(?-i:\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"
    r"(?:=\S*|[\"']?: ?[\"']?(?:-?\d[\d.]*|true|false|none)\b)",
    r"\b[a-z][\w ()/-]{0,60}?\s{0,40}[:=] ?(?:no|none|n/a|off|false|disabled)\b(?! \w)",
    r"\b(?:interruption|preemption|eviction|termination)[ _-]?"
    r"(?:handl\w+|polic\w+|behaviou?r|mode|(?:notice[ _-]?)?(?:period|grace\w*))\b",
    r"\S{1,200}:No(?:Execute|Schedule)\b",
    r"\b(?:[a-z][\w ()/-]{0,60}?(?<!_)|\w{0,60}_)?(?:errors?|fail(?:ures?|ed)|faults?"
    r"|unhealthy devices?)(?:[ _]counts?)?[\"']? ?[:=] ?[\"']?0[\"']?"
    r"(?=\s*(?:$|[,;|)}\]]|\w+[:=]))",  # a count of none
    r"^(?=.{0,200}\bcorrect(?:ed|able)\b)(?=.{0,200}\bno action (?:is )?(?:needed|required)\b).*",
    r"\bxids? [\d, ]{1,40}\bhistory of (?:the )?(?:last|previous) .*",
    r"\b(?:on_\w+|\w+_(?:on|policy|mode|strategy|handl(?:er|ing)|behaviou?r|action)) ?[=:] ?"
    r"(?:\[[^\]]*\]|\w+)",
)
"""What is only set, and what is told to be none: ``TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=600``."""
_ASKED: Final = (
    r"^\s{0,20}(?:(?:[\w.@:~/\[\] -]{0,60}[\w~\])/])?\$|[\w.-]{1,30}@[\w.:~/ -]{1,60}[#%>\]]"
    r"|\+{1,3}) (?:sudo )?(?:[efz]?grep|rg|dmesg|journalctl|cat|tail|head|less|awk|sed|find|sacct"
    r"|squeue|scontrol show|kubectl (?:get|describe|logs))\b.*"
)
"""What somebody has asked a shell for: only the answer below tells anything."""
_SUPPOSED: Final = (
    r"(?:this|it|that|which)(?: \w+){0,3} (?:can|may|might|could|usually|often|typically|likely"
    r"|probably|generally|sometimes)\b",
    r"can be\b",
    r"(?:docs|documentation|runbook|wiki): ",
    r"dry-?run: ",
    r"would raise\b",
    r"(?:may|might|could)(?: also)? (?:be|have|indicate|happen|occur|result|cause|lead|need)\b",
    r"(?<!contains )either\b(?=.{0,160}\bor\b)",
    _CAUSES,
    r"(?:possibly|probably|perhaps|maybe|for example|for instance|such as)\b",
    r"(?:most )?likely (?:indicates?|caused|due|because|means?|the)\b",
    r"(?:is|are) (?:usually|often|typically|commonly|generally|most likely)\b",
    r"(?:one|any) of the following\b",
    r"(?:if|unless|whenever|in case|when) (?:the|you|your|this|it|a|an|any|there|one|all|not)\b",
    r"(?:please |to )?(?:(?<!health )(?<!status )check"
    r"|make sure|ensure|verify|consider|try|see)\b(?! ?failed| \d)",
    r"(?:press|hit|use|type|send|with) (?:ctrl|\^c|sigint|sigterm)",
    r"(?:use|run|type) [`'\"]?scancel\b",
    r"(?:cancel|stop|abort|kill|end|interrupt)\b(?: \w+){0,3}:? [`'\"]?scancel\b",
    r"(?:install|regist|attach|bind|restor|ignor|trap|block|mask)\w*\b"
    r"(?=.{0,60}\bsig(?:int|term)\b)",
    r"signal\.signal\(|sig(?:int|term)\b(?= (?:is |are )?(?:ignored|trapped|blocked|masked)\b)",
    r"(?:[\w/|]{1,40},? ){1,6}handlers?\b"
    r"(?= (?:is |are |was |were )?(?:install|regist|set\b|attach|enabl|active|armed|ready))",
    r"(?:relaunch|restart|requeue|retry|resume|save|checkpoint)s?:? (?:on|if|when|before|until)\b",
    r"signal=(?:[a-z]+:)?sig\w+@",  # sbatch's --signal
    r"trap (?:-- )?(?:'[^']*'|\"[^\"]*\") ",
    r"ctrl ?[-+]? ?c (?:to (?!step)|again|will|twice)\b",
    r"(?:look(?:ing)?|check(?:ing|s)?|watch(?:ing)?|listen(?:ing)?|test(?:ing)?"
    r"|poll(?:ing)?) for\b",
    r"(?:will|can) (?:be )?(?:\w+ )?(?:if|when)\b",
    r"(?:no|not|never|without|ignor(?:e|es|ing)|disabl(?:e|es|ed|ing)) (?:any |a |an |been |be )?"
    r"(?=preempt|spot\b|interruption|oom|nan|inf\b|xid|ecc|evict|node fail|dead node|unhealthy"
    r"|hang\b|host ?error)",
)
_QUOTED: Final = (
    r"\b(?:generat(?:ed|ion)s?|completions?|prompts?|hypothes[ie]s|predictions?|predicted|decoded"
    r"|references?|captions?|transcripts?|(?:model|sampled?|generated) (?:output|text|answer|reply"
    r"|response)|samples?(?: (?:#? ?\d+|@ ?\d+|text|output)|(?=[:=]))|answers?|questions?)\b"
    r"[^\"'`\u201c]{0,40}"
    r"(?:\"[^\"]*\"|`[^`]*`|\u201c[^\u201d]*\u201d|(?<=[ :=])'(?:[^']|\b'\b)*')",
    r"\b(?:generated (?:text|sample|output)|model (?:output|answer|response)|completion|hypothesis"
    r"|decoded text|(?<!in )(?<!for )(?<!at )(?<!of )(?<!on )(?<!with )"
    r"sample (?:text|output|\d+)) ?(?:#? ?\d+ ?)?(?:\([^)]*\) ?)?[:=>]+ .*",
    r"\b(?:first|raw|random|train(?:ing)?|eval|input|example)"
    r" (?:example|sample|batch|document|prompt|record|input)s?(?: #?\d+)?[:=] ?[\[{\"'].*",
    r"(?-i:^[HDTSR]-\d+[:\t]).*",  # what fairseq writes of a hypothesis and its reference
    r"\|\s*[\w -]{1,24}\s*\|\s*[01]\.\d+\s*(?=\||$)",  # a table of scores
    r"\b(?:class|label|category|token|word)e?s? (?:\"[^\"]*\"|'[^']*'|`[^`]*`)",
)
"""What a model has written, and names of what it tells apart: words of others, no events."""
_BEGINS: Final = "|".join(rf"\b{each}" for each in _SUPPOSED)
_REST: Final = r"(?:(?![.;!](?:\s|$)).)*"
"""The rest of a sentence."""
_WRITTEN: Final = late_regex(_QUOTED[0], re.I)
_DOUBT: Final = late_regex(
    rf"{'|'.join((_ASKED, *_QUOTED, *_LIST, *_SETTINGS))}|(?:{_BEGINS}){_REST}", re.I
)
INTRODUCES: Final = late_regex(
    rf"{_CAUSES}"
    r"|\b(?:can|may|might|could) (?:\w+ )?(?:happen|be caused|occur|result)\b"
    r"|\bone of the following\b|\bone of:|\bif you (?:see|get|encounter)\b"
    r"|\bthings to (?:check|try)\b|\btroubleshoot\w*\b|\bhints?:\s*$"
    r"|(?:^|[.;:] |please )(?:check|try)[\w ]{0,40}:\s*$"
    r"|\b(?:usually|often|typically|commonly|generally)\b[^.]{0,60}:\s*$",
    re.I,
)
"""A line after which possible causes are listed."""
_ITEM: Final = late_regex(r"^\s*(?:\(?(?:\d+|[a-z])[.)]|[-*•+])\s")
"""An item of a list of advice: ``1. check the network``."""
LONGEST_LIST: Final = 12
"""Lines of such a list that are passed over."""


def certain(line: str) -> str:
    """Return what of a line is said to have happened: without what may have been."""
    return _DOUBT.sub(" ", line)


def unquoted(line: str) -> str:
    """Return a line without what of it stands between quotes as a model's words."""
    return _WRITTEN.sub(" ", line)


def listed(lines: Sequence[str], where: Sequence[int]) -> set[int]:
    """Return which lines (0-based) are items of a list of possible causes.

    ``where`` are the lines that ``introduces`` finds, and each list follows one of them.
    """
    found: set[int] = set()
    for index in where:
        inset = (
            _inset(lines[index])
            if lines[index].rstrip().endswith(":")
            else LONGEST_LIST * LONGEST_LIST
        )
        for below in range(index + 1, min(index + 1 + LONGEST_LIST, len(lines))):
            if not _ITEM.match(lines[below]) and _inset(lines[below]) <= inset:
                break
            found.add(below)
    return found


def _inset(line: str) -> int:
    return len(line) - len(line.lstrip())


LONGEST_LINE: Final = 1000
"""Characters of a line that are looked at."""
NEAR: Final = 60
"""Characters that may stand between the two."""

_GONE: Final = (
    r"lost|gone|dead|died|down|offline|unreachable|unresponsive|not respond\w*|vanished|disappeared"
    r"|crashed|rebooted|stopped responding|power(?:ed)? off"
)
_SPENT: Final = r"exceed\w*|exhaust\w*|insufficient|ran out|run out|out of|too large|not enough"
_STUCK: Final = (
    r"tim(?:ed|e|es) ?-?out|hang|hung|stuck|dead-?lock\w*|mismatch\w*|did not (?:arrive|join|reach)"
    r"|never (?:arrived|joined|reached)|waiting for|desync\w*|unresponsive|left the"
)
_BROKEN: Final = (
    r"corrupt\w*|decompress\w*|mismatching|has no|have no|truncat\w*|malformed|invalid|unreadable"
    r"|missing|not found|mismatch\w*|empty"
    r"|unexpected eof|can ?not (?:read|decode|parse)|failed to (?:read|load|decode|parse)"
)
_FAILED: Final = (
    r"not (?:found|available|detected|visible|ready|supported)|missing|busy|unhealthy|fail\w*"
    r"|unable to|can ?not|could not|refus\w*|unknown error"
)


def _either(thing: str, trouble: str) -> re.Pattern[str]:
    near = rf".{{0,{NEAR}}}?"
    return late_regex(
        rf"\b(?:{thing})\b{near}\b(?:{trouble})\b|\b(?:{trouble})\b{near}\b(?:{thing})\b", re.I
    )


_TABLE: Final[tuple[tuple[str, Action, re.Pattern[str]], ...]] = (
    (
        "oom_device",
        "escalate",
        _either(
            r"(?:gpu|device|hbm|npu|xpu|hpu|cuda|metal|tile|mlu|accelerator)(?: memory| mem)?|vram",
            r"out of memory|insufficient memory|(?:alloc\w*|memory) (?:failed|exhausted"
            r"|isn't enough)",
        ),
    ),
    ("oom_host", "escalate", _either(r"(?:host |system |cpu )?(?:memory|ram|swap)|rss", _SPENT)),
    (
        "disk_full",
        "fix_then_relaunch",
        _either(
            r"disk|storage|file ?system|volume|scratch|tmpfs|inodes?",
            rf"{_SPENT}|full|quota|no (?:space|room)",
        ),
    ),
    (
        "distributed_hang",
        "escalate",
        _either(
            r"ranks?|collectives?|barrier|rendezvous|all_?reduce|all_?gather|all_?to_?all|broadcast"
            r"|peers?|process group|nccl|rccl|hccl|gloo|mpi",
            _STUCK,
        ),
    ),
    (
        "bad_node",
        "escalate",
        late_regex(
            r"\bno (?!NET)(?:\w+ ){0,2}(?:devices?|gpus?|ports?|accelerators?|chips?)\b.{0,20}"
            r"\b(?:found|detected|available|visible|active)\b|\bno (?:suitable|active) (?:\w+ )?"
            r"(?:device|port)s?\b|\bnot clean\b|\bin use by unknown process",
            re.I,
        ),
    ),
    (
        "bad_node",
        "escalate",
        _either(
            r"gpus?|tpus?|npus?|hpus?|xpus?|ipus?|mlus?|dcus?|accelerators?|nvidia|rocm|neuron",
            _FAILED,
        ),
    ),
    (
        "node_death",
        "escalate",
        _either(
            r"nodes?|hosts?|vms?|instances?|machines?|kubelet|agents?"
            r"|workers?(?! (?:process|exit|unexpectedly exit))",  # a process's end is no node's
            _GONE,
        ),
    ),
    (
        "data_error",
        "escalate",
        _either(
            r"shards?|chunks?|audio|video|image files?|examples?|samples?|records?|documents?"
            r"|dataset"
            r"|corpus|parquet|arrow|tfrecords?|jsonl"
            r"|tokenizer|vocab\w*",
            _BROKEN,
        ),
    ),
    (
        "network_transient",
        "escalate",
        _either(
            r"connection|socket|dns|tls|http|endpoint|bucket|upload|download|server|request|rpc",
            r"tim(?:ed|e) ?-?out|reset|refused|unreachable|dropped|unavailable|overloaded",
        ),
    ),
)
"""Classes with the careful action of each, the surest things first."""


def gist(lines: Iterable[str]) -> tuple[str, Action] | None:
    """Return the class and the careful action of the first line with a thing and a trouble."""
    for line in lines:
        said = certain(line[:LONGEST_LINE])
        for name, action, pattern in _TABLE:
            if pattern.search(said):
                return name, action
    return None


DATA = late_regex(
    r"(?<!connectionerror )(?<!timeout )(?<!timeouterror )in dataloader worker process"
    r"|corrupt\w* (shard|record|file|data|sample|image|parquet|archive)"
    r"|\bDataLossError\b|\bArrowInvalid\b|\bUnidentifiedImageError\b|\bUnpicklingError\b"
    r"|datasets\.(exceptions|builder|table)\.\w*(Error|Exception)|\bDatasetGenerationError\b"
    r"|\bzlib\.error\b|\berror -?\d+ while decompressing|\bLZMAError\b"
    r"|\bBadZipFile\b|\bJSONDecodeError\b|EOFError: ran out of input"
    r"|ended before the end-of-stream marker"
    r"|truncated (record|file|image|shard)|tokenizer.{0,60}(mismatch|not found|missing|invalid)"
    r"|(could not|failed to|unable to) (parse|load|read|find) .{0,40}\btokenizer\b"
    r"|not a (gzip|zip|parquet|tar) file|not a gzipped file|invalid (tar|parquet|zip) "
    r"|unexpected eof .{0,40}\b(tar|zip|shard|gzip|parquet|archive|\w+\.(tar|zst|gz|bin))\b"
    r"|\bindex file (is |was )?(corrupt|truncat|invalid|doesn't match)"
    r"|\bdataset\b.{0,20}\bis empty\b(?! of\b|.{0,40}\bskip)"
    r"|\bno (samples|shards|documents|examples) (were )?(match|found(?! to be))"
    r"|(no such file|not found|missing|corrupt|truncated|malformed).{0,60}"
    r"(\d{3}[\w-]{0,80}\.|\.)(tar|parquet|arrow|tfrecords?|mds|idx|zst)\b"
    r"|(\d{3}[\w-]{0,80}|shard\S*)\.(tar|parquet|arrow|tfrecords?|mds|idx|zst|npy|jsonl)\S*.{0,20}"
    r"(no such file|not found|missing|corrupt|truncated|malformed)"
    r"|\.tfrecords?-\d+-of-\d+.{0,20}(no such file|not found|missing|corrupt|truncated)"
    r"|unknown split|must have the same columns|(schema|column)s?\b.{0,40}\b(mismatch|differs?"
    r"|not match)"
    r"|\b(parquet|arrow|tfrecord|csv|jsonl)\b: .{0,60}(out of specification|must end|invalid"
    r"|corrupt)"
    r"|\b(sample|document|record|row|example)( idx| index| id)? \d+\b.{0,60}\b(empty|length 0"
    r"|beyond"
    r"|missing|invalid|malformed|0 tokens|has no)\b|\bexcessive nesting\b"
    r"|\bapply\w* chat template\b|\bconversation roles must\b"
    r"|\b(in|at|of|for|from|reading|parsing) (sample|document|record|row|example)s?"
    r"( idx| index| id)?[ #:=]{1,3}\d+|\bParse(Single)?(Example|Record)\w*\b|\bpremature end\b"
    r"|\b(does not|doesn't) match (the )?expected format\b"
    r"|\bmmap length is greater than file size\b"
    r"|\b(file|image|archive|stream) is truncated\b|\bempty (dataset|split|shard|sample)\b"
    r"|\b0 (rows|samples|documents|examples) found\b"
    r"|\b(contains|has|have) (0|no) (rows|samples|documents|examples)\b"
    r"|couldn't cast|\bCastError\b|magic bytes not found|(?<!silent )\bdata corruption\b"
    r"|decompress error"
    r"|\bvocab\w*.{0,20}\bmismatch.{0,40}\btokenizer"
    r"|(token|label|index)( ids?)? \d+.{0,30}(out of (range|bounds)|exceeds|>=).{0,30}\bvocab"
    r"|bad header, cannot read|dataset \S+ (not found|doesn't exist)|\bDatasetNotFoundError\b"
    r"|(no (\(supported\) )?|couldn't find (a |any )?)data ?files? (found|match)"
    r"|\bDataFilesNotFoundError\b"
    r"|\bmagic (number|bytes?)\b.{0,30}\bmismatch|\bdid not match any variant of untagged enum\b"
    r"|(could not|cannot|can't) find (the )?index file\b"
    r"|\b(ran|run) out of (samples|documents|examples|records|training data)\b"
    r"|\btoken ids?\b.{0,30}\b(beyond|outside|exceeds?)\b.{0,30}\bvocab"
    r"|(could not|couldn't|can(no|')t|failed to|unable to|error|cannot)( \w+)? "
    r"(read|load|open|decode|pars|deseriali|fetch|unpack|decompress)\w*\b"
    r"(?!.{0,80}\b(checkpoint|ckpt|weights?|model|optimi[sz]er|safetensors|state.?dict|config"
    r"|shared object|librar\w+|\w+\.so)\b)"
    r".{0,80}\b(shards?|samples?|records?|examples?|data ?(set|file|point)?|tfrecords?|batch"
    r"|corpus|tokens|\w+\.(tar|parquet|arrow|jsonl(\.\w+)?|tfrecord|npy|npz|bin|mds|jpe?g|png))\b"
    r"|\b(shard|sample|record|dataset|data file)\b.{0,60}\b(corrupt\w*|truncated|unreadable"
    r"|malformed|missing|bad (magic|header|checksum)|checksum mismatch|crc)\b"
    r"|\breading array data\b|\bAudioLoadingError\b|\bLibsndfileError\b"
    r"|unexpected end of data|\bUnicodeDecodeError\b"
    r"|\b(crc|checksum)\b.{0,40}\b(mismatch|fail\w*|error)\b.{0,80}\b(shard|record|data|sample)",
    re.I,
)
"""Trouble that the input data makes; decisive only where it ended the job."""

DATA_FILE = late_regex(
    r"shard[-_.]?\d+|\.array_?record\b|\d{3}[\w-]{0,80}\.(tar|parquet|arrow|tfrecords?|mds|npy|zst)\b"
    r"|\.tfrecords?-\d+-of-\d+",
    re.I,
)
"""A numbered piece of a dataset."""

DATA_CODE = late_regex(
    r"(site|dist)-packages/(webdataset|streaming|datasets|torchdata|tensorflow_datasets|seqio|grain"
    r"|pyarrow|PIL|litdata|ffcv|nvidia/dali|decord|torchaudio|soundfile|librosa|zstandard|lhotse"
    r"|tfrecord"
    r"|fairseq/data|torch/utils/data/_utils)\b|/lib/python[\d.]+/(tarfile|gzip|zipfile|lzma)\.py"
    r"|megatron/(core|data)/(datasets/)?(indexed|blended|gpt)_dataset|/streaming/base/"
    r"|/levanter/(data|store)/|/input_pipeline/"
)
"""Code whose work is to read data: what it raises, the data is at fault for."""

DATA_MODULE = late_regex(
    r"^(pandas\.errors|polars|tarfile|zipfile|gzip|bz2|lzma|zlib|zstandard|snappy|lz4|brotli|PIL"
    r"|pyarrow|fastparquet|lmdb"
    r"|webdataset|datasets|streaming|tfrecord|soundfile|decord|av|litdata|ffcv)(\.|$)"
)
"""Modules that read data, as they stand before the name of what they raise."""
