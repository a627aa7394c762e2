"""What `run` and `submit` are given: a job file, or a command after `--`, for which muster writes one."""

import inspect
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import Context, Gang, Into, Kubeconfig, Nodes, Queue, Volumes

if TYPE_CHECKING:
    from muster.app.wiring.cluster import Target
    from muster.app.wiring.sending import Address
    from muster.workloads.jobfile import JobFile, Source

#: Where `Command` leaves the words after `--`.
_AFTER: Final = "muster.command"
#: and those before it, options included
_BEFORE: Final = "muster.words"
#: What runs a file, by the end of its name.
_RUN_BY: Final = {".py": "python3 ", ".sh": "sh ", ".bash": "bash ", ".jl": "julia ", ".r": "Rscript "}

Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="A job file; - for standard input. Or a command after --."),
]
Gpus = Annotated[
    int, typer.Option("--gpus", metavar="N", help="Of a command: GPUs of each pod.", show_default=False)
]
Cpus = Annotated[str, typer.Option("--cpus", metavar="N", help="Of a command: CPUs of each pod; default 1.")]
Memory = Annotated[
    str, typer.Option("--memory", metavar="SIZE", help="Of a command: memory of each pod, e.g. 16Gi.")
]
Count = Annotated[
    int,
    typer.Option("--count", metavar="N", help="Of a command: pods, each with an index.", show_default=False),
]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="Of a command: the job's name.")]
Image = Annotated[str, typer.Option("--image", metavar="IMAGE", help="Of a command: the image of its pods.")]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", metavar="NAME[=VALUE]", help="A variable of all pods; NAME: as it is here."),
]
EnvFile = Annotated[
    list[str] | None, typer.Option("--env-file", metavar="FILE", help="A file with a NAME=VALUE per line.")
]
Print = Annotated[
    bool, typer.Option("--print", help="Of a command: only print the job file that it would be.")
]
Copy = Annotated[
    bool, typer.Option("--copy", help="Run from a copy of this directory: tracked and unignored files.")
]
Notify = Annotated[
    str,
    typer.Option(
        "--notify", metavar="COMMAND|URL", help="Tell this when the job starts, ends, stalls or is evicted."
    ),
]


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments and options of `run` and `submit`, in the order of their help."""

    files: Files = None
    gpus: Gpus = 0
    cpus: Cpus = ""
    memory: Memory = ""
    count: Count = 1
    gang: Gang = None
    name: Name = ""
    image: Image = ""
    env: Env = None
    env_file: EnvFile = None
    print_only: Print = False
    copy_files: Copy = False
    notify: Notify = ""
    queue: Queue = None
    volume: Volumes = None
    namespace: Into = None
    nodes: Nodes = ""
    kubeconfig: Kubeconfig = None
    context: Context = None


def taking_a_job(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer calls it: with each option of `Asked`, and with its own besides.

    `command` takes the context of the call, the `Asked`, and its own options.
    """

    def verb(called_by: typer.Context, **options: Any) -> None:  # Any: what typer has parsed
        asked = Asked(**{each.name: options.pop(each.name) for each in fields(Asked)})
        command(called_by, asked, **options)

    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter(each.name, keyword, default=each.default, annotation=each.type)
        for each in fields(Asked)
    ]
    _, _, *own = inspect.signature(command).parameters.values()
    parameters = [
        inspect.Parameter("called_by", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        *shared[:-2],
        *(each.replace(kind=keyword) for each in own),
        *shared[-2:],  # which cluster, as everywhere
    ]
    setattr(verb, "__signature__", inspect.Signature(parameters))  # noqa: B010  # unknown to type checkers
    verb.__annotations__ = {each.name: each.annotation for each in parameters}
    return verb


class Command(TyperCommand):
    """A verb that takes a file, or a command after `--`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # Any: typer does not export its contexts
        words = list(args)
        if "--" in args:
            cut = args.index("--")
            ctx.meta[_AFTER] = tuple(args[cut + 1 :])
            words = args[:cut]
        ctx.meta[_BEFORE] = tuple(words)
        try:
            return super().parse_args(ctx, list(words))  # which empties its list
        except typer.BadParameter:
            raise
        except Exception as error:  # an option of the program, which the verb does not know
            if hasattr(error, "option_name") and _AFTER not in ctx.meta:
                at = next((i for i, word in enumerate(words) if _is_program(word)), None)
                if at is not None:
                    raise _not_a_job_file(self.name or "", words[:at], words[at:]) from None
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # Any: as above
        return ["[OPTIONS]", "FILE | -- COMMAND..."]


@dataclass(frozen=True, slots=True)
class Given:
    """A job file: its name, and its content unless it is to be read; or the content made for a command."""

    file: str
    content: bytes | None
    #: variables of the command line; a command's are in its content
    env: dict[str, str]
    #: for a command, whether its pods are a gang is in its content
    gang: bool | None
    command: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        """The file as `submission.where_from` takes it: "" for a command."""
        return "" if self.command else self.file


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be submitted, and where."""

    target: "Target"
    #: reads the job file; called again if its names, or the cluster's scheduler, are to be others
    load: "Callable[..., JobFile]"
    #: what the job records of its submission
    source: "Source"
    #: the address of its jobs' notifications
    notify: "Address | None" = None


def work(called_by: typer.Context, asked: Asked, *, jobs: bool) -> Work | None:
    """What the user asked for; None if a job file was only to be printed. `jobs`: whether it must have jobs.

    Raises Failure as `given` does, and if the directory cannot be copied.
    """
    what = given(called_by, asked)
    return None if what is None else work_of(what, asked, jobs=jobs)


def work_of(what: Given, asked: Asked, *, jobs: bool, command: str | None = None) -> Work:
    """As `work`, of what is given. `command`: as `submission.record` takes it."""
    from functools import partial

    from muster.app.wiring.cluster import Target
    from muster.cli import jobfile, submission

    target = Target(asked.kubeconfig, asked.context, asked.namespace, asked.nodes)
    notify = submission.told(asked.notify, target) if asked.notify else None
    copy = submission.copied(target) if asked.copy_files else ""
    load = partial(
        jobfile.load,
        what.file,
        gang=what.gang,
        queue=asked.queue,
        volumes=asked.volume,
        env=what.env,
        target=target,
        content=what.content,
        cwd=copy,
        jobs=jobs,
    )
    return Work(target, load, submission.record(what.origin, copy, command), notify)


def given(context: typer.Context, asked: Asked) -> Given | None:
    """The job file that is to run; None if it was only to be printed.

    Raises Failure if there is neither a file nor a command, or both, or options that do not belong to it.
    """
    from muster.cli import jobfile
    from muster.cli.say import say
    from muster.workloads import variables

    verb, words = context.info_name or "run", tuple(asked.files or ())
    command = context.meta.get(_AFTER)
    variables_given = variables.given(asked.env or (), asked.env_file or (), os.environ)
    if command is None:
        if not words:
            raise Failure(
                f"name a job file, or write a command: muster {verb} -- python3 train.py", BAD_INPUT
            )
        if len(words) > 1 or (words[0] != "-" and _is_program(words[0])):
            before = context.meta[_BEFORE]
            cut = before.index(words[0])
            raise _not_a_job_file(verb, before[:cut], before[cut:])
        of_commands = {
            "--gpus": asked.gpus, "--cpus": asked.cpus, "--memory": asked.memory, "--count": asked.count != 1,
            "--name": asked.name, "--image": asked.image, "--print": asked.print_only,
        }  # fmt: skip
        if option := next((option for option, value in of_commands.items() if value), ""):
            told = f"{option} is for a command after --; {jobfile.called(words[0])} says it itself"
            raise Failure(told, BAD_INPUT)
        content = jobfile.stdin() if words[0] == "-" else None
        return Given(words[0], content, variables_given, asked.gang)
    if words:
        raise Failure(f"{words[0]} and a command are both given; keep one", BAD_INPUT)
    if not command or not command[0]:
        raise Failure(f"no command after --; write: muster {verb} -- python3 train.py", BAD_INPUT)
    made = of_command(command, asked, variables_given)
    if asked.print_only:
        say((made.content or b"").decode().rstrip("\n"))
        return None
    return made


def of_command(command: tuple[str, ...], asked: Asked, env: dict[str, str]) -> Given:
    """The job file of a command. Raises Failure with the option that cannot be honoured."""
    from muster.workloads import ad_hoc

    job = ad_hoc.AdHoc(
        command,
        gpus=asked.gpus,
        cpus=asked.cpus or "1",
        memory=asked.memory,
        count=asked.count,
        gang=bool(asked.gang),
        name=asked.name,
        image=asked.image,
        queue=asked.queue or "",
        env=env,
    )
    try:
        return Given(COMMAND, ad_hoc.text(job).encode(), {}, None, command)
    except ValueError as error:
        raise Failure(str(error), BAD_INPUT) from None


#: What stands in messages for the file of a command.
COMMAND: Final = "the command"


def _is_program(word: str) -> bool:
    """Whether a word names a program, and no job file."""
    if os.path.splitext(word)[1].lower() in _RUN_BY:
        return True
    if not os.path.isfile(word):
        from shutil import which

        return which(word) is not None
    try:
        with open(word, "rb") as file:
            return file.read(4).startswith((b"#!", b"\x7fELF"))
    except OSError:
        return False  # the reader of job files says why


def _not_a_job_file(verb: str, options: Sequence[str], words: Sequence[str]) -> Failure:
    ending = os.path.splitext(words[0])[1].lower()
    by = _RUN_BY.get(ending, "./" if os.path.isfile(words[0]) and "/" not in words[0] else "")
    before = f"{shlex.join(options)} " if options else ""
    told = f"muster {verb} {before}-- {by}{shlex.join(words)}"
    return Failure(f"{words[0]} is a program, not a job file; write: {told}", BAD_INPUT)
