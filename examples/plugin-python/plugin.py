"""A plugin of ackproxy: rejected records of one topic are released instead, and so come again. Its configuration is {"topic": "orders"}.

policy_pb2.py is generated from plugins/pluginpb/ackproxy/policy/v1/policy.proto. In the folder plugins/pluginpb:
    python3 -m pip install grpcio-tools==1.85.1
    python3 -m grpc_tools.protoc -I ackproxy/policy/v1 --python_out=../../examples/plugin-python policy.proto
"""

import base64
import datetime
import json
import os
import signal
import sys
import threading
from concurrent import futures

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import policy_pb2 as pb


class Again(object):
    """The policy. All below it is the same for every plugin."""

    def __init__(self, config):
        self.topic = config["topic"]

    def decide(self, request):
        verdict = pb.Verdict()
        for p in request.partitions:
            for r in p.ranges:
                if p.topic == self.topic and r.type == pb.ACKNOWLEDGE_TYPE_REJECT:
                    verdict.edits.add(topic_id=p.topic_id, partition=p.index, first=r.first, last=r.last,
                                      change=pb.ACKNOWLEDGE_TYPE_RELEASE, reason=f"no record of {self.topic} is given up")
        return verdict


policy = None


def configure(request, context):
    global policy
    try:
        policy = Again(json.loads(request.config))
    except (ValueError, KeyError, TypeError) as e:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"config: {e!r}")
    return pb.ConfigureResponse(name="plugin-python", decides=True)


def decide(requests, context):
    for m in requests:
        if not m.HasField("request"):  # nobody waits for the answer any longer
            continue
        try:
            yield pb.DecideResponse(id=m.id, verdict=policy.decide(m.request))
        except Exception as e:
            yield pb.DecideResponse(id=m.id, error=repr(e))


def certificate():
    """A key and a certificate for this run: ackproxy reads the certificate in the handshake, and trusts no other."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    cert = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=10000))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .sign(key, hashes.SHA256()))
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, cert.public_bytes(pem), cert.public_bytes(serialization.Encoding.DER)


def handler(service, methods):
    return grpc.method_handlers_generic_handler(service, methods)


def main():
    if os.environ.get("ACKPROXY_PLUGIN") != "share-group-policy":
        sys.exit("This is a plugin of ackproxy, which starts it by itself: see docs/plugins.md.")

    for ackproxys in (signal.SIGTERM, signal.SIGHUP):  # systemd sends them to plugins as well, which are needed until ackproxy has drained
        signal.signal(ackproxys, signal.SIG_IGN)

    def end_with_host():  # standard input ends when ackproxy is gone, or wants us to go
        sys.stdin.buffer.read()
        os._exit(0)
    threading.Thread(target=end_with_host, daemon=True).start()

    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    server.add_generic_rpc_handlers([
        handler("ackproxy.policy.v1.PolicyService", {
            "Configure": grpc.unary_unary_rpc_method_handler(
                configure, pb.ConfigureRequest.FromString, pb.ConfigureResponse.SerializeToString),
            "Decide": grpc.stream_stream_rpc_method_handler(
                decide, pb.DecideRequest.FromString, pb.DecideResponse.SerializeToString),
        }),
        # HealthCheckResponse{status: SERVING}, the only message of that service that is needed
        handler("grpc.health.v1.Health", {"Check": grpc.unary_unary_rpc_method_handler(lambda request, context: b"\x08\x01")}),
    ])
    key, cert, der = certificate()
    host = os.environ["PLUGIN_CLIENT_CERT"].encode()
    path = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "plugin")
    server.add_secure_port("unix:" + path, grpc.ssl_server_credentials([(key, cert)], host, require_client_auth=True))
    server.start()
    print(f"1|1|unix|{path}|grpc|{base64.b64encode(der).decode().rstrip('=')}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
