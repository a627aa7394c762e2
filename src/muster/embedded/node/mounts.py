"""Volumes in a container's mount namespace, as lines of the wrapper script.

A bind mount needs a mount point, and a path such as `mountPath: /data` seldom exists. To create it on the
machine would litter the machine (and users other than root may not do so). The directory that lacks the mount
point is therefore *mirrored* in the container: a tmpfs in which each of the directory's entries is bound, and
the mount point is new. Mirroring `/` ends with a pivot_root. Directories below the working directory, the
home and /tmp are not mirrored, because a mirror hides files that are created in the directory later; there
the mount point is really created.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec


class Bind(msgspec.Struct, frozen=True):
    """A bind mount: one container sees `source` at `target`."""

    source: str
    target: str
    read_only: bool = False


#: Shell functions that the lines below use; `$stage` is an empty directory.
FUNCTIONS = r"""
mirror() {
  mount -n -t tmpfs -o mode=755 muster "$stage" || return 1
  for entry in "${1%/}"/* "${1%/}"/.[!.]*; do
    copy="$stage/${entry##*/}"
    if [ -L "$entry" ]; then cp -P "$entry" "$copy"
    elif [ -d "$entry" ]; then mkdir "$copy" && mount -n --rbind "$entry" "$copy"
    elif [ -e "$entry" ]; then true >"$copy" && mount -n --bind "$entry" "$copy"
    fi || return 1
  done
  if [ "$1" != / ]; then mount -n --move "$stage" "$1"; return; fi
  mkdir "$stage/.muster-old" && cd "$stage" && pivot_root . .muster-old && cd / &&
  umount -n -l /.muster-old && rmdir /.muster-old
}
"""


def steps(binds: Sequence[Bind], own: Sequence[str]) -> list[str]:
    """Shell commands that carry out `binds`, to be joined by &&; `own` are directories not to mirror."""
    there = [bind for bind in binds if os.path.exists(bind.target)]
    absent = sorted((bind for bind in binds if not os.path.exists(bind.target)), key=lambda b: b.target)
    lines = [line for bind in there for line in _bind(bind)]
    # `/` last: its mirror includes what is mounted by then
    parents = {bind.target: _existing(bind.target) for bind in absent}
    for parent in sorted(set(parents.values()), reverse=True):
        if parent == "/" or not any(_within(parent, directory) for directory in own):
            lines.append(f"mirror {shlex.quote(parent)}")
        for bind in absent:
            if parents[bind.target] == parent:
                lines += [_mount_point(bind), *_bind(bind)]
    return lines


def _bind(bind: Bind) -> list[str]:
    source, target = shlex.quote(bind.source), shlex.quote(bind.target)
    lines = [f"mount -n --rbind {source} {target}"]
    if bind.read_only:
        lines.append(f"mount -n -o remount,bind,ro{_locked_flags(bind.source)} {target}")
    return lines


def _locked_flags(source: str) -> str:
    """Flags of the file system that a remount in a user namespace must repeat."""
    flags = os.statvfs(source).f_flag
    named = [(os.ST_NOSUID, "nosuid"), (os.ST_NODEV, "nodev"), (os.ST_NOEXEC, "noexec")]
    named += [(os.ST_NOATIME, "noatime"), (os.ST_NODIRATIME, "nodiratime"), (os.ST_RELATIME, "relatime")]
    return "".join(f",{name}" for flag, name in named if flags & flag)


def _mount_point(bind: Bind) -> str:
    target = shlex.quote(bind.target)
    if os.path.isdir(bind.source):
        return f"mkdir -p {target}"
    return f"mkdir -p {shlex.quote(os.path.dirname(bind.target))} && true >{target}"


def _existing(path: str) -> str:
    """The nearest directory above `path` that exists."""
    return next(str(parent) for parent in Path(path).parents if parent.is_dir())


def _within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
