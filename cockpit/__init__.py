"""A terminal cockpit for babysitting expensive ML training runs."""

__version__ = "0.2.0"


def version_text() -> str:
    """Return the version, and the commit where it is known: that of the build, or of the clone."""
    from pathlib import Path

    folder = Path(__file__).parent
    built, commit = folder / "COMMIT", ""
    if built.is_file():
        commit = built.read_text().strip()
    elif (folder.parent / ".git").exists():
        import subprocess

        words = ("git", "-c", "core.fsmonitor=", "rev-parse", "--short=12", "HEAD")
        try:
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=2)
            commit = done.stdout.strip()
        except (OSError, subprocess.TimeoutExpired):
            commit = ""
    return f"cockpit {__version__}" + (f" ({commit})" if commit else "")
