"""Words of an order: who ended a job, or had it ended."""

from __future__ import annotations

import re
from typing import Final

from cockpit.model.late_regex import late_regex

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
