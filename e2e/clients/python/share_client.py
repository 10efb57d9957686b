"""A member of a share group that acknowledges by a pattern and prints what it does.

See README.md of the end-to-end tests for the arguments and the lines, which the clients in Java and Go share.
"""

import argparse
import json
import signal
import sys

from confluent_kafka import AcknowledgeType, ShareConsumer

TYPES = {"accept": AcknowledgeType.ACCEPT, "release": AcknowledgeType.RELEASE, "reject": AcknowledgeType.REJECT}


def say(event, **fields):
    print(json.dumps({"event": event, **fields}, separators=(",", ":")))


class Client:
    def __init__(self, args):
        self.args = args
        self.explicit = args.mode.startswith("explicit")
        self.sync = args.mode.endswith("sync")
        self.asked = {}  # (partition, offset): the type that its last acknowledgement asked for
        self.settled = set()
        self.implied = []  # implicit mode: accepted by the next poll or commit
        self.nodes = []
        self.stop = False
        self.consumer = ShareConsumer(
            {
                "bootstrap.servers": args.bootstrap,
                "group.id": args.group,
                "client.id": args.client_id,
                "share.acknowledgement.mode": "explicit" if self.explicit else "implicit",
                "max.poll.records": str(args.max_poll),
                "reconnect.backoff.max.ms": "250",
                "statistics.interval.ms": "100",
                "stats_cb": self.view,
            }
        )
        self.consumer.set_acknowledgement_commit_callback(self.results)

    def run(self):
        signal.signal(signal.SIGTERM, self.terminate)
        self.consumer.subscribe([self.args.topic])
        try:
            while not self.stop and (self.args.count == 0 or len(self.settled) < self.args.count):
                self.imply()
                records = [m for m in self.consumer.poll(0.5) if not self.failed(m)]
                for m in records:
                    if self.explicit:
                        self.acknowledge(m)
                    else:
                        self.implied.append(m)
                if self.sync and records:
                    self.commit()
                sys.stdout.flush()
        finally:
            self.consumer.close()
            say("closed", settled=len(self.settled))
            sys.stdout.flush()

    def terminate(self, *_):
        self.stop = True

    def failed(self, m):
        if m.error():
            say("error", error=str(m.error()))
        return bool(m.error())

    def imply(self):
        """Implicit mode: what was delivered counts as accepted from here on."""
        for m in self.implied:
            self.asks(m, "accept")
        self.implied = []

    def acknowledge(self, m):
        kind = self.choose(m)
        self.asks(m, kind)
        self.consumer.acknowledge(m, TYPES[kind])

    def choose(self, m):
        """The pattern: of first deliveries one in ten each is released and rejected. This client has no renew.

        With --rejects so many of a hundred records are released at first and rejected when they come again, and all others accepted.
        """
        total = self.args.seed * 31 + m.partition() * 7 + m.offset() * 13
        if self.args.rejects > 0:
            if total % 100 >= self.args.rejects:
                return "accept"
            return "reject" if m.delivery_count() > 1 else "release"
        h = total % 10
        if m.delivery_count() > 1:
            return "accept"
        return {0: "release", 1: "reject"}.get(h, "accept")

    def asks(self, m, kind):
        self.asked[m.partition(), m.offset()] = kind
        say("ack", topic=m.topic(), partition=m.partition(), offset=m.offset(), delivery_count=m.delivery_count(), type=kind)

    def commit(self):
        self.imply()
        for p, e in self.consumer.commit_sync(30.0).items():
            say("commit", topic=p.topic, partition=p.partition, error=str(e) if e else None)

    def results(self, offsets, error):
        for p, some in offsets.items():
            say("result", topic=p.topic, partition=p.partition, offsets=sorted(some), error=str(error) if error else None)
            if error:
                continue
            self.settled |= {(p.partition, o) for o in some if self.asked.get((p.partition, o)) in ("accept", "reject")}

    def view(self, stats):
        """What the library knows of brokers: those with a node id, or learnt ones without."""
        brokers = json.loads(stats)["brokers"].values()
        nodes = sorted({b["nodename"] for b in brokers if b["source"] == "learned" and b["nodename"]})
        if nodes != self.nodes:
            self.nodes = nodes
            say("nodes", nodes=nodes)


def main():
    p = argparse.ArgumentParser()
    for name in ("bootstrap", "topic", "group", "client-id", "mode"):
        p.add_argument("--" + name, required=True)
    for name in ("count", "seed", "max-poll"):
        p.add_argument("--" + name, required=True, type=int)
    p.add_argument("--rejects", default=0, type=int)
    Client(p.parse_args()).run()


if __name__ == "__main__":
    main()
