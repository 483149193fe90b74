#!/bin/busybox sh
# First process of the guest of lab/vm: sets up the machine, runs the script, reports its exit code,
# and turns the machine off.
export PATH=/bin:/sbin HOME=/root TERM=dumb LC_ALL=C
export OURS=/opt/linerate STOCK=/opt/stock

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ln -sf /proc/self/fd /dev/fd
for module in $(cat /lab/load); do
    modprobe "$module"
done
# If the machine has little memory, most of its files are on this disk.
[ ! -b /dev/vda ] || mount -t romfs -o ro /dev/vda /disk

hostname guest
/bin/ip link set lo up
# A resolver returns only addresses of families that a non-loopback interface has. Without this
# interface, stock netperf cannot resolve 127.0.0.1. Without duplicate detection, IPv6 is usable at
# once.
/bin/ip link add host type dummy
sysctl -q -w net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.host.accept_dad=0
/bin/ip address add 192.0.2.1/24 dev host
/bin/ip address add 2001:db8::1/64 dev host
/bin/ip link set host up

cd /work
# lab/vm has quoted the arguments.
eval "set -- $(cat /lab/arguments)"
/bin/sh /lab/script "$@" </dev/null >/dev/vport0p1 2>/dev/vport0p2
echo $? >/dev/vport0p3
poweroff -f
