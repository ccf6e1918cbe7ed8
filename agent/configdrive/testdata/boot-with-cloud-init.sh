#!/bin/sh
# boot-with-cloud-init.sh DRIVE CACHE ROOT MAC…
#
# Does what a cloud image does at its first boot, with Debian's own cloud-init and ifupdown, and prints the result in
# sections. DRIVE is a config drive, CACHE the directory for downloaded packages, ROOT an empty directory, and MAC… are
# the MAC addresses of the interfaces. To try another version of cloud-init, replace its package in CACHE/packages.
#
# With METADATA, a program that serves metadata on 169.254.169.254, there is no drive, and DRIVE is not used: a DHCP
# server leases 10.0.0.5 to the first interface, and cloud-init asks for the metadata. The environment of process 1 says
# what the firmware of a guest says.
#
# Runs as root in namespaces of its own for mounts, the network, the host name and processes. The file system of the
# guest is that of this machine below a layer in memory, with the packages unpacked into it.
#
# One part is not that of a guest: kernels without ISO 9660 cannot mount the drive, so mount(8) calls the helper
# mount.iso9660 below, which extracts it. The names have lower case, as Linux shows them.
set -eu
drive=$1 cache=$2 root=$3
shift 3

# The packages are downloaded once, from the machine's own sources, and not installed: cloud-init would run at the next
# start of the machine.
fetch() {
	apt-get -q -o APT::Sandbox::User=root download cloud-init ifupdown net-tools python3-attr python3-certifi \
		python3-chardet python3-configobj python3-idna python3-jinja2 python3-jsonpatch python3-json-pointer \
		python3-jsonschema python3-markupsafe python3-netifaces python3-oauthlib python3-pkg-resources \
		python3-pyrsistent python3-requests python3-serial python3-six python3-urllib3 python3-yaml
}
download() {
	mkdir -p "$cache"
	exec 8>"$cache/lock"
	flock -w 300 8
	[ ! -d "$cache/packages" ] || return 0
	rm -rf "$cache/new"
	mkdir "$cache/new"
	(
		cd "$cache/new"
		fetch || { apt-get -q -o DPkg::Lock::Timeout=300 update && fetch; }
	) >"$cache/log" 2>&1 || { tail -n 5 "$cache/log" >&2; exit 1; }
	mv "$cache/new" "$cache/packages"
}
if [ -z "${BERTH_NAMESPACES:-}" ]; then
	download
	exec 8>&-
	export BERTH_NAMESPACES=1
	[ -z "${METADATA:-}" ] || export product_name="OpenStack Nova"
	exec unshare --mount --propagation private --uts --net --ipc --pid --fork --kill-child sh "$0" "$drive" "$cache" \
		"$root" "$@"
fi

mount -t tmpfs -o mode=755 tmpfs "$root"
mkdir "$root/upper" "$root/work" "$root/merged"
mount -t overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" overlay "$root/merged"
cd "$root/merged"
for package in "$cache"/packages/*.deb; do
	dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink
done

mount -t proc proc proc
mount -t sysfs sysfs sys
for at in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs "$at"; done
for name in null zero full random urandom tty; do cp -a "/dev/$name" dev/; done
if [ -z "${METADATA:-}" ]; then
	loop=$(losetup --read-only --find --show "$drive")
	exec 9<"$loop"
	losetup --detach "$loop" # when the last process that has it open ends
	cp -a "$loop" dev/vdb
fi
cat >usr/sbin/mount.iso9660 <<'END'
#!/bin/sh -e
mount -t tmpfs tmpfs "$2"
bsdtar -x -f "$1" -C "$2"
find "$2" -depth -mindepth 1 | while read -r path; do
	lower=$(basename "$path" | tr A-Z a-z)
	[ "${path##*/}" = "$lower" ] || mv "$path" "${path%/*}/$lower"
done
END
chmod +x usr/sbin/mount.iso9660
# The machine's root file system, packages and host keys are not those of an image: these modules leave them alone.
cat >etc/cloud/cloud.cfg.d/99-test.cfg <<'END'
locale: C.UTF-8
resize_rootfs: false
growpart: {mode: "off"}
apt: {preserve_sources_list: true}
ssh_genkeytypes: [ed25519]
END
rm -rf etc/network/interfaces.d/* etc/netplan
echo 'source /etc/network/interfaces.d/*' >etc/network/interfaces # as the package makes it when it is installed
: >etc/resolv.conf
hostname before-the-boot
echo before-the-boot >etc/hostname

ip link set lo up
number=0
for mac in "$@"; do
	ip link add "eth$number" address "$mac" type veth peer name "wire$number"
	ip link set "wire$number" up
	number=$((number + 1))
done

if [ -n "${METADATA:-}" ]; then
	ip addr add 169.254.169.254/32 dev lo
	ip addr add 10.0.0.1/22 dev wire0
	dnsmasq --conf-file=/dev/null --port=0 --interface=wire0 --bind-interfaces --user=root --leasefile-ro \
		--pid-file="$root/dhcp.pid" --dhcp-range=10.0.0.0,static,255.255.252.0 --dhcp-host="$1,10.0.0.5"
	"$METADATA" >"$root/metadata.log" 2>&1 &
fi

guest() { chroot . env PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
step() { guest "$@" >"$root/log" 2>&1 || { echo "$*: exit status $?" && cat "$root/log"; } >&2; }
section() { echo "== $1"; }
step /usr/lib/cloud-init/ds-identify --force
step cloud-init init --local
# The second interface has static addresses.
step ifup eth1
step cloud-init init
step cloud-init modules --mode=config
step cloud-init modules --mode=final

section version
guest cloud-init --version 2>&1
section status
guest cloud-init status --long || true
section hostname
hostname
cat etc/hostname
section keys
cat home/debian/.ssh/authorized_keys
section interfaces
cat etc/network/interfaces.d/50-cloud-init
section addresses
ip -oneline address show eth1
ip address show eth1 | grep -w mtu
section routes
ip route show dev eth1
ip -6 route show dev eth1
section user-data
cat run/user-data || true
section metadata
guest cloud-init query ds.meta_data
data=tmp/network_data.json
if [ -n "${METADATA:-}" ]; then
	curl -sS http://169.254.169.254/openstack/latest/network_data.json >"$data"
else
	bsdtar -x -O -f "$drive" OPENSTACK/LATEST/NETWORK_DATA.JSON >"$data"
fi
number=0
names=""
for mac in "$@"; do
	names="$names -m eth$number,$mac"
	number=$((number + 1))
done
# How images of other distributions configure their networks.
for pair in ubuntu:netplan debian:networkd centos:sysconfig fedora:network-manager; do
	kind=${pair#*:}
	section "$kind"
	# shellcheck disable=SC2086 # a list of words
	step cloud-init devel net-convert -p "/$data" -k network_data.json -d "/tmp/$kind" -D "${pair%:*}" -O "$kind" $names
	find "tmp/$kind" -type f | sort | xargs cat
done
section warnings
grep -E 'WARNING|ERROR|Traceback' var/log/cloud-init.log || true
