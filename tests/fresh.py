"""Runs the README's commands, as they stand there, on a fresh Debian 12: `make fresh`, as root.

A pristine root (mmdebstrap's `minbase`, kept as a tarball in build/fresh) is unpacked in memory, of which all
takes about 4 GB, and entered with namespaces of its own. In it the README's `apt-get` line and its block with
`make speak` run, on a clone of the committed HEAD; it speaks on every path of the CPU, with an empty cache
each time. Of this machine it sees the network and how packages are got: apt's configuration, pip's (files and
PIP_* variables, with the folders that they name), proxies and certificates; no virtual environment, no home,
no cache, no device. SIGINT stays ignored inside where this program was started so, as in a shell's background
job.

Mounts, files and processes of the inside end with this program, however that ends, because they live in its
namespaces; of this machine, build/fresh alone is written. It is no pytest, since it needs root and minutes.
"""

from __future__ import annotations

import argparse
import configparser
import ctypes
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from talkahead.cpu_path import cpu_paths

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "fresh"
LOGS = WORK / "logs"
MEMORY = WORK / "memory"
SUITE = "bookworm"
SHOWN = Path("/host")
"""Where the inside sees the folders that pip's settings name, and the repository."""
REPOSITORY = SHOWN / "talkahead.git"
HOME = Path("/root")
CACHE = HOME / ".cache" / "talkahead"
LAST_LINES = 6
FAILED_LINES = 30

_INSTALL = re.compile(r"`(apt-get [^`]+)`")
_BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CLONED_TO = re.compile(r"&& cd (\S+)")
_WRITING = ("cache_dir", "config_file", "log", "prefix", "python", "root", "src", "target", "user")
"""pip's settings that say where something is written, or by which Python; they are this machine's own."""
_PASSED_ON = re.compile(
    r"(?i:(?:https?|ftp|all|no)_proxy)|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|GIT_SSL_CAINFO|TORCH_INDEX"
)
_APT_NAMES = re.compile(r"(?i:signed-by[:=]\s*|(?:file|copy):(?://)?|Acquire::https\S* \")(/[^\s\],\"]+)")
"""Keyrings, repositories on this machine's disk, and certificates."""

_NEW_MOUNTS = 0x20000
"""CLONE_NEWNS of unshare(2)."""
_NAMESPACES = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"),
)
"""Kill what follows, and all that it started, when this program is gone."""
_ENTER = """
root=$1 ignored=$2 folder=$3 command=$4; shift 4
mount -t proc proc "$root/proc"
mount -o bind,ro /proc/sys "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"; ln -s /proc/self/fd "$root/dev/fd"
while [ $# -gt 0 ]; do
    mkdir -p "$root${2%/*}"
    if [ -d "$1" ]; then mkdir -p "$root$2"; else touch "$root$2"; fi
    mount -o bind,ro "$1" "$root$2"; shift 2
done
# Not exec: the first process of a machine takes care of orphans, which bash does.
status=0; chroot "$root" env $ignored --chdir="$folder" bash -c "$command" || status=$?
exit $status
"""


class FreshError(Exception):
    """This machine cannot make a fresh one; the message says why."""


@dataclass(frozen=True)
class Step:
    """A command of the README."""

    name: str
    command: str


def steps_of(readme: str) -> list[Step]:
    """The line that installs packages, then those of the block in which a sentence is spoken."""
    install = _INSTALL.search(readme)
    block = next((block for block in _BLOCK.findall(readme) if "make speak" in block), None)
    if install is None or block is None:
        raise FreshError("the README has no `apt-get` line, or no block of commands with make speak")
    lines = [line for line in block.splitlines() if line.strip()]
    return [Step("apt", install[1]), *(Step(line.split()[1], line) for line in lines)]


def on_every_path(steps: Sequence[Step], paths: Sequence[str]) -> list[Step]:
    """Speaks anew, compiling, on each of the CPU's paths but the widest, which `speak` takes."""
    spoken = next(step for step in steps if step.name == "speak")
    more = [
        Step(f"speak-{path}", f"rm -rf {CACHE} && TALKAHEAD_CPU={path} {spoken.command}")
        for path in paths[-2::-1]
    ]
    place = steps.index(spoken) + 1
    return [*steps[:place], *more, *steps[place:]]


class Settings:
    """How this machine gets packages: variables, and the places that they name, to be seen from inside."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._shown: set[Path] = set()
        self.variables = {
            name: " ".join(self._seen(part, "INDEX" in name) for part in value.split())
            for name, value in variables.items()
        }
        """With the places where the inside sees them."""

    def _seen(self, part: str, is_index: bool) -> str:
        scheme, path = ("file://", part[7:]) if part.startswith("file:///") else ("", part)
        if not path.startswith("/") or not Path(path).exists():
            return part
        # The pages of an index lead to files beside it.
        self._shown.add(Path(path).parent if is_index else Path(path))
        return f"{scheme}{SHOWN}{path}"

    def mounts(self) -> dict[Path, Path]:
        """Without what lies in a folder that is shown as well."""
        outer = {place for place in self._shown if not self._shown.intersection(place.parents)}
        return {place: SHOWN / place.relative_to("/") for place in sorted(outer)}


def package_settings(environment: Mapping[str, str]) -> Settings:
    """pip's, whichever file or variable they come from, and those of proxies and certificates."""
    pip: dict[str, str] = {}
    for file in _pip_files(environment):
        parser = configparser.RawConfigParser()
        parser.read(file)
        for section in ("global", "install"):
            pip.update(parser[section] if parser.has_section(section) else {})
    pip.update({name[4:].lower(): value for name, value in environment.items() if name.startswith("PIP_")})
    named = {name.replace("-", "_"): value for name, value in pip.items()}
    return Settings(
        {name: value for name, value in environment.items() if _PASSED_ON.fullmatch(name)}
        | {f"PIP_{name.upper()}": value for name, value in named.items() if name not in _WRITING}
    )


def _pip_files(environment: Mapping[str, str]) -> list[str]:
    """Those that pip reads, the last one wins."""
    own = environment.get("PIP_CONFIG_FILE")
    if own == os.devnull:
        return []
    home = environment.get("HOME", "/")
    folders = environment.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    user = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    places = [
        *(f"{folder}/pip" for folder in reversed(folders.split(":"))),
        "/etc",
        f"{home}/.pip",
        f"{user}/pip",
    ]
    return [*(f"{place}/pip.conf" for place in places), *([own] if own else [])]


@dataclass(frozen=True)
class Apt:
    """How this machine gets Debian's packages."""

    sources: tuple[Path, ...]
    acquire: str
    """Settings of the acquisition, as apt.conf has them."""

    @classmethod
    def of_this_machine(cls) -> Apt:
        folder = Path("/etc/apt")
        listed = (folder / "sources.list", *sorted((folder / "sources.list.d").glob("*")))
        sources = (path for path in listed if path.suffix in (".list", ".sources") and path.is_file())
        dump = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout
        acquire = [line for line in dump.splitlines() if line.startswith("Acquire::")]
        return cls(tuple(sources), "\n".join(acquire) + "\n")

    def mounts(self, root: Path) -> dict[Path, Path]:
        """apt's folder, and what its files name that the root lacks."""
        texts = (*(path.read_text() for path in self.sources), self.acquire)
        named = {Path(name) for text in texts for name in _APT_NAMES.findall(text)}
        missing = (path for path in named if path.exists() and not (root / path.relative_to("/")).exists())
        return {path: path for path in (Path("/etc/apt"), *sorted(missing))}


class FreshMachine:
    """An unpacked root and what it is shown; `run` runs a command in it."""

    def __init__(self, settings: Settings, ignores_interrupts: bool) -> None:
        self._root = MEMORY / "root"
        self._settings = settings
        self._ignored = "--ignore-signal=INT" if ignores_interrupts else "--default-signal=INT"
        self._apt = Apt.of_this_machine()

    def unpack(self) -> None:
        self._root.mkdir()
        subprocess.run(["tar", "-xf", self._base(), "-C", self._root, "--numeric-owner"], check=True)
        for name in ("resolv.conf", "hosts"):
            shutil.copyfile(f"/etc/{name}", self._root / "etc" / name)

    def _base(self) -> Path:
        """The tarball of a pristine root, made where it is not kept from an earlier run."""
        make = ["mmdebstrap", "--variant=minbase", "--mode=root"]
        texts = [*make, self._apt.acquire, *(path.read_text() for path in self._apt.sources)]
        base = WORK / f"base-{hashlib.sha256(chr(0).join(texts).encode()).hexdigest()[:12]}.tar"
        if base.exists():
            days = (time.time() - base.stat().st_mtime) / 86_400
            print(f"pristine {SUITE}: kept from {days:.1f} days ago (make clean removes it)", flush=True)
            return base
        began, part, log = time.monotonic(), base.with_suffix(".part.tar"), LOGS / "mmdebstrap.log"
        (MEMORY / "acquire.conf").write_text(self._apt.acquire)
        make += [f"--aptopt={MEMORY}/acquire.conf", SUITE, str(part), *map(str, self._apt.sources)]
        if _run(["--mount-proc", *make], {**os.environ, "TMPDIR": str(MEMORY)}, log):
            raise FreshError("mmdebstrap failed:\n" + _tail(log, FAILED_LINES))
        part.replace(base)
        print(f"pristine {SUITE}: made in {time.monotonic() - began:.0f} s", flush=True)
        return base

    def run(self, command: str, folder: Path, log: Path) -> int:
        """The command's exit status; what it prints goes to `log`."""
        mounts = {
            **self._apt.mounts(self._root),
            **self._settings.mounts(),
            MEMORY / REPOSITORY.name: REPOSITORY,
        }
        pairs = [str(place) for pair in mounts.items() for place in pair]
        environment = {
            "HOME": str(HOME),
            "LANG": "C.UTF-8",  # programs print as they do on most machines
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            **self._settings.variables,
        }
        enter = ["bash", "-euc", _ENTER, "enter", str(self._root), self._ignored, str(folder), command]
        return _run([*enter, *pairs], environment, log)


def _run(command: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
    """The exit status of a command in namespaces of its own, whose processes all end with it."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*_NAMESPACES, *command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C reaches this program alone, which ends the others.
            start_new_session=True,
        )
        try:
            return process.wait()
        finally:
            if process.poll() is None:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the first process of the namespace; it is gone when all others in there are."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in map(int, children or [str(process.pid)]):
        os.kill(pid, signal.SIGKILL)
    process.wait()


def _tail(log: Path, lines: int) -> str:
    return "\n".join(f"  | {line}" for line in log.read_text(errors="replace").splitlines()[-lines:])


def _refuse_other_machines() -> None:
    if os.geteuid() != 0:
        raise FreshError("namespaces and mounts need root: sudo make fresh")
    if shutil.which("mmdebstrap") is None:
        raise FreshError("mmdebstrap is missing: apt-get install mmdebstrap")
    if f"VERSION_CODENAME={SUITE}" not in Path("/etc/os-release").read_text().splitlines():
        raise FreshError(f"it takes its sources of packages from this machine, which is not Debian {SUITE}")


@contextmanager
def _memory() -> Iterator[None]:
    """A folder in memory that this program and its children alone see, for one such program at a time."""
    MEMORY.mkdir(parents=True, exist_ok=True)
    LOGS.mkdir(exist_ok=True)
    with (WORK / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FreshError("another make fresh is at work here") from None
        if ctypes.CDLL(None).unshare(_NEW_MOUNTS):
            raise FreshError("this machine refuses a namespace for mounts, as some containers do")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755,size=90%", "tmpfs", MEMORY], check=True)
        yield


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise FreshError(done.stderr.strip())
    return done.stdout


def _copy_head() -> None:
    """HEAD alone, so that the inside sees nothing else of this repository."""
    _git("clone", "--quiet", "--bare", "--depth", "1", f"file://{ROOT}", str(MEMORY / REPOSITORY.name))
    print(_git("log", "-1", "--format=HEAD is %h: %s").strip(), flush=True)
    if changed := _git("status", "--short").splitlines():
        print(f"not in it, for want of a commit: {len(changed)} files", flush=True)


def run_steps(steps: Sequence[Step], machine: FreshMachine) -> int:
    """Runs them all, whatever fails; 1 if anything did."""
    failed, folder = [], HOME
    for step in steps:
        print(f"\n$ {step.command}", flush=True)
        began, log = time.monotonic(), LOGS / f"{step.name}.log"
        status = machine.run(step.command.replace("ADDRESS", f"file://{REPOSITORY}"), folder, log)
        took = f"{time.monotonic() - began:.0f} s"
        print(_tail(log, FAILED_LINES if status else LAST_LINES))
        print(f"FAILED with status {status} after {took}" if status else f"passed in {took}", flush=True)
        if status:
            failed.append(step.name)
        elif moved := _CLONED_TO.search(step.command):
            folder = HOME / moved[1]
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall passed", f"(logs in {LOGS})", flush=True)
    return 1 if failed else 0


def chosen(steps: Sequence[Step], names: Sequence[str]) -> list[Step]:
    """Those of these names, all without any; the clone comes with what runs in it."""
    known = list(dict.fromkeys(step.name.partition("-")[0] for step in steps))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise FreshError(f"{unknown[0]} is none of the README's commands: {', '.join(known)}")
    wanted = set(names or known)
    wanted |= {"clone"} if wanted - {"apt"} else set()
    return [step for step in steps if step.name.partition("-")[0] in wanted]


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def main() -> int:
    """The exit status: 1 where a command of the README failed, 2 where none could be tried."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("steps", nargs="*", metavar="STEP", help="apt, clone, speak or test; default: all")
    names = parser.parse_args().steps
    ignores_interrupts = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    try:
        _refuse_other_machines()
        steps = chosen(on_every_path(steps_of(_git("show", "HEAD:README.md")), cpu_paths()), names)
        settings = package_settings(os.environ)
        print("settings passed on:", " ".join(sorted(settings.variables)) or "none", flush=True)
        with _memory():
            _copy_head()
            machine = FreshMachine(settings, ignores_interrupts)
            machine.unpack()
            return run_steps(steps, machine)
    except FreshError as error:
        print(f"make fresh: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
