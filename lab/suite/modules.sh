# What requests have the kernel load: nothing, unless the server allows it.

# Notes in `loads` what the kernel asks for, in the place of modprobe.
note_loads() {
    printf '#!/bin/sh\necho "$@" >>%s/loads\n' "$PWD" >note
    chmod +x note
    : >loads
    trap 'echo /sbin/modprobe >/proc/sys/kernel/modprobe' EXIT
    echo "$PWD/note" >/proc/sys/kernel/modprobe
}

congestion_controls() {
    note_loads
    serve ours
    client ours -t TCP_RR -l -10 -- -K ,nosuchone >out || fail "$(cat out)"
    ! grep nosuchone loads || fail "loaded: $(cat loads)"
    serve ours --allow-modules
    client ours -t TCP_RR -l -10 -- -K ,nosuchone >out || fail "$(cat out)"
    grep -q tcp_nosuchone loads || fail "not loaded: $(cat loads)"
}

# The name of an interface is one of a module to the kernel, if root asks for it by ioctl.
interfaces() {
    note_loads
    serve ours
    if client ours -t DLCL_RR -l 1 -- -D host,nosuchone >out 2>&1; then
        fail "there is one: $(cat out)"
    fi
    ! grep nosuchone loads || fail "loaded: $(cat loads)"
}

try modules.congestion_controls congestion_controls
if has llc2; then try modules.interfaces interfaces; else skip modules.interfaces "no LLC here"; fi
