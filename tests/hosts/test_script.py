"""Scripts on a host: the user's own ssh, one connection, one login's cost, honest errors.

Against a real sshd of this user's own; ``tests/sshd.py`` has its faults.

What limits a command on a host: its status, its input, and that nothing of it is left.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from cockpit.hosts.link import know_pythons, link_to
from cockpit.hosts.script import run_script, run_script_blocking
from cockpit.model.facet import ErrorKind
from cockpit.runtime import ssh
from cockpit.runtime.ssh import LIMITED, TIMED_OUT, RemoteError, know_remedies, quote, refusal
from tests.hosts.threadless import python_without_threads
from tests.sshd import Sshd, needs_sshd, serving
from tests.waiting import until

HOSTILE = ("it's", '"$(touch pwned)" `id`', "a\nb\\n", "-rf", "*", "é ü 日本", "\x1b[31m", "")


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    with serving(tmp_path) as server:
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        yield server


def said(host: str | None, script: str, deadline: float = 20.0) -> str:
    return run_script_blocking(host, script, deadline=deadline).text


def failure(host: str | None, script: str = ":", deadline: float = 20.0) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        run_script_blocking(host, script, deadline=deadline)
    return caught.value


def everywhere(host: str | None, late_after: float = 0.4) -> None:
    """Assert what holds of a script wherever it runs."""
    done = run_script_blocking(host, "echo out; echo err >&2; cat; exit 255", deadline=20.0)
    assert (done.rc, done.out, done.err) == (255, b"out\n", b"err\n")
    printed = "printf '%s|' " + " ".join(map(quote, HOSTILE))
    assert said(host, printed) == "".join(f"{word}|" for word in HOSTILE)
    given = bytes(range(256)) * 500
    assert run_script_blocking(host, "cat; exit 3", deadline=20.0, stdin=given)[:2] == (3, given)
    assert run_script_blocking(host, "if; then", deadline=20.0).rc not in (0, 255)
    long = run_script_blocking(host, "head -c 3000000 /dev/zero; exit 4", deadline=20.0, cap=10)
    assert (long.rc, long.out, long.cut) == (4, bytes(10), True)
    assert said(host, "cd /; x=1; set -eu; exit 0") == ""
    assert said(host, 'echo "${x-unset}"') == "unset\n"
    late = failure(host, "echo begun; sleep 30", deadline=late_after)
    assert (late.kind, late.sent, late.out) == (ErrorKind.TIMEOUT, True, b"begun\n")
    assert said(host, "echo again") == "again\n"


def test_a_script_here() -> None:
    everywhere(None)


@needs_sshd
def test_a_script_there_and_one_that_takes_the_event_loop(box: Sshd) -> None:
    everywhere(box.host)
    done = asyncio.run(run_script(box.host, "echo $HOME", deadline=20.0))
    assert done.text == f"{box.home}\n"
    assert not list(box.home.iterdir())  # nothing of what was quoted was run
    assert box.logins == 1


@needs_sshd
def test_a_host_without_python_runs_scripts_all_the_same(box: Sshd) -> None:
    box.rc("echo 'welcome!'; echo 'careful' >&2; printf 'no newline'")
    know_pythons({box.host: "no-such-python"})
    try:
        everywhere(box.host, late_after=3.0)  # it logs in for each
    finally:
        know_pythons({})


@needs_sshd
def test_what_was_given_up_before_it_was_sent_is_never_run(box: Sshd, tmp_path: Path) -> None:
    box.rc("sleep 1")
    error = failure(box.host, f"touch {tmp_path}/run", deadline=0.1)
    assert not error.sent
    assert said(box.host, "echo there") == "there\n"
    assert not (tmp_path / "run").exists()


@needs_sshd
def test_what_was_interrupted_before_it_was_sent_is_never_run(
    box: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.rc("sleep 0.5")

    def interrupted(future: Future[object], timeout: float | None = None) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Future, "result", interrupted)
        run_script_blocking(box.host, f"touch {tmp_path}/run", deadline=20.0)
    assert said(box.host, "echo there") == "there\n"
    assert not (tmp_path / "run").exists()


@needs_sshd
@pytest.mark.parametrize(("refused", "sent"), [("_keep", True), ("run", False)])
def test_at_a_limit_of_threads_what_was_started_is_sent(
    box: Sshd, tmp_path: Path, refused: str, sent: bool
) -> None:
    know_pythons({box.host: python_without_threads(tmp_path, refused)})
    try:
        error = failure(box.host, f"touch {tmp_path}/run")
    finally:
        know_pythons({})
        link_to(box.host).close()
    assert (error.kind, error.sent) == (ErrorKind.BAD_ANSWER, sent)
    assert "can't start new thread" in str(error)
    assert ("was not started" in str(error)) is not sent
    if sent:
        until((tmp_path / "run").exists)


@needs_sshd
@pytest.mark.parametrize("python", ["python3", "no-such-python"])
def test_a_script_longer_than_a_word_may_be_and_in_any_locale(box: Sshd, python: str) -> None:
    box.rc("export LC_ALL=POSIX PYTHONUTF8=0 PYTHONCOERCECLOCALE=0")
    know_pythons({box.host: python})
    try:
        done = run_script_blocking(
            box.host, f": {'x' * 200_000}\necho 日本; cat", deadline=20.0, stdin=b"\xff"
        )
    finally:
        know_pythons({})
    assert done.out == "日本\n".encode() + b"\xff"


@needs_sshd
def test_a_login_shell_that_has_another_status_for_what_is_not_there(box: Sshd) -> None:
    box.rc('case "$SSH_ORIGINAL_COMMAND" in "exec sh "*) ;; *) exit 1;; esac')  # as csh does
    know_pythons({box.host: "no-such-python"})
    try:
        assert said(box.host, "echo there") == "there\n"
    finally:
        know_pythons({})


@needs_sshd
def test_a_script_whose_begin_was_lost_may_have_run(box: Sshd, tmp_path: Path) -> None:
    know_pythons({box.host: "no-such-python"})
    try:
        said(box.host, ":")
        box.rc(f"exec >{tmp_path}/out 2>{tmp_path}/err")

        def cut_when_it_runs() -> None:
            until((tmp_path / "run").exists)
            box.signal(signal.SIGKILL)

        cut = threading.Thread(target=cut_when_it_runs)
        cut.start()
        lost = failure(box.host, f"touch {tmp_path}/run; sleep 5")
        cut.join()
        assert lost.sent
    finally:
        know_pythons({})
    box.stop()
    assert not failure(f"{box.host}-gone").sent


@needs_sshd
def test_a_script_outlives_its_deadline(box: Sshd, tmp_path: Path) -> None:
    said(box.host, ":")
    assert failure(box.host, f"sleep 0.6; touch {tmp_path}/end", deadline=0.3).sent
    until(lambda: (tmp_path / "end").exists())


@needs_sshd
def test_a_slow_and_noisy_rc_file_is_paid_once_and_many_at_once_log_in_once(box: Sshd) -> None:
    box.rc("echo 'welcome!'; echo 'careful' >&2; printf 'no newline'; sleep 0.2")
    assert [said(box.host, f"echo {n}") for n in range(20)] == [f"{n}\n" for n in range(20)]
    assert box.entered == 1  # each of the twenty would have slept
    with ThreadPoolExecutor(24) as pool:
        answers = pool.map(lambda n: said(box.host, f"sleep 0.05; echo {n}"), range(48))
    assert list(answers) == [f"{n}\n" for n in range(48)]
    assert box.entered == 1
    assert box.logins == 1


@needs_sshd
def test_a_link_that_breaks_is_no_answer_and_the_next_question_has_one(box: Sshd) -> None:
    assert said(box.host, "echo before") == "before\n"
    cut = threading.Timer(0.3, lambda: box.signal(signal.SIGKILL))
    cut.start()
    begun = time.monotonic()
    lost = failure(box.host, "echo begun; sleep 15; exit 255")
    assert time.monotonic() - begun < 10.0
    assert (lost.kind, lost.sent) == (ErrorKind.REFUSED, True)
    assert "broke off" in str(lost)
    cut.join()
    assert said(box.host, "echo after") == "after\n"
    masters = [pid for pid, words in _running() if f"ssh: {_socket()}" in words]
    assert masters
    for pid in masters:
        os.kill(pid, signal.SIGKILL)
    until(lambda: bool((agent := link_to(box.host)._agent) and agent.ended))
    assert said(box.host, "echo healed") == "healed\n"


@needs_sshd
def test_a_stopped_server_is_a_timeout_and_is_asked_again(box: Sshd) -> None:
    assert said(box.host, "echo before") == "before\n"
    box.signal(signal.SIGSTOP)
    stopped = failure(box.host, deadline=0.5)
    assert (stopped.kind, stopped.sent) == (ErrorKind.TIMEOUT, True)
    assert str(stopped) == f"{box.host}: no answer within 0.5 s"
    box.signal(signal.SIGCONT)
    assert said(box.host, "echo after") == "after\n"


@needs_sshd
def test_a_login_that_takes_longer_than_one_question_goes_on_for_the_next(box: Sshd) -> None:
    box.rc("sleep 0.5")
    assert failure(box.host, deadline=0.1).kind is ErrorKind.TIMEOUT
    assert said(box.host, "echo there") == "there\n"
    assert box.entered == 1


@needs_sshd
def test_a_connection_that_the_user_shares_is_the_one_that_is_used(box: Sshd) -> None:
    box.configure(f"ControlPath {_socket()}/own-%C")
    open_by_hand = ["ssh", "-M", "-N", "-f", box.host]
    subprocess.run(open_by_hand, check=True, stderr=subprocess.DEVNULL)
    (box.root / "key").unlink()  # nothing else can log in now
    assert said(box.host, "echo riding") == "riding\n"
    assert box.logins == 1


@needs_sshd
def test_why_a_host_gives_no_shell_is_said_with_what_to_do(box: Sshd) -> None:
    host = f"{box.host}-unknown"
    box.configure(f"Host {host}\n  UserKnownHostsFile /dev/null\nHost *")
    unknown = failure(host)
    assert (unknown.kind, unknown.sent) == (ErrorKind.UNAUTHORIZED, False)
    assert "ost key verification failed" in str(unknown) or "ost key is known" in str(unknown)
    host = f"{box.host}-locked"
    box.configure(f"Host {host}\n  User nobody-of-this-name\nHost *")
    know_remedies({host: "clifton auth"})
    locked = failure(host)
    assert locked.kind is ErrorKind.UNAUTHORIZED
    assert "Permission denied (publickey" in str(locked)
    assert str(locked).endswith("; clifton auth")
    know_remedies({})
    assert f"'ssh {host}' must work" in str(failure(host))
    box.stop()
    gone = failure(f"{box.host}-gone")
    assert gone.kind is ErrorKind.REFUSED
    assert "Connection refused" in str(gone)
    bad = f"{box.host}-bad"
    box.configure("NoSuchOption yes")
    assert failure(bad).kind is ErrorKind.BAD_ANSWER


@needs_sshd
def test_a_name_that_nobody_resolves(box: Sshd) -> None:
    assert failure("no-such-host.invalid").kind is ErrorKind.DNS


@pytest.mark.parametrize(
    "host", ["-oProxyCommand=id", "", "a b", "a\nb", "$(id)", "a;b", "x" * 300]
)
def test_what_is_no_name_is_never_given_to_ssh(host: str) -> None:
    error = failure(host)
    assert (error.kind, error.sent) == (ErrorKind.NOT_FOUND, False)
    assert "\n" not in str(error)


def test_no_word_of_a_shell_holds_a_nul() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quote("a\0b")
    with pytest.raises(ValueError, match="NUL"):
        run_script_blocking(None, "echo \0", deadline=5.0)


def test_no_ssh_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    error = failure("some-host")
    assert error.kind is ErrorKind.NOT_FOUND
    assert "not installed" in str(error)


SAID = {
    "ssh: connect to host gpu port 22: Connection refused": ErrorKind.REFUSED,
    "ssh: connect to host gpu port 22: Connection timed out": ErrorKind.TIMEOUT,
    "Connection timed out during banner exchange": ErrorKind.TIMEOUT,
    "Timeout, server gpu not responding.": ErrorKind.TIMEOUT,
    "kex_exchange_identification: Connection closed by remote host": ErrorKind.REFUSED,
    "client_loop: send disconnect: Broken pipe": ErrorKind.REFUSED,
    "ssh: Could not resolve hostname gpu: Name or service not known": ErrorKind.DNS,
    "Host key verification failed.": ErrorKind.UNAUTHORIZED,
    "@@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key for gpu has changed and "
    "you have requested strict checking.\nHost key verification failed.": ErrorKind.UNAUTHORIZED,
    "ada@gpu: Permission denied (publickey,keyboard-interactive).": ErrorKind.UNAUTHORIZED,
    "Unable to negotiate with 1.2.3.4 port 22: no matching host key type found": ErrorKind.TLS,
    "Bad owner or permissions on /home/ada/.ssh/config": ErrorKind.PERMISSION,
    "This account is currently not available.": ErrorKind.FORBIDDEN,
    "": ErrorKind.REFUSED,
    "\x1b[2Jpassword=hunter2hunter2\r\nnobody knows these words": ErrorKind.REFUSED,
}  # fmt: skip


@pytest.mark.parametrize("words", SAID)
def test_what_ssh_says_is_told_as_it_is_in_one_safe_line(words: str) -> None:
    error = refusal("gpu", words.encode())
    assert error.kind is SAID[words]
    text = str(error)
    assert text.startswith("gpu: ")
    assert text.isprintable()
    assert "hunter2" not in text


def test_a_changed_host_key_is_told_before_the_verification_that_fails_for_it() -> None:
    words = next(each for each in SAID if "CHANGED" in each)
    assert "has changed" in str(refusal("gpu", words.encode()))


def test_what_keeps_ssh_from_asking_and_notices_a_dead_link_is_added_to_the_user_s_own() -> None:
    plain = "serveraliveinterval 0\nserveralivecountmax 3\nconnecttimeout none\n"
    options = " ".join(ssh._options("gpu", plain))
    for added in ("BatchMode=yes", "ServerAliveInterval=3", "ConnectTimeout=8", "-S "):
        assert added in options
    own = "serveraliveinterval 2\nserveralivecountmax 3\nconnecttimeout 4\ncontrolpath /x/%C\n"
    options = " ".join(ssh._options("gpu", own + "controlpersist 60\n"))
    for left in ("ServerAlive", "ConnectTimeout", "-S ", "ControlPersist"):
        assert left not in options


def test_a_socket_has_a_short_path_wherever_the_machine_s_folder_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    path = ssh.socket_path("gpu", "port 22\n")
    assert len(path) + 17 < 104
    assert Path(path).parent.stat().st_mode & 0o777 == 0o700
    assert ssh.socket_path("gpu", "port 23\n") != path


def _socket() -> str:
    return os.environ["XDG_RUNTIME_DIR"]


def _running() -> list[tuple[int, str]]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append((int(path.parent.name), path.read_text(errors="replace")))
        except OSError:
            continue
    return found


SHELLS = [shell for shell in ("dash", "bash", "busybox", "ksh") if shutil.which(shell)]


def ran(shell: str, script: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    argv = [shell, "sh", "-c", script] if shell == "busybox" else [shell, "-c", script]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=20.0)


@pytest.mark.parametrize("shell", SHELLS)
class TestLimited:
    def test_a_commands_status_output_and_input_are_its_own(self, shell: str) -> None:
        done = ran(
            shell, f"{LIMITED}limited 5 sh -c 'cat; echo no >&2; exit 3'; echo $?", "given\n"
        )
        assert (done.stdout, done.stderr) == ("given\n3\n", "no\n")

    def test_in_the_middle_of_a_pipe(self, shell: str) -> None:
        done = ran(shell, f"{LIMITED}echo a | limited 5 tr a b | {{ read x; echo $x; }}")
        assert done.stdout == "b\n"

    def test_what_was_said_is_had_at_once(self, shell: str) -> None:
        script = f'{LIMITED}s=$(limited 9 sh -c "echo out; echo err >&2" 2>&1); echo "$s"'
        assert ran(shell, script).stdout == "out\nerr\n"  # else ran() gives up, or waits 9 s

    def test_one_that_hangs_is_ended_with_all_that_it_started(
        self, shell: str, tmp_path: Path
    ) -> None:
        os.mkfifo(tmp_path / "pipe")
        hangs = f"sh -c 'cat {tmp_path}/pipe; :'"
        done = ran(shell, f"{LIMITED}s=$(limited 0.3 {hangs} 2>/dev/null); echo $?; echo on")
        assert done.stdout == f"{TIMED_OUT}\non\n"
        left = ["pgrep", "-f", f"cat {tmp_path}/pipe"]
        assert subprocess.run(left, capture_output=True, text=True).stdout == ""
