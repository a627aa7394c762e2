"""Carries a container's environment through the shells that start its command, exactly as it was stated.

A shell keeps only variables whose names are identifiers, and changes some by itself (`PWD`, `IFS`, …); its
script has variables of its own. Kubernetes permits any printable name without `=`: the keys of a ConfigMap
become `optim.lr` and `batch-size`. Such variables travel as values of names that a shell leaves alone, and
`env` gives them their own names as the last step. Their values are in the arguments of `env` only until it
becomes the command.
"""

import os
import re
import shutil
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


def carry(env: Mapping[str, str], argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The environment for a shell, and the command that restores `env` exactly before it becomes `argv`."""
    odd = [name for name in env if not _PLAIN.fullmatch(name) or _OF_SHELL.fullmatch(name)]
    if not odd:
        return dict(env), list(argv)
    carriers = {f"{_CARRIER}{number}": f"{name}={env[name]}" for number, name in enumerate(odd)}
    unset = " ".join(f"-u {carrier}" for carrier in carriers)
    values = " ".join(f'"${carrier}"' for carrier in carriers)
    # `nice`: `env` would take a command with "=" in its path for one more variable
    script = f'exec {_tool("env")} {unset} -- {values} {_tool("nice")} -n 0 "$@"'
    kept = {name: value for name, value in env.items() if name not in odd}
    return kept | carriers, ["/bin/sh", "-c", script, "sh", *argv]


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


def _tool(name: str) -> str:
    return shutil.which(name) or f"/usr/bin/{name}"
