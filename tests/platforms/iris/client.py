"""A stand-in for the ``iris`` command: submits as it does, says what it says, and fails as told.

``ODDLY`` in the environment: ``before`` and ``after`` (it hangs before or after its request),
``twice`` (it repeats a request whose answer it lost), ``usage``, ``refused``, ``june`` (the id on
standard error alone).
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

url = sys.argv[sys.argv.index("--controller-url") + 1]
own, job = sys.argv[: sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
oddly = os.environ.get("ODDLY", "")


def option(name: str) -> str:
    return own[own.index(name) + 1]


def launch() -> str:
    variables = {own[i + 1]: own[i + 2] for i, word in enumerate(own) if word == "-e"}
    body = {
        "name": f"/{option('--user')}/{option('--job-name')}",
        "entrypoint": {"runCommand": {"argv": job}},
        "environment": {"envVars": {**variables, "PWD_OF_CLIENT": str(Path.cwd())}},
    }
    address = f"{url}/iris.cluster.ControllerService/LaunchJob"
    head = {"content-type": "application/json"}
    request = urllib.request.Request(address, json.dumps(body).encode(), head)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            found: str = json.loads(answer.read())["jobId"]
            return found
    except urllib.error.HTTPError as error:
        said = json.loads(error.read())["message"]
        sys.exit(f"Traceback (most recent call last):\niris.client.JobAlreadyExists: {said}")


if oddly == "usage":
    print(
        "Usage: iris job run [OPTIONS] CMD...\n\nError: No such option: --no-wate", file=sys.stderr
    )
    sys.exit(2)
if oddly == "refused":
    sys.exit("connectrpc.errors.ConnectError: marin-iris client is too old, token=hunter2hunter2")
if oddly == "before":
    time.sleep(600)
name = launch()
if oddly == "twice":
    launch()
if oddly == "after":
    time.sleep(600)
print(f"I20261121 07:40:13 1400 iris.cli.job Job submitted: {name}", file=sys.stderr)
print("/usr/lib/python3/notes" if oddly == "june" else name)
