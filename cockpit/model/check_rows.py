"""The checks of a plan, one row each: what it means, for which actions, when it warns and blocks.

What speaks for or against an action names its row and gives the facts.
How much it weighs, and whether a person can approve it, come from the row; where the facts decide
between levels, the row says when. docs/checks.md is made from these rows. Two rows can have one id:
they ask the same of different actions, or only one of the two can be approved.
"""

from typing import Final, NamedTuple

from cockpit.model.plan import Basis, Check, Level

OBSERVED: Final = (Basis.OBSERVED,)
RECORDED: Final = (Basis.RECORDED,)
INFERRED: Final = (Basis.INFERRED,)
EVERY: Final = ("every action",)
LAUNCHES: Final = ("launch", "relaunch", "lineage")
QUEUE: Final = ("hold", "release", "requeue", "extend")
STARTS: Final = (*LAUNCHES, "requeue")
RESUMES: Final = ("relaunch", "requeue")
HERO: Final = "for a hero run"


class CheckRow(NamedTuple):
    """One row. ``means`` is what holds when it passes, or what it says where it never does."""

    id: str
    """A ``*`` stands for what is found: a setting, a run, an alert, a number of the journal."""
    asked: tuple[str, ...]
    """The actions that it is asked for."""
    means: str
    warns: str = ""
    """When it warns; empty: never."""
    blocks: str = ""
    """When it blocks; empty: never."""
    passes: bool = True
    """Whether it is also shown where nothing speaks against the action."""
    approvable: bool = False
    """Whether a person can let its block pass, by name and reason."""
    basis: tuple[Basis, ...] = OBSERVED
    """What its value can rest on; the first unless the code says another."""
    about_acting: bool = False
    """Whether it speaks of who else acts: it may block, but is no part of what would be done."""

    @property
    def levels(self) -> frozenset[Level]:
        """The levels that it can have."""
        said = {Level.PASS: self.passes, Level.WARN: self.warns, Level.BLOCK: self.blocks}
        return frozenset(level for level, when in said.items() if when)

    @property
    def level(self) -> Level:
        """Its level, where it has only one; raises ``ValueError`` where the facts decide."""
        (one,) = self.levels
        return one

    def check(
        self,
        level: Level,
        text: str,
        basis: Basis | None = None,
        value: str | None = None,
        *,
        of: str = "",
        moves: bool = False,
    ) -> Check:
        """Return a check of this row with a text that is safe already. ``of`` is for its ``*``."""
        return Check(
            id=self.id.replace("*", of),
            level=level,
            text=text,
            basis=basis or self.basis[0],
            value=value,
            overridable=self.approvable and level is Level.BLOCK,
            moves=moves,
            about_acting=self.about_acting,
        )


def check_rows() -> dict[str, CheckRow]:
    """Return every row by its name here, in the order of the table."""
    return {name: row for name, row in globals().items() if isinstance(row, CheckRow)}


def table() -> str:
    """Return the rows as a table for docs/checks.md."""
    head = "| id | asked for | what it means | warns | blocks | approved | rests on |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for row in check_rows().values():
        approved = ("yes" if row.approvable else "no") if row.blocks else "–"
        basis = ", ".join(each.value for each in row.basis)
        cells = (f"`{row.id}`", ", ".join(row.asked), row.means, row.warns or "–",
                 row.blocks or "–", approved, basis)  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


# fmt: off
# Who may act, and who else does.

AGENTS = CheckRow("agents", EVERY, "the run file lets this agent, or a standing order, do it",
    blocks="`[agents] may` does not name the action", basis=RECORDED)
STANDING_ORDER = CheckRow("standing", ("relaunch",), "the standing order covers this relaunch",
    blocks="it does not name the cause, is over or used up, or anything is in doubt",
    basis=RECORDED)
VETO = CheckRow("veto", EVERY, "a person has stopped this agent",
    blocks="a person has vetoed the action, or acts on the run now", passes=False, basis=RECORDED)
AGENT_WAITED = CheckRow("agent", EVERY, "an agent waited to act, and this plan has stopped it",
    warns="whenever that is so", passes=False, basis=RECORDED, about_acting=True)
JOURNAL = CheckRow("journal", EVERY, "every step can be written down before it is done",
    blocks="the journal cannot be written", passes=False)
INTERRUPTED = CheckRow("journal:*", EVERY, "an earlier action did not come to its end",
    warns="it is known how it ended", blocks="how it ended is not known", passes=False,
    basis=(Basis.RECORDED, Basis.OBSERVED), about_acting=True)
INTERRUPTED_ELSEWHERE = CheckRow("journal:*", EVERY,
    "an earlier action cannot be looked up from here",
    warns="it is known how it ended", blocks="only a person can say how it ended", passes=False,
    approvable=True, basis=(Basis.RECORDED, Basis.OBSERVED), about_acting=True)
SECOND_MACHINE = CheckRow("second-machine", EVERY, "no other cockpit holds the run",
    warns="no guard can be used", blocks="somebody who is gone, or on another machine, holds it",
    approvable=True, about_acting=True)
HELD_FOR_GOOD = CheckRow("second-machine", EVERY, "nobody may pass over what holds the run",
    blocks="a living process of this machine (wait for it, or end it), or what is no lease",
    passes=False, about_acting=True)
GUARD_SILENT = CheckRow("second-machine:remote", EVERY, "one of several guards gave no answer",
    warns="another guard holds", passes=False, about_acting=True)
LAUNCHED_ELSEWHERE = CheckRow("launched-elsewhere", LAUNCHES,
    "another machine has launched since, and what became of that is known",
    blocks="nothing here can see whether that job lives", approvable=True,
    basis=(Basis.OBSERVED, Basis.RECORDED), about_acting=True)
LAUNCH_IDS = CheckRow("launch-ids", LAUNCHES, "an earlier launch id may be unknown here",
    warns="a place that may name one cannot be read", passes=False, about_acting=True)
DRI = CheckRow("dri", LAUNCHES, "somebody answers for the run",
    warns="the records name another owner than the run file", blocks="no DRI is set",
    basis=RECORDED)
DRI_NOTIFIED = CheckRow("dri-notified", ("launch", "lineage"),
    "a DRI who does not act was notified within 24 h",
    blocks="no notification is recorded", basis=RECORDED)
MONITOR = CheckRow("monitor", ("relaunch",), "another monitor watches this job and may act too",
    warns="its state file is fresh", passes=False)

# The job, and what else lives of its lineage.

BACKEND = CheckRow("backend", LAUNCHES, "this version cannot act on the run's kind of job",
    blocks="no job is set, or its kind is not supported", passes=False, basis=RECORDED)
RELAUNCH_STATE = CheckRow("job-state", ("relaunch",), "the job has ended",
    warns="it stands still and is stopped first, or it says success without its artifacts",
    blocks="it trains, waits, is suspended or succeeded, or its state is unknown")
FORGOTTEN = CheckRow("forgotten", ("relaunch",), "the platform does not list the job any more",
    blocks="nothing of the lineage is seen to live", passes=False, approvable=True)
LAUNCH_STATE = CheckRow("job-state", ("launch",), "the run has no job yet",
    warns="it had one, which has ended or is gone",
    blocks="it has one, or whether it has one is unknown")
STOPPABLE = CheckRow("job-state", ("stop",), "something of the run is there to be stopped",
    blocks="nothing is alive or held, or what is alive is unknown")
ORDERED = CheckRow("job-state", QUEUE, "the scheduler may do that with the job as it stands",
    blocks="it would refuse, more than one job is alive, or that cannot be told")
AT_REST = CheckRow("job-state", ("rollback", "teardown"), "no job of the lineage is alive",
    blocks="one is alive, or that cannot be told")
SUCCEEDED = CheckRow("job-state", ("seal",), "the orchestrator says success",
    blocks="it says something else, or its word is unknown",
    basis=(Basis.OBSERVED, Basis.INFERRED))
ADOPTED = CheckRow("job", ("adopt",), "the job that is named lives",
    blocks="it has ended, that cannot be told, or this version cannot act on such a job")
WHOSE = CheckRow("whose", ("adopt",), "the job is one of this run",
    warns="nothing in its words tells whose it is", blocks="it is another run's",
    basis=(Basis.OBSERVED, Basis.INFERRED))
WRITES_ELSEWHERE = CheckRow("whose", ("adopt",), "the job seems to be another run's",
    blocks="its words name another output root or W&B id", passes=False, approvable=True,
    basis=INFERRED)
WRITES_BESIDE = CheckRow("C-25", ("adopt",), "two jobs would write at once",
    warns="another job of the lineage lives, or that cannot be told", passes=False)
LINEAGE_JOBS = CheckRow("C-25", ("launch", "relaunch", "retain", "release", "requeue"),
    "no other job of the lineage is alive",
    warns="a job is held, or may write to it but is not proven to",
    blocks="another job is alive, something still writes, or that cannot be told")
NEW_LINEAGE_JOBS = CheckRow("C-25", ("lineage",), "no job of either lineage is alive",
    warns="the old one still trains, or a job may write to the new one",
    blocks="something of the new one may be alive, or that cannot be told")
MAY_WRITE = CheckRow("C-25", ("rollback", "teardown"),
    "a job may write to the lineage", warns="it is not proven to", passes=False)
SEAL_JOBS = CheckRow("C-25", ("seal",), "a job of the lineage may still be alive",
    warns="that is not proven, or cannot be told", blocks="one is alive", passes=False)
STOPS_SEVERAL = CheckRow("C-25", ("stop",), "more than one job of the lineage is stopped",
    warns="several are alive", passes=False)
STOPS_ANOTHER = CheckRow("other-run", ("stop",), "only jobs of this run write to its places",
    warns="another run of the run file names one as its own: it goes on", passes=False)
SIMILAR_JOB = CheckRow("similar-job", ("launch", "relaunch", "release", "requeue"),
    "a living job runs what the run's job runs",
    blocks="no other run of the run file names it", passes=False, approvable=True)
WRITTEN_AFTER_END = CheckRow("written-after-end", ("launch", "relaunch"),
    "something wrote to the outputs after the job's end",
    blocks="it has written nothing since", passes=False, approvable=True)
STARTS_NEXT = CheckRow("queued", ("launch", "relaunch"),
    "a job starts by itself once the present one is over",
    blocks="whenever there is one: it would be a second", passes=False)
QUEUED = CheckRow("queued", ("stop",), "nothing starts by itself after the stop",
    warns="a job does, and is not asked to be cancelled, or goes with the stop",
    blocks="it shall be cancelled and cannot be, or that cannot be told")
PERMISSION = CheckRow("permission", ("relaunch", "stop"),
    "this user may not signal a job that would be stopped",
    blocks="the system says so beforehand", passes=False)
HEALTH = CheckRow("health", ("stop", "requeue"), "the run is not healthy",
    warns="it is healthy: stopping loses what it does")
LOSES = CheckRow("loses", ("stop", "requeue"), "what the stop would lose",
    warns="always; also where it is unknown", passes=False,
    basis=(Basis.OBSERVED, Basis.INFERRED))
SAVE_FIRST = CheckRow("save", ("relaunch", "stop", "requeue"), "a checkpoint is asked for first",
    warns="the relaunch goes on without it", blocks="the job cannot save at a request")

# What ended it, and whether a relaunch helps.

CAUSE = CheckRow("T", ("relaunch",), "what ended the job calls for a relaunch",
    warns="the log was read in part, or the end was clean after a signal",
    blocks="it calls for something else, or is unknown", approvable=True,
    basis=(Basis.OBSERVED, Basis.RECORDED))
RECIPE = CheckRow("recipe", ("relaunch",), "what a person does about a bad node",
    warns="a bad node ended the job", passes=False, basis=RECORDED)
NUMBERS_LOST = CheckRow("C-09", ("relaunch",), "no alert of NaN or inf is open",
    blocks="one is open: that is no failure of infrastructure", approvable=True)
AGAIN = CheckRow("C-14", ("relaunch",), "no earlier failure is like this one",
    blocks="it failed so before, or keeps failing", approvable=True, basis=RECORDED)
RESTARTS = CheckRow("restarts", ("relaunch",), "how often it was restarted over a longer time",
    warns="as often as `flap_restarts`", passes=False, basis=(Basis.OBSERVED, Basis.RECORDED))
FIXED = CheckRow("fix", ("relaunch",), "the code has changed since the failure that needs a fix",
    warns="it has not, or that cannot be told", basis=(Basis.OBSERVED, Basis.INFERRED))

# The code.

CODE = CheckRow("C-15", STARTS, "the code is what was recorded, or differs harmlessly",
    warns="no repository is set, or the uncommitted changes are those of the last launch",
    blocks="it differs or is unknown; what can affect training is the DRI's to approve",
    approvable=True, basis=(Basis.OBSERVED, Basis.INFERRED))
CODE_ELSEWHERE = CheckRow("C-15:where", STARTS, "the job runs a checkout of another machine",
    warns="the code was read here", passes=False, basis=INFERRED)
BUNDLE = CheckRow("C-15:bundle", STARTS, "the job's bundle is the recorded commit",
    blocks="it is another one, or has unrecorded changes", approvable=True)
UNPUSHED = CheckRow("C-15:unpushed", STARTS, "unpushed commits cannot affect training",
    warns="the branch has no upstream", blocks="they can, or that is unknown", approvable=True)
BRANCH = CheckRow("C-15:branch", STARTS, "the checkout is on another branch",
    blocks="the last launch was from another one and the code differs", passes=False,
    approvable=True)

# The output root, the checkpoint and what the trainer would load.

OUTPUT_ROOT = CheckRow("C-16", ("launch", "relaunch"), "all who name the output root agree",
    blocks="it is missing, not fixed or not absolute, or somebody names another one",
    basis=(Basis.OBSERVED, Basis.RECORDED))
DERIVED_ROOT = CheckRow("C-16:derived", ("launch", "relaunch"),
    "the output root looks made up or temporary",
    warns="its name has a date or a hash, or its disk is cleared", passes=False, basis=INFERRED)
CHECKPOINTS_OUTSIDE = CheckRow("C-16:checkpoints", ("launch", "relaunch"),
    "checkpoints go elsewhere than under the output root",
    warns="the run file says so", passes=False, basis=RECORDED)
NEW_ROOT = CheckRow("C-16", ("lineage",), "the new output root is empty and nobody's",
    blocks="it is missing, overlaps another run's, holds something or cannot be read",
    basis=(Basis.OBSERVED, Basis.RECORDED))
ROOT_AWAY = CheckRow("C-16:away", ("lineage",), "the new output root lies on another system",
    warns="it is still to be read there", passes=False, basis=INFERRED)
CHECKPOINT = CheckRow("C-17", RESUMES, "the trainer resumes from the checkpoint wanted",
    warns="it takes an older one, or what it takes is not known",
    blocks="it takes another one or none, or the checkpoints are unknown",
    basis=(Basis.OBSERVED, Basis.RECORDED, Basis.INFERRED))
NOTHING_WHOLE = CheckRow("checkpoint", RESUMES, "there is nothing to resume from",
    blocks="no checkpoint is known to be complete and this run's", passes=False)
SUSPECT = CheckRow("suspect", ("relaunch", "requeue", "lineage", "rollback"),
    "the checkpoint is suspect", passes=False, approvable=True,
    blocks="it was saved after lost numbers, or during an open spike or climb")
NO_RESUME_FLAG = CheckRow("resume", RESUMES, "the command does not make the trainer resume",
    blocks="such a trainer begins at step 0 then", passes=False, approvable=True, basis=INFERRED)
NEWER = CheckRow("C-17:newer", RESUMES, "a newer checkpoint is passed over",
    warns="it is archived, or was being written a moment ago", blocks="it cannot be judged",
    passes=False)
NEWER_NAMED = CheckRow("C-17:newer", RESUMES, "something names a newer one that is not whole",
    blocks="a trainer that goes by it fails or begins anew", passes=False, approvable=True)
OTHERS_NEWER = CheckRow("C-17:lineage", RESUMES,
    "newer checkpoints of others are passed over",
    warns="they are another run's", blocks="whose they are is not sure", passes=False)
OUTSIDE_ROOTS = CheckRow("C-17:root", RESUMES,
    "the checkpoint lies outside of the run's roots",
    blocks="whenever that is so", passes=False)
BEYOND_STEP = CheckRow("C-17:step", RESUMES, "the checkpoint's step is past what was logged",
    warns="by more than lies between two saves", blocks="the run never came that far",
    passes=False, approvable=True)
HAS_CHECKPOINT = CheckRow("C-17", ("launch",), "the run can be resumed",
    blocks="it has a complete checkpoint, or its checkpoints are unknown", passes=False)
FROM_SCRATCH = CheckRow("checkpoint", ("launch",), "nothing of this lineage exists yet",
    blocks="it started before and has no complete checkpoint: the DRI decides", approvable=True)
ORIGIN = CheckRow("initialize-from", ("launch",), "what it begins with is complete",
    warns="its name says another step than its inside",
    blocks="it is not there or not complete", basis=(Basis.OBSERVED, Basis.RECORDED))
ORIGIN_UNREAD = CheckRow("initialize-from", ("launch",), "what it begins with cannot be read",
    blocks="its system gave no answer", passes=False, approvable=True)
SOURCE = CheckRow("source", ("lineage",), "the checkpoint to begin with is complete",
    blocks="it is not, or it is not this run's, or the checkpoints are unknown")
READABLE = CheckRow("C-17:readable", LAUNCHES, "this user can read the checkpoint",
    blocks="a byte of its files cannot be read")
REGION = CheckRow("C-17:region", LAUNCHES, "all known regions are the job's",
    warns="a place lies in another one", basis=(Basis.INFERRED, Basis.OBSERVED))

# Config, command and tracker.

CONFIG = CheckRow("C-18", ("relaunch",), "config and flags are those of the last launch",
    warns="there is no config to compare", basis=(Basis.OBSERVED, Basis.INFERRED))
SETTING = CheckRow("C-18:*", ("relaunch",), "a setting or flag differs from the last launch",
    blocks="whenever it differs", passes=False, approvable=True)
MORE_SETTINGS = CheckRow("C-18:more", ("relaunch",), "more settings differ than are listed",
    blocks="this is another config", passes=False)
UNCOMPARED = CheckRow("C-18:uncompared", ("relaunch",), "settings that only one side has",
    warns="they cannot be compared", passes=False, basis=INFERRED)
FLAGS_UNCOMPARED = CheckRow("C-18:command", ("relaunch",), "the flags cannot be compared",
    warns="no command of the last launch is known to be its", passes=False, basis=INFERRED)
LAUNCH_CONFIG = CheckRow("config", ("launch",), "the settings are recorded with the launch",
    warns="no config file can be read: no relaunch can be compared with this",
    basis=(Basis.OBSERVED, Basis.INFERRED))
COMMAND = CheckRow("resubmit", LAUNCHES, "what will run",
    blocks="no command is recorded, or it cannot be read", basis=RECORDED)
LAUNCH_ID = CheckRow("launch-id", LAUNCHES, "the platform cannot spell the launch id",
    blocks="whenever that is so", passes=False, basis=RECORDED)
SBATCH = CheckRow("sbatch", LAUNCHES, "the job is submitted held, and known by its launch id",
    warns="a script calls sbatch itself", blocks="an option undoes that, or sbatch is not named",
    basis=RECORDED)
RAY_MEMORY = CheckRow("ray:memory", LAUNCHES, "a head of Ray forgets its jobs when it ends",
    warns="always", passes=False, basis=RECORDED)
RAY_SHELL = CheckRow("ray:shell", LAUNCHES, "the command has words that only a shell understands",
    blocks="no shell splits it", passes=False, basis=RECORDED)
RAY_SUBMITTER = CheckRow("ray:submitter", LAUNCHES, "the entrypoint submits a job itself",
    blocks="`resubmit_runs` does not say so", passes=False, basis=RECORDED)
RAY_LAUNCH_ID = CheckRow("ray:launch-id", LAUNCHES, "the submitter names its job by the launch id",
    blocks="it does not: it could be launched twice", basis=RECORDED)
RAY_NO_WAIT = CheckRow("ray:no-wait", LAUNCHES, "the submitter follows its job",
    blocks="it would be ended by force", passes=False, basis=RECORDED)
KUBERNETES_OBJECT = CheckRow("kubernetes:object", LAUNCHES,
    "one object is created suspended, under the launch id",
    blocks="it cannot be held, or the command would undo that", basis=RECORDED)
KUBERNETES_AGAIN = CheckRow("kubernetes:again", LAUNCHES, "the cluster starts the trainer again",
    warns="it may, beside a former one that still saves", passes=False, basis=RECORDED)
KUBERNETES_TTL = CheckRow("kubernetes:ttl", LAUNCHES, "the object is deleted after its end",
    warns="so soon that its end may not be seen", passes=False, basis=RECORDED)
IRIS_JOB_NAME = CheckRow("iris:job-name", LAUNCHES, "each launch has a job name of its own",
    warns="the name is fixed, or a script sets it",
    blocks="nothing could tell whether a launch whose answer was lost has started", basis=RECORDED)
IRIS_LOST = CheckRow("iris:lost", LAUNCHES, "what a lost answer leaves on the controller",
    basis=RECORDED)
IRIS_NO_WAIT = CheckRow("iris:no-wait", LAUNCHES, "the command waits for the job",
    blocks="it never returns", passes=False, basis=RECORDED)
IRIS_TPU = CheckRow("iris:tpu", LAUNCHES, "a TPU run asks for no devices",
    blocks="`--tpu` is missing", passes=False, basis=RECORDED)
IRIS_EXTRA = CheckRow("iris:extra", LAUNCHES, "an extra replaces the accelerator's libraries",
    blocks="it is named", passes=False, basis=RECORDED)
IRIS_USER = CheckRow("iris:user", LAUNCHES, "the job would be another user's",
    blocks="it is not the recorded one's", passes=False, basis=RECORDED)
RESUME_POLICY = CheckRow("resume-policy", RESUMES, "the W&B run may be written again",
    blocks="its policy says never, or must while none is known to exist",
    basis=(Basis.RECORDED, Basis.OBSERVED))
SAME_TRACKER = CheckRow("C-13", ("relaunch",), "the W&B id is the one that was used",
    warns="it is not recorded, or W&B was not read", blocks="it is another one",
    basis=(Basis.OBSERVED, Basis.RECORDED, Basis.INFERRED))
UNUSED_TRACKER = CheckRow("C-13", ("launch",), "the W&B id is nobody's yet",
    warns="no W&B run or id is set, or it has logged steps", blocks=f"{HERO} without an id",
    basis=(Basis.RECORDED, Basis.OBSERVED))

# A new lineage.

RUN_ID = CheckRow("run-id", ("lineage",), "the run id is new",
    blocks="it is a run of the run file", basis=RECORDED)
WANDB_ID = CheckRow("wandb-id", ("lineage",), "no other run here has the W&B id",
    blocks="one has it", basis=RECORDED)
IDENTITY = CheckRow("identity", ("lineage",), "the command takes the new identity",
    warns="it does not name the W&B id", blocks="it does not take root or checkpoint",
    basis=RECORDED)
OLD_IDENTITY = CheckRow("identity:old", ("lineage",), "the command still names the old lineage",
    blocks="whenever it does", passes=False, basis=RECORDED)
FORK = CheckRow("fork", ("lineage",), "the new W&B run begins with the old one's history",
    warns="always: it breaks when the old run changes",
    blocks="there is no step or run to fork from",
    passes=False, basis=(Basis.OBSERVED, Basis.RECORDED, Basis.INFERRED))
FORK_REFUSED = CheckRow("fork:resume", ("lineage",), "a variable keeps the client from forking",
    warns="it is set here, and a job may inherit it", blocks="the command sets it", passes=False)
REASON = CheckRow("reason", ("lineage",), "why the old lineage is left", basis=RECORDED)

# Places that a launch needs, tried by doing.

PLACES = CheckRow("places", LAUNCHES, "all that the job writes into can be written",
    warns="a folder would be made where a disk may be missing",
    blocks="one cannot be written, or gave no answer")
DISK = CheckRow("disk", LAUNCHES, "a disk is nearly full", passes=False,
    warns="it has no room for two checkpoints",
    blocks="it has no room for one, or for its files")
PROGRAM = CheckRow("program", LAUNCHES, "the command could not begin",
    blocks="its workdir or program is missing, or gave no answer", passes=False)
SCRIPT = CheckRow("program", LAUNCHES, "the script of the command is not there",
    blocks="as far as the words tell", passes=False, approvable=True, basis=INFERRED)
HANDED_OVER = CheckRow("handed-over", LAUNCHES, "the command would not wait for the job",
    blocks="it ends once another program has the job, and nothing finds that job",
    passes=False, approvable=True, basis=INFERRED)
LAUNCHER = CheckRow("launcher", LAUNCHES, "the host lacks what the launcher needs",
    blocks="whenever that is so", passes=False)
START = CheckRow("start", LAUNCHES, "the platform would refuse the start",
    blocks="what it opens for a start was tried", passes=False)
STORE = CheckRow("store", ("launch", "relaunch"), "earlier launches are unknown",
    blocks="the store cannot be read", passes=False)

# Records.

RECORDS = CheckRow("records", EVERY, "the logbook cannot be written",
    warns="for any other action or run", blocks=f"{HERO} that is launched", passes=False,
    basis=(Basis.OBSERVED, Basis.RECORDED), about_acting=True)
LOGBOOK = CheckRow("logbook", ("launch",), "the run has a logbook of its own",
    warns="it is also another run's; it is missing", blocks=f"{HERO} without one", basis=RECORDED)
ISSUE = CheckRow("issue", ("launch",), "the run has an issue that its logbook links",
    warns="it is created, or missing", blocks=f"{HERO} without one", basis=RECORDED)
FINAL_STEP = CheckRow("final-step", ("launch",), "the final step is known",
    warns="it is not", blocks=f"{HERO} without one", basis=RECORDED)
RETENTION = CheckRow("retention", ("launch",), "retention and rollback depth are chosen and fit",
    warns="they are not", blocks=f"{HERO} without", basis=RECORDED)
RECORDED_IN = CheckRow("logbook", ("adopt", "handoff", "escalate"),
    "the entry goes into the logbook",
    warns="there is none: only the journal has it", basis=RECORDED)
POSTED_TO = CheckRow("issue", ("handoff", "escalate"), "the comment goes to the issue",
    warns=f"there is none, {HERO}", basis=RECORDED)
LOG_PAGE = CheckRow("logbook", ("log",), "the entry is appended to the logbook",
    warns="the file does not exist yet", blocks="there is none, or it cannot be read",
    basis=(Basis.OBSERVED, Basis.RECORDED))
AUTOLOG_BOOK = CheckRow("logbook", ("autolog",), "there is no logbook to write into",
    blocks="whenever that is so", passes=False, basis=RECORDED)
WHO_ALLOWS = CheckRow("who", ("autolog",), "an agent cannot allow this",
    blocks="an agent asks for it", passes=False, basis=RECORDED)
CONSENT = CheckRow("consent", ("autolog",), "entries are written by themselves, or no more",
    warns="somebody has allowed it already", basis=RECORDED)
CONSENT_STORE = CheckRow("store", ("autolog",), "the consent cannot be kept",
    blocks="there is no store, or it cannot be read", passes=False)
WRITES = CheckRow("writes:*", ("autolog",), "when an entry of a run is written", basis=RECORDED)
STANDING_TERMS = CheckRow("standing", ("standing",), "what the order may do",
    blocks="`[run.standing]` is missing, or a relaunch or an escalation could not be done",
    basis=RECORDED)
STANDING_KILLED = CheckRow("killed", ("standing",), "whose kill it was can be told",
    warns="the order names `killed`: a person's `kill -9` looks the same", passes=False)
STANDING_WHO = CheckRow("by", ("standing",), "who may arm it types it",
    blocks="an agent does, or somebody whom the run file does not name", basis=RECORDED)
STANDING_UNTIL = CheckRow("until", ("standing",), "when it ends by itself",
    blocks="that is past, or more than 7 days away", basis=RECORDED)
STANDING_GUARD = CheckRow("guard", ("standing",), "other machines can see who acts",
    blocks="no guard can be used, or somebody else holds it")
STANDING_WATCH = CheckRow("watch", ("standing",), "a watch is there to carry it out",
    warns="it works only while a cockpit is open")
PUSH = CheckRow("push", ("autolog",), "what is committed is pushed",
    warns="it stays here, and why")

# Telling people.

WHOSE_WORD = CheckRow("by", ("ack",), "it is said to be the word of another than who typed it",
    warns="whenever that is so", passes=False, basis=RECORDED)
ALERT = CheckRow("alert", ("ack",), "the alert is open", blocks="no such alert is open")
UNTIL = CheckRow("until", ("ack",), "its acknowledgement ends",
    warns="it alerts again", passes=False, basis=RECORDED)
TAKEN = CheckRow("taken", ("ack",), "somebody has acknowledged it already",
    warns="whenever that is so", passes=False, basis=RECORDED)
RUN_OVER = CheckRow("end", ("ack",), "the run is over: its watch may end",
    blocks="it is not, or that cannot be told")
ESCALATED_TO = CheckRow("dri", ("escalate",), "there is a DRI to tell",
    blocks="none is set", basis=RECORDED)
ROUTES = CheckRow("routes", ("escalate",), "a message of this severity goes out",
    warns="no route takes it: only the issue does", blocks="it would reach nobody", basis=RECORDED)
OWNER = CheckRow("owner", ("handoff",), "who owns the run after this",
    warns="that is so already, or another than the owner types it", basis=RECORDED)

# Rollback and retention.

LISTED = CheckRow("checkpoint", ("rollback", "retain"), "the checkpoints cannot be listed",
    blocks="none are set, they are unknown, or nothing can be changed there", passes=False)
ROLLBACK_TO = CheckRow("checkpoint", ("rollback",), "the chosen step is complete and this run's",
    blocks="it is not, or there is none")
REJECTED = CheckRow("rejected", ("rollback",), "newer checkpoints are rejected for good",
    warns="always; one whose step is unknown is left alone",
    blocks="there is none, one is being written, or one can be moved by hand only", passes=False)
MARKABLE = CheckRow("mark", ("rollback",), "a root does not take the file of what is rejected",
    warns="the logbook says it all the same", blocks="nothing would say it", passes=False)
MOVED = CheckRow("move", ("rollback",), "how the rejected ones are moved aside",
    blocks="they cannot be moved")
TRAINER_LOADS = CheckRow("C-17", ("rollback",), "the trainer would load the chosen checkpoint",
    blocks="it would load another one, or that cannot be told")
MIXED_SAVES = CheckRow("lineage", ("retain",), "whose the saves are is not certain",
    blocks="nothing is deleted among another run's", passes=False)
SOURCES = CheckRow("logbook", ("retain",), "recovery sources are unknown",
    blocks="the logbook that names them cannot be read", passes=False)
MAY_READ = CheckRow("in-use", ("retain",), "a living program may read any of the saves",
    blocks="it was told the folder in which they lie", passes=False, approvable=True)
POLICY = CheckRow("retention", ("retain",), "how many checkpoints are kept",
    warns="fewer than the rollback depth were asked for, or no number is set",
    basis=(Basis.RECORDED, Basis.INFERRED))
CANDIDATES = CheckRow("candidates", ("retain",), "what is deleted, for good",
    warns="always", blocks="there is nothing to delete from here", passes=False)
LEFT = CheckRow("C-08", ("retain",), "enough complete checkpoints are left",
    blocks="fewer than the rollback depth")
DELETABLE = CheckRow("deletable", ("retain",), "the right to delete",
    warns="something of what is deleted is kept, as by versions", blocks="it is missing",
    passes=False)

# Seal, publish, teardown.

SEALED = CheckRow("sealed", ("seal",), "the run is sealed already",
    blocks="tag and records are there", passes=False, basis=(Basis.OBSERVED, Basis.RECORDED))
TRACKER_END = CheckRow("tracker", ("seal",), "the tracker has the run's end",
    warns="there is none", blocks=f"it has another state, or is unknown; {HERO} without one",
    basis=(Basis.OBSERVED, Basis.RECORDED))
METRICS = CheckRow("metrics", ("seal",), "the final metrics are there",
    blocks="no step or loss was logged")
FINAL_CHECKPOINT = CheckRow("checkpoint", ("seal",), "the final checkpoint is complete",
    warns="it is temporary, suspect, or not known to be final",
    blocks=f"there is none, or it is unknown; what it warns of, {HERO}",
    basis=(Basis.OBSERVED, Basis.RECORDED))
SEAL_LOGBOOK = CheckRow("logbook", ("seal",), "the seal goes into the logbook",
    warns="there is none", blocks=f"it cannot be read; {HERO} without one",
    basis=(Basis.OBSERVED, Basis.RECORDED))
SEAL_ISSUE = CheckRow("issue", ("seal",), "there is no issue",
    warns="whenever that is so", blocks=HERO, passes=False, basis=RECORDED)
MISSING_ARTIFACT = CheckRow("C-19", ("seal",), "an artifact of success is missing",
    blocks="whenever that is so", passes=False)
OPEN_ALERT = CheckRow("*", ("seal",), "an alert of that id is still open",
    warns="whenever that is so", passes=False)
MONITORS = CheckRow("monitors", ("seal",), "only our own watch is left, and it ends",
    warns="whether one still runs cannot be told", blocks="another monitor still runs")
TAG = CheckRow("tag", ("seal",), "the tag is made and pushed",
    warns="there is no code to tag, or the tag is made already",
    blocks="there is no remote, it has such a tag, or git cannot tell",
    basis=(Basis.OBSERVED, Basis.RECORDED))
SEAL_UNPUSHED = CheckRow("C-15:unpushed", ("seal",),
    "the tag would publish commits that are not there yet",
    blocks="whenever that is so", passes=False, approvable=True)
LAUNCHED_CODE = CheckRow("lineage", ("seal",), "HEAD is what the run was launched from",
    warns="no launch has recorded its commit")
SEALED_CODE = CheckRow("C-15", ("seal",), "the sealed code is not what was launched",
    blocks="HEAD is another commit, or changes are uncommitted", passes=False, approvable=True)
DIRTY = CheckRow("dirty", ("seal",), "nothing that matters is uncommitted",
    blocks="it cannot be sealed from here, or is too much")
SECRET = CheckRow("secret", ("seal",), "what is uncommitted looks like a secret",
    blocks="it would be pushed", passes=False)
PASSPORT = CheckRow("passport", ("publish",), "the signed files are what was signed",
    blocks="one differs, nothing is signed, or the files gave no answer")
UNSIGNED = CheckRow("unsigned", ("publish",), "a weight file that nobody has signed",
    warns="whenever that is so", passes=False)
SIGNED_VERDICT = CheckRow("verdict", ("publish",), "the sign-off says pass",
    warns="it is a soft signal", basis=RECORDED)
TRAINING_LOG = CheckRow("training-log", ("publish",), "the training log is written",
    warns="one is there: it is kept beside", blocks="it cannot be made, or a link is in its place")
RUN_LOG = CheckRow("run-log", ("publish",), "the run log gets a HuggingFace section",
    warns="no run log or no repository is named")
PULLED = CheckRow("pulled", ("teardown", "publish"), "the copy here is equal to its source",
    blocks="it is not, or that cannot be told")
TEARDOWN_COMMAND = CheckRow("teardown", ("teardown",), "what runs, once",
    blocks="no command is recorded, or it cannot be read", basis=RECORDED)
TORN_DOWN = CheckRow("teardown", ("teardown",), "a teardown was begun before",
    blocks="it was done, or its outcome is unknown", passes=False, approvable=True, basis=RECORDED)
METER = CheckRow("meter", ("teardown",), "it stops the meter and can be undone",
    warns="one of these is not so", basis=RECORDED)
STORAGE = CheckRow("storage", ("teardown",), "everything else is done: storage may go",
    blocks="the run is not sealed, or its logbook is not pushed")
VERIFIED = CheckRow("verified", ("teardown",), "every artifact was loaded",
    blocks="it was not, or no command does it", basis=(Basis.OBSERVED, Basis.RECORDED))

# Uploads to W&B.

UPLOAD = CheckRow("wandb", ("sync",), "what is left to upload",
    blocks="no folder or id is known, or the place gave no answer",
    basis=(Basis.OBSERVED, Basis.RECORDED))
UPLOAD_CLOSED = CheckRow("wandb:closed", ("sync",), "a folder cannot be read by this user",
    blocks="whenever that is so", passes=False)
UPLOAD_RUNNING = CheckRow("wandb:running", ("sync",), "another upload of it runs",
    blocks="wait for its end", passes=False)
UPLOAD_TORN = CheckRow("wandb:torn", ("sync",), "a last record was cut off",
    warns="sent as far as it goes, and not again", passes=False)
UPLOAD_MORE = CheckRow("wandb:more", ("sync",), "more folders than can be handled",
    blocks="they are uploaded by hand", passes=False)
UPLOAD_GROWN = CheckRow("wandb:grown", ("sync",), "written to after it was synced",
    warns="it is not sent again", passes=False)
DESTINATION = CheckRow("destination", ("sync",), "where it goes", basis=RECORDED)
OTHER_DESTINATION = CheckRow("C-13", ("sync",), "it would go elsewhere than is recorded",
    blocks="whenever that is so", passes=False, approvable=True, basis=RECORDED)
DRY_RUN = CheckRow("dry-run", ("sync",), "the client would send just these",
    blocks="it would send others, or gave no answer")
STILL_TRAINING = CheckRow("running", ("sync",), "the run may still be training",
    warns="that cannot be told", blocks="it is", passes=False, approvable=True)
STAGING = CheckRow("staging", ("sync",), "no artifacts are staged", warns="some are")
API_KEY = CheckRow("key", ("sync",), "where the key comes from", warns="none is found")
# fmt: on
