#!/usr/bin/env python3
"""mutants.py SEED COUNT [PART]: changes functions one at a time, and says which tests fail then.

The functions are those that are proven end to end: the adapters, the outputs, the xDS server, and what reads from and
writes to a cluster. cargo-mutants lists the changes; of each part, some are taken in a random order. A change that
tests without an Envoy find is passed over. Any other is tried by the part of `make test` for it and, if all of that
passes, by what `make test` leaves out. PART is in the path of the sources that are meant, all of them by default.
Exits with 1 if a change failed no test.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

VERSION = "27.1.0"
ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "mutants"
TREE, LOGS = TARGET / "tree", TARGET / "logs"
ENVIRONMENT = {**os.environ, "CARGO_TARGET_DIR": str(TREE / "target")}
# The crates and features that the Makefile tests.
EVERYTHING = os.environ["EVERYTHING"].split()
# Seconds. A change may make a test wait for ever.
HOST, PART = 600, 2400

# Sources: what of `make test` is for them, and what is left out of it.
KUBE, KUBE_WASM = ["e2e-kube FILTER=module"], ["e2e-kube FILTER=wasm"]
SPECIFIER = "e2e FILTER=module SPLITS=specifier"
PARTS = {
    "filter/proxy-wasm/src": (
        ["e2e FILTER=wasm", "e2e-kube-wasm", "e2e-oldest"],
        ["e2e FILTER=wasm ENVOY_VERSION=1.36.4", *KUBE_WASM],
    ),
    "filter/dynamic-module/src": (["e2e FILTER=module", f"{SPECIFIER} TEST=split", *KUBE], [SPECIFIER]),
    "controller/outputs/src": (["e2e FILTER=module TEST=outputs::", *KUBE], KUBE_WASM),
    "controller/xds/src": (KUBE, KUBE_WASM),
    "controller/src/cluster/reconcile": (KUBE, KUBE_WASM),
    "controller/src/cluster/kube": (KUBE, KUBE_WASM),
}


def listed(wanted):
    """The changes that cargo-mutants knows, by part."""
    parts = [part for part in PARTS if wanted in part]
    if not parts:
        sys.exit(f"expected a part of {', '.join(PARTS)}, found {wanted}")
    tool = shutil.which("cargo-mutants") or str(ROOT / ".tools/bin/cargo-mutants")
    if not Path(tool).exists():
        print(f"Building cargo-mutants {VERSION} into .tools (2 minutes, once)", flush=True)
        install = ["cargo", "install", "--locked", "--debug", "--root", ".tools", f"cargo-mutants@{VERSION}"]
        subprocess.run(install, cwd=ROOT, check=True)
    files = [word for part in parts for word in ("-f", f"{part}/**")]
    command = [tool, "mutants", "--list", "--json", "--diff", *files]
    changes = json.loads(subprocess.run(command, cwd=TREE, check=True, stdout=subprocess.PIPE).stdout)
    return {part: [change for change in changes if change["file"].startswith(f"{part}/")] for part in parts}


def checkout():
    """A tree of the last commit, with the tools of this one."""
    TREE.mkdir(parents=True, exist_ok=True)
    LOGS.mkdir(exist_ok=True)
    for command in ("init -q", f"fetch -q --depth=1 {ROOT} HEAD", "checkout -qf FETCH_HEAD"):
        subprocess.run(["git", *command.split()], cwd=TREE, check=True)
    if not (TREE / ".tools").exists():
        (TREE / ".tools").symlink_to(ROOT / ".tools")


def failure(command, log, seconds, folder=TREE):
    """The first test that fails, which ends the command, or why it fails otherwise; None if it succeeds in time."""
    options = {"cwd": folder, "env": ENVIRONMENT, "stdout": subprocess.PIPE, "stderr": log, "start_new_session": True}
    with subprocess.Popen(command, **options) as process:
        late = threading.Timer(seconds, os.killpg, (process.pid, signal.SIGTERM))
        late.start()
        failed = None
        for line in process.stdout:
            log.write(line)
            if found := re.match(rb"test (\S+)( - should panic)? \.\.\. FAILED", line):
                failed = found[1].decode()
                os.killpg(process.pid, signal.SIGTERM)
                break
        late.cancel()
        process.stdout.close()
        return failed or ("no test by name" if process.wait() else None)


def host_tests_pass(change, log):
    """Whether it compiles, and tests without an Envoy of its crate and, of a controller's, of the command pass."""
    command = ["cargo", "test", "--locked", *EVERYTHING, "--no-run", "--message-format", "json"]
    built = subprocess.run(command, cwd=TREE, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=log, check=False)
    if built.returncode:
        return False
    own = change["file"].split("/src/")[0]
    crates = {TREE / own, TREE / "controller"} if own.startswith("controller") else {TREE / own}
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith(b"{")]
    tests = [message for message in messages if message.get("executable") and message["profile"]["test"]]
    return not any(
        failure([test["executable"]], log, HOST, Path(test["manifest_path"]).parent)
        for test in tests
        if Path(test["manifest_path"]).parent in crates
    )


def found_by(part, log):
    """The first command that fails, and its test."""
    usual, left_out = PARTS[part]
    for command in [*usual, *left_out]:
        if test := failure(["make", *command.split()], log, PART):
            return f"{command}: {test}" if command in usual else f"left out of make test: {command}: {test}"
    return None


def main(seed, count, wanted=""):
    """Tries `count` changes, as many of each part, and prints a line for each."""
    order, tried, missed = random.Random(int(seed)), 0, 0
    checkout()
    by_part = listed(wanted)
    for part, changes in by_part.items():
        order.shuffle(changes)
        left = int(count) // len(by_part)
        for number, change in enumerate(changes):
            if not left:
                break
            subprocess.run(["git", "checkout", "-qf", "."], cwd=TREE, check=True)
            with open(LOGS / f"{part.replace('/', '-')}-{number}.log", "wb") as log:
                log.write(f"{change['name']}\n{change['diff']}\n".encode())
                log.flush()
                patch = ["patch", "-s", change["file"]]
                subprocess.run(patch, cwd=TREE, input=change["diff"].encode(), check=True)
                if host_tests_pass(change, log):
                    by = found_by(part, log)
                    print(f"{by or 'NOTHING'}: {change['name']}", flush=True)
                    left, tried, missed = left - 1, tried + 1, missed + (by is None)
    print(f"{tried} changes, {missed} that failed no test; what was run: {LOGS}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
