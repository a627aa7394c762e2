# muster's image: what uv.lock pins, and muster itself; no compiler, no package manager of its own, no root.
# A test runs these steps, with AT elsewhere (tests/cluster/test_dockerfile.py).
# The base image (of all platforms, as of 2026-08-16) and uv are pinned by hash; docs/start/install.md says how to renew them.
ARG BASE=python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7

FROM ${BASE} AS build
ARG AT=/opt/muster
ARG UV="uv==0.13.8 --hash=sha256:e18a57b8b352eb7c8feb317b9f6f533c8f0ad9673fd6cf34bbe3cf1a9f6a8984 --hash=sha256:0b3e8b1a4f5e405e31e2ff33de8af4744831e9f7338539671efbd8c3c94e791d"
WORKDIR ${AT}
ENV UV_PROJECT_ENVIRONMENT=${AT}/venv UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1
RUN python -m venv ${AT}/uv && echo "${UV}" > uv.txt && ${AT}/uv/bin/pip install --disable-pip-version-check --require-hashes --only-binary :all: -r uv.txt
COPY pyproject.toml uv.lock ./
RUN ${AT}/uv/bin/uv sync --frozen --no-dev --extra devices --extra sigstore --no-install-project --python "$(command -v python)"
COPY src/muster venv/lib/muster/muster
RUN venv/bin/python -m compileall -q venv/lib/muster && rm -r uv uv.txt pyproject.toml uv.lock

FROM ${BASE}
ARG AT=/opt/muster
COPY --from=build ${AT} ${AT}
ENV PATH=${AT}/venv/bin:${PATH} PYTHONPATH=${AT}/venv/lib/muster PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
WORKDIR /tmp
USER 65532:65532
ENTRYPOINT ["python", "-m", "muster"]
