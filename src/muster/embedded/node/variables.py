"""Carries a container's environment through the shells that start its command, exactly as it was stated.

A shell keeps only variables whose names are identifiers, and changes some by itself (`PWD`, `IFS`, …); its
script has variables of its own. Kubernetes permits any printable name without `=`: the keys of a ConfigMap
become `optim.lr` and `batch-size`. Such variables travel as values of names that a shell leaves alone, and a
Python process gives them their own names before it becomes the command. `env` could do that faster, but has
values in its arguments, which other users of the machine can read; a value may be a Secret's.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Final

#: Linux's limit of one "NAME=value" or one argument, in bytes (MAX_ARG_STRLEN, without the final NUL).
LONGEST: Final = 32 * 4096 - 1
_CARRIER: Final = "MUSTER_CARRIED_"
#: Scripts of muster have variables in lower case.
_PLAIN: Final = re.compile(r"[A-Z][A-Z0-9_]*")
#: What one of the usual shells sets, resets, or obeys at its start.
_OF_SHELL: Final = re.compile(
    r"PWD|OLDPWD|IFS|OPT(IND|ARG|ERR)|PPID|PS[0-9]|LINENO|SHLVL|E?UID|GROUPS|RANDOM|SRANDOM|SECONDS|"
    r"EPOCH(SECONDS|REALTIME)|DIRSTACK|FUNCNAME|PIPESTATUS|POSIXLY_CORRECT|(HOST|OS|MACH)TYPE|SHELL|TERM|"
    rf"SHELLOPTS|ENV|BASH.*|COMP_WORDBREAKS|HISTCMD|{_CARRIER}.*"
)


#: Arguments: how many variables are carried, variables that Python itself may have added, the command.
_RESTORE: Final = """
import os, signal, sys
count, added, *argv = map(os.fsencode, sys.argv[1:])
env = {**os.environb}
for name in added.split():
    env.pop(name, None)
for number in range(int(count)):
    name, _, value = env.pop(b"CARRIER%d" % number).partition(b"=")
    env[name] = value
for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
    signal.signal(number, signal.SIG_DFL)
try:
    os.execvpe(argv[0], argv, env)
except OSError as error:
    print(f"{sys.argv[3]}: {error.strerror}", file=sys.stderr)
    sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
""".replace("CARRIER", _CARRIER)


def carry(env: Mapping[str, str], argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The environment for a shell, and the command that restores `env` exactly before it becomes `argv`."""
    odd = [name for name in env if not _PLAIN.fullmatch(name) or _OF_SHELL.fullmatch(name)]
    if not odd:
        return dict(env), list(argv)
    carriers = {f"{_CARRIER}{number}": f"{name}={env[name]}" for number, name in enumerate(odd)}
    kept = {name: value for name, value in env.items() if name not in odd}
    added = "" if "LC_CTYPE" in env else "LC_CTYPE"  # PEP 538
    restore = [sys.executable, "-ISc", _RESTORE, str(len(odd)), added, *argv]
    return kept | carriers, restore


def too_long(env: Mapping[str, str], argv: Sequence[str]) -> str:
    """Which variable or argument is longer than Linux permits; "" if none is."""
    carried, _ = carry(env, ())
    for name, value in carried.items():
        if (size := len(os.fsencode(f"{name}={value}"))) > LONGEST:
            stated = value.partition("=")[0] if name.startswith(_CARRIER) else name
            return f"environment variable {stated} is too long: {_limit(size)}"
    for number, word in enumerate(argv):
        if (size := len(os.fsencode(word))) > LONGEST:
            return f"word {number + 1} of the command is too long: {_limit(size)}"
    return ""


def _limit(size: int) -> str:
    return f"{size:,} bytes, and Linux permits {LONGEST:,}; mount it as a file (a ConfigMap volume) instead"
