#!/bin/busybox sh
# The first process of the guest of lab/vm: makes the machine usable, runs the script, says what it
# exited with, and turns the machine off.
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
# A machine with little memory has most of its files there.
[ ! -b /dev/vda ] || mount -t romfs -o ro /dev/vda /disk

hostname guest
/bin/ip link set lo up
# Resolvers give no address of a family that the host has but on its loopback interface: stock
# netperf could not even find 127.0.0.1. IPv6 is usable at once without duplicate detection.
/bin/ip link add host type dummy
sysctl -q -w net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.host.accept_dad=0
/bin/ip address add 192.0.2.1/24 dev host
/bin/ip address add 2001:db8::1/64 dev host
/bin/ip link set host up

cd /work
# The words were quoted by lab/vm.
eval "set -- $(cat /lab/arguments)"
/bin/sh /lab/script "$@" </dev/null >/dev/vport0p1 2>/dev/vport0p2
echo $? >/dev/vport0p3
poweroff -f
