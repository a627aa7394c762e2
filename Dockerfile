# muster's image: what uv.lock pins, and muster itself; no compiler, no package manager of its own, no root.
# A test runs these steps, with AT elsewhere (tests/cluster/test_dockerfile.py).
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ARG AT=/opt/muster
ARG UV=0.13.8
WORKDIR ${AT}
ENV UV_PROJECT_ENVIRONMENT=${AT}/venv UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1
RUN python -m venv ${AT}/uv && ${AT}/uv/bin/pip install --disable-pip-version-check uv==${UV}
COPY pyproject.toml uv.lock ./
RUN ${AT}/uv/bin/uv sync --frozen --no-dev --no-install-project --python "$(command -v python)"
COPY src/muster venv/lib/muster/muster
RUN venv/bin/python -m compileall -q venv/lib/muster && rm -r uv pyproject.toml uv.lock

FROM python:${PYTHON}-slim
ARG AT=/opt/muster
COPY --from=build ${AT} ${AT}
ENV PATH=${AT}/venv/bin:${PATH} PYTHONPATH=${AT}/venv/lib/muster PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
WORKDIR /tmp
USER 65532:65532
ENTRYPOINT ["python", "-m", "muster"]
