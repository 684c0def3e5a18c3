# Build one of the images with: docker build --target registry-server .
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc g++ libc6-dev make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked --bins

FROM debian:bookworm-slim AS base
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates curl && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --create-home --home-dir /data app \
 && install -d -o app -g app /data/cache /data/keys
USER app
WORKDIR /data

FROM base AS registry-server
COPY --from=build /src/target/dist/registry-server /src/target/dist/registryctl /usr/local/bin/
EXPOSE 7070
# The admin address serves plain HTTP even if --listen uses TLS.
HEALTHCHECK --interval=5s --timeout=2s CMD curl -fsS http://127.0.0.1:7071/readyz
ENTRYPOINT ["registry-server"]

FROM base AS gateway-agent
COPY --from=build /src/target/dist/gateway-agent /src/target/dist/demo-client /src/target/dist/demo-a2a-client /src/target/dist/demo-backend /usr/local/bin/
EXPOSE 7080
HEALTHCHECK --interval=5s --timeout=2s CMD curl -fsS http://127.0.0.1:7080/livez
ENTRYPOINT ["gateway-agent"]

FROM base AS demo-backend
COPY --from=build /src/target/dist/demo-backend /usr/local/bin/
EXPOSE 7090
HEALTHCHECK --interval=5s --timeout=2s CMD curl -fsS http://127.0.0.1:7090/healthz
ENTRYPOINT ["demo-backend"]
