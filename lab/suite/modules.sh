# A client's request makes the kernel load no module, unless the server allows it.

# Replaces modprobe by a script that writes the requested modules to `loads`.
record_loads() {
    printf '#!/bin/sh\necho "$@" >>%s/loads\n' "$PWD" >recorder
    chmod +x recorder
    : >loads
    trap 'echo /sbin/modprobe >/proc/sys/kernel/modprobe' EXIT
    echo "$PWD/recorder" >/proc/sys/kernel/modprobe
}

congestion_controls() {
    record_loads
    serve ours
    client ours -t TCP_RR -l -10 -- -K ,nosuchname >out || fail "$(cat out)"
    ! grep nosuchname loads || fail "loaded: $(cat loads)"
    serve ours --allow-modules
    client ours -t TCP_RR -l -10 -- -K ,nosuchname >out || fail "$(cat out)"
    grep -q tcp_nosuchname loads || fail "not loaded: $(cat loads)"
}

# An ioctl by root with an unknown interface name makes the kernel load a module of that name.
interfaces() {
    record_loads
    serve ours
    if client ours -t DLCL_RR -l 1 -- -D host,nosuchname >out 2>&1; then
        fail "accepted an unknown interface: $(cat out)"
    fi
    ! grep nosuchname loads || fail "loaded: $(cat loads)"
}

try modules.congestion_controls congestion_controls
if has llc2; then try modules.interfaces interfaces; else skip modules.interfaces "the kernel has no LLC"; fi
