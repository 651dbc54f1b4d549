# Two targets:
#   docker build --target core -t eyechart .        the embedded model, ONNX models, servers, reports; no torch
#   docker build --target full -t eyechart:full .   also OpenCLIP, transformers, hubs, Parquet
# Run it on a folder of images:
#   docker run --rm -v "$PWD:/data" eyechart eval photos/ eyechart-tiny
FROM python:3.11-slim-bookworm AS base
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE CHANGELOG.md ./
COPY src ./src

FROM base AS core-packages
RUN python -m venv /opt/eyechart && /opt/eyechart/bin/pip install --constraint constraints.txt .

FROM base AS full-packages
RUN python -m venv /opt/eyechart \
    && /opt/eyechart/bin/pip install --constraint constraints.txt ".[hub,open-clip,parquet,sentence-transformers,transformers,xlsx]"

# What both images are: a user without rights, who works in /data and keeps vectors and downloads in /cache.
FROM python:3.11-slim-bookworm AS runtime
RUN useradd --create-home --uid 1000 eyechart && mkdir /data /cache && chown eyechart:eyechart /data /cache
ENV PATH=/opt/eyechart/bin:$PATH EYECHART_CACHE=/cache HF_HOME=/cache/huggingface
USER 1000
WORKDIR /data
VOLUME ["/data", "/cache"]
ENTRYPOINT ["eyechart"]
CMD ["--help"]

FROM runtime AS full
COPY --from=full-packages /opt/eyechart /opt/eyechart

FROM runtime AS core
COPY --from=core-packages /opt/eyechart /opt/eyechart
