"""`muster init SHAPE`: writes a commented job file to start from. It never overwrites a file."""

import os
from enum import StrEnum
from typing import Annotated

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.say import say


class Shape(StrEnum):
    """The job files to start from; each is `shapes/NAME.yaml`."""

    PROCESS = "process"
    GANG = "gang"
    COORDINATOR = "coordinator"
    SWEEP = "sweep"


def command(
    shape: Annotated[
        Shape,
        typer.Argument(
            metavar="SHAPE",
            help="process: one; gang: training with torchrun; coordinator: with workers; sweep: trials.",
        ),
    ] = Shape.PROCESS,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Where to write; by default SHAPE.yaml; - prints.")
    ] = "",
) -> None:
    text = text_of(shape)
    if file == "-":
        say(text.rstrip("\n"))
        return
    file = file or f"{shape.value}.yaml"
    try:
        with open(file, "x", encoding="utf-8") as new:
            try:
                new.write(text)
                new.flush()
            except OSError:  # the disk is full: what is left would only be in the way of the next try
                os.unlink(file)
                raise
    except FileExistsError:
        raise Failure(
            f"{file} exists already; name another file: muster init {shape.value} FILE", BAD_INPUT
        ) from None
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror}") from None
    say(f"{file} written; edit it, then: muster run {file}")
    if shape is Shape.PROCESS:
        say(f"other shapes: {', '.join(f'muster init {each.value}' for each in list(Shape)[1:])}")


def text_of(shape: Shape) -> str:
    """The job file of a shape."""
    from importlib.resources import files

    return (files("muster.cli") / "shapes" / f"{shape.value}.yaml").read_text("utf-8")
