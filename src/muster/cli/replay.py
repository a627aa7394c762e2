"""`muster replay TRACE…`: runs a trace through the scheduler itself, in virtual time."""

from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import Nodes, Output, Traced, TracedFormat
from muster.cli.progress import Progress
from muster.cli.say import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from muster.core.words.events import NodeChanged
    from muster.sim.experiment import Experiment
    from muster.sim.metrics import Recorder
    from muster.sim.recheck import Comparison
    from muster.sim.report import Report
    from muster.sim.trace import Trace


# The choices are duplicated from the simulator, so that `--help` need not import it.


class Format(StrEnum):
    SWF = "swf"
    PHILLY = "philly"
    OPENB = "openb"
    MUSTER = "muster"
    JOURNAL = "journal"


class Estimates(StrEnum):
    USER = "user"
    EXACT = "exact"


class Order(StrEnum):
    FCFS = "fcfs"
    SJBF = "sjbf"


class Pass(StrEnum):
    EVENT = "event"
    INSTANT = "instant"


DEFAULT_SEED: Final = "42"
#: The policy of a live scheduler with default settings.
LIVE: Final = "easy"
MOST_SEEDS: Final = 1000


def command(
    trace: Annotated[
        list[str],
        typer.Argument(metavar="TRACE", help="A trace, or its files, also as gzip; - for standard input."),
    ],
    format: Annotated[
        Format | None,
        typer.Option("--format", help="Format of the trace; by default detected from its beginning."),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="NAME",
            help="Scheduling policy: pack (the default), easy, fcfs, fgd, random, …",
        ),
    ] = "",
    order: Annotated[
        Order | None,
        typer.Option(
            "--order", help="Order of gangs that may pass a waiting one: by queue, or shortest first."
        ),
    ] = None,
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="A..B", help="Random seeds: 42, 42..51 or 1,2,3.")
    ] = DEFAULT_SEED,
    estimates: Annotated[
        Estimates | None,
        typer.Option("--estimates", help="Estimates of run times: the users' (the default), or exact."),
    ] = None,
    load: Annotated[
        float | None,
        typer.Option("--load", metavar="X", help="Scale the times between arrivals to this offered load."),
    ] = None,
    passes: Annotated[
        Pass | None,
        typer.Option("--pass", help="Decide after each event (the default), or once per instant."),
    ] = None,
    nodes: Nodes = "",
    last: Annotated[
        str,
        typer.Option(
            "--last",
            metavar="TIME",
            help="Of a journal, only what waited or ran in so long at its end, such as 24h.",
            show_default=False,
        ),
    ] = "",
    jobs: Annotated[
        int,
        typer.Option("--jobs", metavar="N", min=1, max=256, help="Number of seeds to replay in parallel."),
    ] = 1,
    report: Annotated[
        str | None, typer.Option("--report", metavar="FILE.html", help="Also write an HTML page with charts.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip lines that cannot be read, and count them.")
    ] = False,
    output: TracedFormat = Traced.TABLE,
) -> None:
    from pathlib import Path

    from muster.cli.jobfile import called
    from muster.sim import readers
    from muster.sim.readers.native import is_journal

    if report is not None:
        _writable(report)
    with _files(trace) as (paths, said):
        format = format or Format(readers.told_by(paths))
        if last and format is not Format.JOURNAL:
            raise Failure("--last is for --format journal", BAD_INPUT)
        if format is Format.MUSTER and any(map(is_journal, paths)):
            given = {
                "--order": order is not None,
                "--seeds": seeds != DEFAULT_SEED,
                "--jobs": jobs != 1,
                "--estimates": estimates is not None,
                "--load": load is not None,
                "--pass": passes is not None,
                "--nodes": bool(nodes),
                "--report": report is not None,
                "--skip-bad": skip_bad,
                "-o perfetto": output is Traced.PERFETTO,
            }
            _refuse([option for option, is_given in given.items() if is_given])
            if len(paths) > 1:
                raise Failure(f"a journal is replayed on its own; got {len(paths)} files", BAD_INPUT)
            _recheck(paths[0], said(str(paths[0])), policy or LIVE, Output(output.value))
        else:
            from muster.sim import engine, experiment
            from muster.sim import trace as traces

            found = readers.open_trace(
                readers.Format(format),
                paths,
                nodes=_machine(nodes),
                estimates=traces.Estimates(estimates or Estimates.USER),
                skip_bad=skip_bad,
                last=_span(last),
            )
            asked = experiment.Experiment(
                found,
                policy or "pack",
                _seeds(seeds),
                shortest_first=order is Order.SJBF,
                load=load,
                pass_=engine.Pass(passes or Pass.EVENT),
                history=report is not None,
            )
            if output is Traced.PERFETTO:
                if len(asked.seeds) > 1 or report is not None:
                    told = "omit --report" if report is not None else "give one seed"
                    raise Failure(f"-o perfetto writes one replay; {told}", BAD_INPUT)
                _trace(asked)
                return
            names = [called(name) if name == "-" else Path(name).name for name in trace]
            _replay(asked, names, jobs, Output(output.value), report, said)


def _span(last: str) -> float:
    from math import inf

    from muster.api import duration

    try:
        found = duration.parse(last) if last else inf
    except ValueError:
        found = 0
    if not found:
        raise Failure(f"--last {last}: write a duration such as 24h", BAD_INPUT)
    return found


def _writable(report: str) -> None:
    """Raises Failure before the replay, rather than after it, if the report cannot be written."""
    from pathlib import Path

    path = Path(report)
    if path.is_dir() or not path.parent.is_dir():
        why = "is a directory" if path.is_dir() else f"there is no directory {path.parent}"
        raise Failure(f"--report {report}: {why}; name a file to write", BAD_INPUT)


@contextmanager
def _files(names: list[str]) -> "Iterator[tuple[list[Path], Callable[[str], str]]]":
    """Yields the files' paths, and a function that restores their written names in a sentence with paths.

    A trace from a pipe is copied to a temporary file, because a trace is read several times.
    """
    from pathlib import Path
    from shutil import copyfileobj
    from tempfile import TemporaryDirectory

    from muster.cli.jobfile import called
    from muster.sim.trace import TraceError

    with TemporaryDirectory(prefix="muster-") as spool:
        paths: list[Path] = []
        copies: dict[str, str] = {}

        def said(sentence: str) -> str:
            for copy, name in copies.items():
                sentence = sentence.replace(copy, name)
            return sentence

        for name in names:
            path = Path("/dev/stdin" if name == "-" else name)
            if name == "-" or path.is_fifo():
                pipe, path = path, Path(spool, f"pipe-{len(copies)}-")
                copies[str(path)] = called(name)
                with pipe.open("rb") as source, path.open("wb") as copy:
                    copyfileobj(source, copy)
            paths.append(path)
        try:
            yield paths, said
        except TraceError as error:
            raise Failure(said(str(error)), BAD_INPUT) from None


def _refuse(options: list[str]) -> None:
    if options:
        raise Failure(
            f"{', '.join(options)}: not supported for a journal, which is replayed exactly as recorded",
            BAD_INPUT,
        )


def _recheck(path: "Path", called: str, policy: str, output: Output) -> None:
    from muster.cli import show
    from muster.core.saved import restored
    from muster.sim import policies, recheck

    resume = restored if policy == LIVE else None  # a snapshot's scheduler has the live policy
    with Progress("cycles") as progress:
        compared = recheck.recheck(path, policies.policy(policy, explain=True), progress.step, resume)
    if output is not Output.TABLE:
        show.machine(_comparison(policy, compared), output)
    else:
        told = [(compared.events, "event"), (compared.cycles, "cycle"), (compared.decisions, "decision")]
        say(
            f"{called}: {', '.join(show.plural(*each) for each in told)} of "
            f"{show.plural(compared.schedulers, 'scheduler')}: "
            f"{'all the same' if compared.difference is None else compared.difference}"
        )
    if compared.difference is not None:
        raise typer.Exit(1)


def _comparison(policy: str, compared: "Comparison") -> dict[str, object]:
    import msgspec

    from muster.journal import encode

    found = compared.difference
    sides = {} if found is None else {"logged": found.logged, "decided": found.decided}
    return {
        "policy": policy,
        "schedulers": compared.schedulers,
        "events": compared.events,
        "cycles": compared.cycles,
        "decisions": compared.decisions,
        "difference": found
        and {
            "at": found.at,
            "number": found.number,
            **{
                side: decision and msgspec.json.decode(encode(found.at, decision))
                for side, decision in sides.items()
            },
        },
    }


def _machine(nodes: str) -> "list[NodeChanged]":
    from muster.app.plan.fit import as_nodes
    from muster.embedded import nodespec

    return as_nodes(nodespec.read(nodes)) if nodes else []


def _replay(
    asked: "Experiment",
    names: list[str],
    jobs: int,
    output: Output,
    report: str | None,
    said: "Callable[[str], str]",
) -> None:
    """Replays the trace and prints the results. `names`: the trace's files, without their directories."""
    from pathlib import Path

    from muster.cli import show
    from muster.sim import experiment
    from muster.sim.metrics import UNITS
    from muster.sim.page import page
    from muster.sim.report import headline, left_out

    with Progress("jobs read") as progress:
        surveyed = experiment.prepare(asked, progress.step)
    total = surveyed.jobs * (len(asked.seeds) if asked.draws else 1)
    with Progress("jobs", total) as progress:

        def turn(done: int, recorder: "Recorder | None") -> None:
            progress.step(done * surveyed.jobs + _settled(recorder))

        found = experiment.run(asked, surveyed, jobs=jobs, turn=turn)
    notes = [said(sentence) for sentence in left_out(surveyed, found)]
    for sentence in notes:
        say(sentence, err=True)
    title_line = headline(asked.trace, surveyed, asked.load, found)
    if report is not None:
        trace = asked.trace
        title = f"{', '.join(names)}, replayed under {asked.policy}"
        written = page(title, title_line, trace.resource, found, tuple(notes), trace.clock)
        Path(report).write_text(written, encoding="utf-8")
    if output is not Output.TABLE:
        metrics = {
            name: {"unit": UNITS[name], "mean": figure.mean, "std": figure.std, "per_seed": figure.per_seed}
            for name, figure in found.metrics.items()
        }
        answer = {
            "policy": found.policy,
            "seeds": found.seeds,
            "resource": asked.trace.resource,
            "metrics": metrics,
        }
        show.machine(answer, output)
    else:
        say(title_line)
        show.table(*_table(asked.trace, found), right=["VALUE", "MEAN", "STD"])


def _trace(asked: "Experiment") -> None:
    """Replays the trace, and writes what ui.perfetto.dev draws."""
    from muster.cli import show
    from muster.perfetto import Trace
    from muster.sim import experiment
    from muster.sim.tracks import Course
    from muster.sim.units import pieces

    with Progress("jobs read") as progress:
        surveyed = experiment.prepare(asked, progress.step)
    with Progress("jobs", surveyed.jobs) as progress, Trace(show.stream(), surveyed.first) as trace:
        course = Course(trace, asked.trace.resource, pieces(asked.trace.resource))
        [seed] = asked.seeds
        experiment.one(asked, surveyed, seed, lambda recorder: progress.step(_settled(recorder)), course)
        course.close()


def _settled(recorder: "Recorder | None") -> int:
    """Jobs whose outcome is known."""
    return 0 if recorder is None else recorder.finished + recorder.dropped


def _table(trace: "Trace", report: "Report") -> tuple[list[str], list[list[str]]]:
    from muster.sim.report import readable

    several = report.drawn and len(report.seeds) > 1
    rows = [
        [name, mean, *([std] if several else []), unit]
        for name, mean, std, unit in readable(report, trace.resource)
    ]
    return ["METRIC", *(["MEAN", "STD"] if several else ["VALUE"]), "UNIT"], rows


def _seeds(text: str) -> list[int]:
    """The seeds of `42`, `42..51` or `1,2,3`."""
    first, dots, last = text.partition("..")
    try:
        if dots:
            seeds = list(range(int(first), min(int(last), int(first) + MOST_SEEDS) + 1))
        else:
            seeds = [int(part) for part in text.split(",")]
    except ValueError:
        seeds = []
    if not seeds or len(seeds) > MOST_SEEDS:
        raise Failure(f"--seeds {text}: write 42, 42..51 or 1,2,3; {MOST_SEEDS} at most", BAD_INPUT)
    return seeds
