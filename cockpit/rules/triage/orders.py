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
    r"\bkeyboard ?interrupt\b|ctrl ?[-+]? ?c\b|^\^C|terminated by user\b"
    rf"(?!{_OF_THE_PROGRAM})"
    r"|cancell?ed by (user|uid|owner)|\bsigterm\b.{0,60}\buid[ =:]?[1-9]\d*"
    r"|\bTERM_OWNER\b|(killed|interrupted|stopped|aborted) by (the )?(user|owner|operator)\b"
    rf"(?!{_OF_THE_PROGRAM})"
    r"|(?<!can be )(?<!be )\bstopped (from|in|via|through) the (ui|web|console|dashboard|w&b"
    r"|wandb)\b"
    r"|\bstop (was )?requested (by|in|from) (the )?(user|owner|operator|web|w&b|wandb|ui)\b"
    r"|\bjob \S+ was (stopped|cancell?ed)\b(?!.{0,40}\b(because|due|since|after|depend\w*)\b)"
    rf"(?! by {_THINGS})|^srun: interrupt\b|\buser[- ]initiated\b(?! {_BESIDE})"
    rf"|terminated-by-user|{_STOP_FILE}|\b(exit(ing|ed)?|stopp(ing|ed)) "
    r"((with|code|status|run|job|training|cleanly|gracefully|\d{1,3}) ){0,3}on request\b"
    r"(?=\W*$|[.,;:]| \(| (of|by|from|at|after)\b)"
    r"|(?<!use )(?<!run )(?<!with )\b(kubectl delete|docker (stop|kill)|podman (stop|kill)"
    r"|condor_rm|oardel|sky (jobs )?cancel"
    r"|ray job stop|modal app stop)\b|^qdel: "
    rf"|(?:^\W*|[|:=]\s{{0,3}}|\b(job|run|task|pod|workload|experiment|training|sweep|session)\b"
    rf".{{0,60}}\b)cancell?ed by (?!{_THINGS})\w+"
    r"|\bdeleted by (the )?(user|owner"
    r"|\S+@)"
    r"|\b(killed|cancell?ed|deleted|terminated)\b.{0,20}\b(qdel|bkill)\b|\b(qdel|bkill) by\b"
    r"|cancelled at (?!.*due to)|\bsigint\b|received signal 2\b|\bscancel\b",
    re.I,
)
"""Ended by a person. The schedulers' own reasons (``DUE TO``) come before it."""

BY_HAND = late_regex(
    r"\b(operator|admin\w*|manual\w*|on request|requested by|by \S+@\S+|p?kill(all)? -(9|KILL)"
    r"|(docker|podman) (stop|kill)|policy|budget|utili[sz]ation|idle|reaper|janitor|spending)\b",
    re.I,
)
"""A person's hand in a kill, or the rule of one."""

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
