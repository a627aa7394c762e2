"""`muster`: the commands, and the one place where errors become messages and exit codes.

Command modules import only typer at their top, so that `--help` is fast; a command imports what it needs when
it runs.
"""

import fcntl
import gc
import io
import os
import sys
from collections.abc import Callable
from typing import Any, Final, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from muster import __version__
from muster.cli import (
    cancel,
    check,
    compile,
    convert,
    daemons,
    dashboard,
    demo,
    down,
    examples,
    get,
    given,
    hand_back,
    history,
    hold,
    init,
    list_,
    logs,
    nodes,
    plan,
    policy,
    prune,
    queues,
    release,
    replay,
    requeue,
    retry,
    run,
    schema,
    set_,
    submit,
    timeline,
    topology,
    up,
    usage,
    why,
)
from muster.cli.errors import INTERRUPTED, UNREAD, failure
from muster.cli.say import say


class _Verbs(TyperGroup):
    """The verbs. What is wrong with a value is said in typer's words, without pydantic's "Value error, "."""

    def invoke(self, ctx: Any) -> Any:  # Any: typer does not export its context's and its results' types
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app: Final = typer.Typer(
    name="muster",
    cls=_Verbs,
    help="Batch and gang scheduling for Kubernetes: all of a job starts, or none of it.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,  # plain help takes a third of the time and is as clear
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_VERBS: Final[dict[str, tuple[Callable[..., None], str]]] = {
    "run": (run.command, "Run a job file or a command to the end; the exit code is the job's."),
    "submit": (submit.command, "Submit a job file or a command and return."),
    "init": (init.command, "Write a commented job file to start from."),
    "list": (list_.command, "List jobs, one line each."),
    "get": (get.command, "Show one job: its pods, or the whole object with -o."),
    "why": (why.command, "Say why a job waits, and what would start it."),
    "timeline": (timeline.command, "Show when each pod waited and when it ran, as bars."),
    "logs": (logs.command, "Print the output of a job's pods."),
    "cancel": (cancel.command, "Remove a job and stop its pods."),
    "prune": (prune.command, "Remove finished jobs, their output and their directories."),
    "hold": (hold.command, "Keep a job from starting until it is released."),
    "release": (release.command, "Let a held job start."),
    "requeue": (requeue.command, "Stop a job's running pods, and let the job wait again."),
    "retry": (retry.command, "Run again what has failed of a job that has ended."),
    "set": (set_.command, "Change a job's priority or queue."),
    "check": (check.command, "Validate job files without a cluster."),
    "compile": (compile.command, "Print the objects that a batch job is compiled to."),
    "schema": (schema.command, "Print the JSON Schema of a job file, for editors."),
    "convert": (convert.command, "Print a file with its gangs in the words of another scheduler."),
    "plan": (plan.command, "Show what would happen if these files were submitted now."),
    "policy": (policy.command, "Test the policies of batch jobs, or print what they may name."),
    "replay": (replay.command, "Run a trace through the scheduler in virtual time."),
    "queues": (queues.command, "Show the queues: what each uses and is entitled to."),
    "usage": (usage.command, "Add up what jobs have used, waited and lost, per week, queue or user."),
    "history": (history.command, "Show all runs of a job, and what each has used."),
    "nodes": (nodes.command, "Show the nodes: what each has and what is used."),
    "topology": (topology.command, "Show the network topology, and what is free in each domain."),
    "dashboard": (dashboard.command, "Show the cluster in a browser, live."),
    "up": (up.command, "Start the embedded cluster."),
    "down": (down.command, "Stop the embedded cluster."),
    "scheduler": (daemons.scheduler, "Run the scheduler of a real cluster."),
    "controllers": (daemons.controllers, "Run muster's controllers on a real cluster."),
    "fake-nodes": (daemons.fake_nodes, "Simulate nodes, and the pods on them, on any cluster."),
    "crds": (daemons.crds, "Print the definitions of muster's kinds, for kubectl apply."),
    "hand-back": (hand_back.command, "Remove muster's finalizers and Gangs after uninstalling."),
    "demo": (demo.command, "Show in a minute what gangs and policies are for."),
}
#: Verbs that take a command after `--`.
_CLASSES: Final = {"run": given.Command, "submit": given.Command}
for _verb, (_command, _help) in _VERBS.items():
    app.command(_verb, cls=_CLASSES.get(_verb, TyperCommand), help=_help, epilog=examples.epilog(_verb))(
        _command
    )


def _version(wanted: bool) -> None:
    if wanted:
        say(f"muster {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass


def main() -> None:
    """Runs the command line; the console script calls it."""
    _be_quick()
    _open_what_is_closed()
    _keep_standard_output()
    _be_written_anywhere()
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # here a failure is reported, unlike at the interpreter's exit
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except SystemExit as ended:
        # typer and rich exit with a plain 1 when the reader of the output has closed it
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        _say_no_more()
        sys.exit(UNREAD)
    except BrokenPipeError:
        _say_no_more()
        sys.exit(UNREAD)
    except Exception as error:
        known = failure(error)
        if known is None:
            raise
        say(str(known), err=True)
        _try_no_more()
        sys.exit(known.exit_code)
    finally:
        gc.freeze()  # otherwise the interpreter would collect garbage for 60 ms before it exits


def _say_no_more() -> None:
    """Discards further output: its reader has closed it, and no one would see an error."""
    _to_nowhere(sys.__stdout__, sys.__stderr__)


def _try_no_more() -> None:
    """Discards further standard output if it cannot be written.

    Otherwise the interpreter would try to write it again at exit, and report the error a second time.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _to_nowhere(sys.__stdout__)


def _to_nowhere(*streams: TextIO | None) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        if stream is not None:
            os.dup2(nowhere, stream.fileno())


def _open_what_is_closed() -> None:
    """Opens /dev/null for each standard stream that the caller has closed (`>&-`).

    Otherwise the next files to be opened, such as the pipe to a host, would take these streams' places.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            mode = "w" if number else "r"
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # takes the lowest free number: this


def _keep_standard_output() -> None:
    """Moves standard output to a descriptor that only `sys.stdout` knows.

    Descriptor 1 becomes standard error, so that nothing that native code of a library prints gets into the
    output, which may be JSON for a program. A stream that is not the process's own stays as it is.
    """
    out = sys.stdout
    if not isinstance(out, io.TextIOWrapper) or out is not sys.__stdout__ or out.fileno() != 1:
        return
    out.flush()
    moved = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    os.dup2(2, 1)
    kept = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(moved, "w")),
        out.encoding,
        out.errors,
        line_buffering=out.line_buffering,
        write_through=out.write_through,
    )
    sys.stdout = kept
    setattr(sys, "__stdout__", kept)  # noqa: B010  # Final to type checkers; others ask it for the terminal


def _be_written_anywhere() -> None:
    """Writes a question mark for each character that the output's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _be_quick() -> None:
    """Collects garbage less often: half of a short command is start-up, which loads modules that stay."""
    gc.set_threshold(50_000, 20, 20)
    # numpy's threads are for multiplying matrices, which muster does not do; starting them costs 50 ms
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
