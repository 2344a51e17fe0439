# syntax=docker/dockerfile:1
#
#   docker build --build-arg VERSION=$(git describe --tags --always) -t shardmq .
#   docker run -p 5673:5673 shardmq proxy --upstream amqp://user:password@rabbit:5672 --shard images=4
#
# or with a file:
#
#   docker run -p 5673:5673 -e SHARDMQ_PASSWORD -v ./shardmq.yaml:/etc/shardmq.yaml:ro \
#     shardmq proxy --config /etc/shardmq.yaml --log-format json
#
# The image holds one static binary, no shell and no libraries.

FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
# Modules first: they change less often than the code and stay in the cache.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG TARGETOS
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.release=$VERSION" -o /out/shardmq ./cmd/shardmq

FROM scratch
COPY --from=build /out/shardmq /usr/local/bin/shardmq
# A number, because there is no /etc/passwd, and so that Kubernetes can see that
# it is not root.
USER 65532:65532
EXPOSE 5673
# Asks over AMQP whether the proxy is alive, not whether RabbitMQ is: a restart
# would not bring a broker back. The proxy must listen on port 5673 for this;
# override it with --health-cmd where it does not.
HEALTHCHECK --interval=15s --timeout=10s --start-period=5s --retries=3 \
  CMD ["/usr/local/bin/shardmq", "healthcheck", "--address", "127.0.0.1:5673"]
# docker stop sends SIGTERM, upon which the proxy drains.
ENTRYPOINT ["/usr/local/bin/shardmq"]
CMD ["proxy"]
