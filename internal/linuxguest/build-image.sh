#!/usr/bin/env bash
# build-image.sh FILE
#
# Writes a raw disk image of a small Linux guest to FILE, 48 MiB. It boots under SeaBIOS: syslinux loads Debian's cloud
# kernel and an initramfs with busybox and dropbear. The guest reads its config drive: it sets its host name, gives its
# interfaces their static IPv4 addresses, or asks a DHCP server, and lets root log in by ssh with the keys. It prints
# what it found to its first serial port, and then runs a shell there.
#
# The packages are downloaded by apt-get from the machine's own sources, and unpacked in LAB_CACHE/linux-guest (default
# $XDG_CACHE_HOME, ~/.cache or /tmp). Nothing is installed, and no root is needed if apt's lists are present.
#
# GUEST_KERNEL=package   the kernel (default linux-image-cloud-amd64)
# GUEST_MODULES="m …"    drivers that the guest loads beside those of its disks and interfaces
# GUEST_OPTIONS="o …"    more options of the kernel's command line
set -euo pipefail
umask 022 # dropbear refuses the keys of a user whose directories others can write

die() { echo "linux guest: $*" >&2; exit 1; }

[ $# -eq 1 ] || die "usage: build-image.sh FILE"
base=${LAB_CACHE:-${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}}
image=${GUEST_KERNEL:-linux-image-cloud-amd64}
cache=${base:-/tmp}/linux-guest${GUEST_KERNEL:+/$GUEST_KERNEL}
[ "$(uname -m)" = x86_64 ] || die "this machine is $(uname -m); the guest needs an x86_64 machine"
mkdir -p "$cache" || die "$cache cannot be made; set LAB_CACHE to a writable directory"
work=$(mktemp -d "${TMPDIR:-/tmp}/berth-guest.XXXXXX")
trap 'rm -rf "$work"' EXIT

# unpack downloads the packages once; other runs wait for it. The directory gets its name when it is complete.
unpack() {
  [ ! -d "$cache/root" ] || return 0
  command -v apt-get >/dev/null || die "apt-get is missing: the guest is built from Debian packages"
  kernel() { apt-cache depends "$image" 2>/dev/null | awk '/Depends: linux-image/{print $2; exit}'; }
  fetch() {
    (cd "$work" && apt-get -o APT::Sandbox::User=root download "$(kernel)" busybox-static syslinux syslinux-common \
      mtools dosfstools dropbear-bin libc6 libcrypt1 libtomcrypt1 libtommath1 libgmp10 zlib1g >"$work/apt" 2>&1)
  }
  if [ -z "$(kernel)" ] || ! fetch; then
    apt-get -o DPkg::Lock::Timeout=600 update >"$work/apt" 2>&1 && fetch ||
      { tail -n 5 "$work/apt" >&2; die "the packages cannot be downloaded; run apt-get update as root and try again"; }
  fi
  mkdir "$work/packages"
  for package in "$work"/*.deb; do dpkg -x "$package" "$work/packages"; done
  rm -rf "$cache/root.new"
  mv "$work/packages" "$cache/root.new"
  mv "$cache/root.new" "$cache/root"
}
exec 9>"$cache/lock"
flock -w 900 9 || die "another run has held $cache/lock for 15 minutes"
unpack
exec 9>&-

root=$cache/root
busybox=$root/bin/busybox
[ -x "$busybox" ] || busybox=$root/usr/bin/busybox
version=$(basename "$(ls -d "$root"/lib/modules/* "$root"/usr/lib/modules/* 2>/dev/null | tail -n 1)")
guest=$work/guest
mkdir -p "$guest"/{bin,config,dev,etc/dropbear,lib,mod,proc,root/.ssh,sys,tmp}
cp "$busybox" "$guest/bin/busybox"
"$busybox" --list | while read -r name; do [ "$name" = busybox ] || ln -s busybox "$guest/bin/$name"; done

for file in ld-linux-x86-64.so.2 libc.so.6 libcrypt.so.1 libtomcrypt.so.1 libtommath.so.1 libgmp.so.10 libz.so.1; do
  found=$(find "$root" -name "$file" | head -n 1)
  [ -n "$found" ] || die "the packages of dropbear do not have $file"
  cp -L "$found" "$guest/lib/$file"
done
ln -s lib "$guest/lib64"
cp "$root/usr/sbin/dropbear" "$guest/bin/dropbear"

module() { # copies its file to the guest, numbered after the modules that it needs; a built-in module has no file
  local file need
  [ ! -e "$work/taken.$1" ] || return 0
  : >"$work/taken.$1"
  file=$(find "$root" -path "*/modules/$version/*" \( -name "${1//[-_]/[-_]}.ko" -o -name "${1//[-_]/[-_]}.ko.xz" \) |
    head -n 1)
  [ -n "$file" ] || return 0
  case $file in
  *.xz) "$busybox" unxz -c "$file" >"$work/module.$1" ;;
  *) cp "$file" "$work/module.$1" ;;
  esac
  for need in $(tr '\0' '\n' <"$work/module.$1" | sed -n 's/^depends=//p' | tr ',' ' '); do module "$need"; done
  mv "$work/module.$1" "$guest/mod/$((100 + $(ls "$guest/mod" | wc -l)))-$1.ko"
}
for name in virtio_pci virtio_blk virtio_net af_packet isofs ${GUEST_MODULES:-}; do module "$name"; done

cat >"$guest/init" <<'END'
#!/bin/busybox sh
export PATH=/bin HOME=/root TERM=vt102
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
mkdir /dev/pts; mount -t devpts pts /dev/pts
for module in /mod/*.ko; do
	case $module in
	# The guest computes checksums itself: Open vSwitch in user space forwards packets without them as they are.
	*-virtio_net.ko) insmod "$module" csum=0 gso=0 ;;
	*) insmod "$module" ;;
	esac
done
value() { sed -n 's/.*"'"$1"'": *"\([^"]*\)".*/\1/p' /config/openstack/latest/meta_data.json | head -n 1; }
name=no-config-drive
for disk in $(findfs LABEL=config-2 2>/dev/null) /dev/sr0 /dev/vdb; do
	if mount -t iso9660 -o ro "$disk" /config 2>/dev/null; then
		name=$(value hostname)
		break
	fi
done
hostname "$name"
echo "guest: host name $(hostname), server $(value uuid)"
keys=$(sed -n 's/.*"public_keys": *{\([^}]*\)}.*/\1/p' /config/openstack/latest/meta_data.json 2>/dev/null)
[ -z "$keys" ] || echo "guest: public keys $keys"
split() { sed 's/[][{},]/\n&\n/g' "/config/openstack/latest/$1" 2>/dev/null; }
split meta_data.json | sed -n 's/\\n"/"/; s/^ *"data": *"\([a-z][^"]*\)".*/\1/p' >/root/.ssh/authorized_keys
# of each static IPv4 address: the MAC address of its interface, the address, the netmask, the gateway
addresses() {
	split network_data.json | awk -F'"' '
		/^ *\[/ { list[++depth] = key }
		/^ *\]/ { depth-- }
		NF >= 2 { key = $2 }
		NF >= 5 { value[list[depth], key] = $4 }
		!/^ *}/ { next }
		list[depth] == "links" { mac[value["links", "id"]] = value["links", "ethernet_mac_address"] }
		list[depth] == "routes" && value["routes", "network"] == "0.0.0.0" { gateway = value["routes", "gateway"] }
		list[depth] == "networks" {
			if (value["networks", "type"] == "ipv4") print mac[value["networks", "link"]],
				value["networks", "ip_address"], value["networks", "netmask"], gateway
			gateway = ""
		}'
}
ip link set lo up
for link in /sys/class/net/*; do
	link=${link##*/}
	[ "$link" != lo ] || continue
	ip link set "$link" up
	mac=$(cat "/sys/class/net/$link/address")
	echo "guest: interface $link $mac"
	addresses | grep "^$mac " >/tmp/static || udhcpc -b -q -i "$link" -s /etc/udhcpc >/dev/null 2>&1
	while read -r mac address mask gateway; do
		ip address add "$address/$mask" dev "$link"
		[ -z "$gateway" ] || ip route add default via "$gateway"
		echo "guest: address $address on $link"
	done </tmp/static
done
[ ! -s /root/.ssh/authorized_keys ] || dropbear -R -s -P /tmp/dropbear.pid
for device in /sys/bus/pci/devices/*; do
	echo "guest: device ${device##*/} $(cat "$device/vendor"):$(cat "$device/device")"
done
user=/config/openstack/latest/user_data
if [ -e $user ] && head -n 1 $user | grep -q '^#!'; then
	cp $user /tmp/user_data && chmod +x /tmp/user_data && /tmp/user_data
fi
echo "guest: ready after $(cut -d' ' -f1 /proc/uptime) s"
export PS1="$(hostname)# "
while :; do setsid sh -c 'exec sh -i </dev/ttyS0 >/dev/ttyS0 2>&1'; done
END
chmod +x "$guest/init"
cat >"$guest/etc/udhcpc" <<'END'
#!/bin/busybox sh
# Sets the address that a DHCP server has leased.
[ "$1" = bound ] || exit 0
ip address add "$ip/$mask" dev "$interface"
[ -z "$router" ] || ip route add default via "${router%% *}"
echo "guest: address $ip on $interface" >/dev/ttyS0
END
chmod +x "$guest/etc/udhcpc"
echo 'root:x:0:0:root:/root:/bin/sh' >"$guest/etc/passwd"
(cd "$guest" && find . | sort | "$busybox" cpio -o -H newc -R 0:0 2>/dev/null | gzip -1n) >"$work/initrd"

# The whole disk is one FAT file system, whose first sector is syslinux. no_timer_check: on a busy machine the emulated
# timer is late, and the kernel would panic with "IO-APIC + timer doesn't work".
cat >"$work/syslinux.cfg" <<END
SERIAL 0 115200
DEFAULT linux
LABEL linux
  KERNEL vmlinuz
  INITRD initrd
  APPEND console=ttyS0 quiet loglevel=3 panic=10 tsc=reliable no_timer_check ${GUEST_OPTIONS:-}
END
disk=$work/disk.img
truncate -s 48M "$disk"
export PATH=$root/usr/bin:$root/sbin:$root/usr/sbin:$PATH MTOOLS_SKIP_CHECK=1
mkfs.vfat -n GUEST "$disk" >/dev/null
mcopy -i "$disk" "$(ls "$root"/boot/vmlinuz-* | tail -n 1)" ::vmlinuz
mcopy -i "$disk" "$work/initrd" ::initrd
mcopy -i "$disk" "$work/syslinux.cfg" ::syslinux.cfg
# syslinux installs with the mtools of its PATH.
syslinux --install "$disk"
mv "$disk" "$1"
