"""On what kind of file system a file lies: SQLite's log needs memory that all processes share, which a network lacks.

It reads Linux' table of mounts and nothing else; where there is none, every file system counts as local.
"""

import os
from pathlib import Path

MOUNTS = "/proc/self/mountinfo"

_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs"}
)
_CLUSTER = frozenset({"ocfs2", "gfs2", "ncpfs", "coda", "davfs"})
_HOST_OF_A_MACHINE = frozenset({"virtiofs", "vboxsf", "prl_fs", "drvfs"})
_LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.lxcfs"})


def remote_kind(path: Path, mounts: str | None = None) -> str | None:
    """Return the type of the file system if it may be shared over a network or by a user's program; None for a local.

    `mounts` is the text of a mountinfo (proc(5)): ids, device, root, mount point, options, `-`, type, source. The
    longest mount point that the path lies in counts, of equals the last, which hides the others.
    """
    if mounts is None:
        try:
            mounts = Path(MOUNTS).read_text("utf-8", "surrogateescape")
        except OSError:
            return None
    wanted, best, kind = os.path.abspath(path), -1, ""  # noqa: PTH100 - resolve() asks the network
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = _unescaped(fields[4])
        inside = wanted == point or wanted.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, kind = len(point), right.split(" ", 1)[0]
    return kind if _is_remote(kind) else None


def _is_remote(kind: str) -> bool:
    shared = _NETWORK | _CLUSTER | _HOST_OF_A_MACHINE | {"fuse"}
    return kind in shared or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE)


def _unescaped(text: str) -> str:
    """Undo the octal escapes of blanks, tabs, newlines and backslashes."""
    for code, sign in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, sign)
    return text
