# The patch version that is tested. A tag can move, a digest cannot: --build-arg GO_IMAGE=docker.io/library/golang:1.26.8@sha256:…, with what
# docker buildx imagetools inspect docker.io/library/golang:1.26.8 prints as Digest (skopeo inspect does so as well)
ARG GO_IMAGE=docker.io/library/golang:1.26.8
FROM ${GO_IMAGE} AS build
ARG VERSION=dev
ARG COMMIT=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false \
      -ldflags "-s -w -X main.version=${VERSION} -X main.commit=${COMMIT}" -o /out/ackproxy ./cmd/ackproxy \
 && mkdir -p /out/state

FROM scratch
ARG VERSION=dev
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="ackproxy" \
      org.opencontainers.image.description="A Kafka proxy for share groups that sees every acknowledgement" \
      org.opencontainers.image.url="https://github.com/ackproxy/ackproxy" \
      org.opencontainers.image.source="https://github.com/ackproxy/ackproxy" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/LICENSE /LICENSE
COPY --from=build --chown=1337:1337 /out/state /var/lib/ackproxy
COPY --from=build /out/ackproxy /ackproxy
# the only place that is written to, so the root may be read-only: the default state directory is below it
VOLUME /var/lib/ackproxy
WORKDIR /var/lib/ackproxy
USER 1337:1337
# A container's own 127.0.0.1 is no place that -p leads to. These are stronger than a file and weaker than flags; an empty one counts as not set
ENV ACKPROXY_LISTEN_BOOTSTRAP=0.0.0.0:19092 \
    ACKPROXY_ADMIN_LISTEN=0.0.0.0:9464
# bootstrap listener and admin; broker n is at 19100 + n
EXPOSE 19092 9464
ENTRYPOINT ["/ackproxy"]
CMD ["run"]
