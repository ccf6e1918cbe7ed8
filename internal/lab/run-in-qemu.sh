#!/usr/bin/env bash
# run-in-qemu.sh PAYLOAD_DIR
#
# Boots a Linux kernel in QEMU under plain emulation (no KVM), copies PAYLOAD_DIR to /payload in the guest, runs ./run
# there as root, prints what it printed (stdout and stderr together) and exits with its status.  125 means that the lab
# itself failed.
#
# The guest (host name lab, q35, two NUMA nodes, intel-iommu on, busybox, loopback, no other network):
#   0000:11:00.0  NVMe PF, VFs at 0000:11:00.1-4   1b36:0010   NUMA node 0
#   0000:21:00.0  NVMe PF, VFs at 0000:21:00.1-4   1b36:0010   NUMA node 1
#   0000:22:00.0  e1000e NIC, no SR-IOV            8086:10d3   NUMA node 1
#   0000:00:03.0  QEMU's edu device                1234:11e8   no node (-1)
# With NICS=1 also two ports of one hub, whose VFs (igbvf) are network interfaces:
#   0000:12:00.0  igb PF, VFs at 0000:12:10.0-6    8086:10c9   NUMA node 0
#   0000:23:00.0  igb PF, VFs at 0000:23:10.0-6    8086:10c9   NUMA node 1
# With NESTED=1, which includes NICS=1, it can give devices to guests of its own: the IOMMU has caching mode, vfio-pci
# is loaded, VFs are bound to their drivers, each NVMe device has an empty namespace of 8 GiB, and /host is this
# machine's root with all its programs; what the guest writes there is lost at its end. It has 2.5 GiB and two CPUs.
#
# VFS=n            VFs switched on in each PF before the payload runs, 0 to 4 (default 4)
# NICS=1           with the two igb PFs; they need QEMU 8 or newer
# NESTED=1         with guests of its own
# LAB_TIMEOUT=s    seconds from power-on to power-off (default 900)
# LAB_START=s      seconds from power-on to the payload, after which the guest is started once more (default 300)
# LAB_CACHE=dir    where the unpacked kernel is kept, in dir/berth-lab (default $XDG_CACHE_HOME, ~/.cache or /tmp)
#
# Debian's qemu-system-x86, busybox-static and cpio are installed when missing (as root); the kernel is taken from
# Debian's linux-image package, unpacked, not installed. If the installed QEMU has no igb, a newer one from Debian's
# backports is unpacked likewise; the libraries that it needs are those of the installed one.
set -euo pipefail

say() { echo "lab: $*" >&2; }
die() { say "$@"; exit 125; }

payload=${1:-}
vfs=${VFS:-4}
nested=${NESTED:-}
nics=${NICS:-$nested}
limit=${LAB_TIMEOUT:-900} start_limit=${LAB_START:-300}
base=${LAB_CACHE:-${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}}
cache=${base:-/tmp}/berth-lab

[ $# -eq 1 ] || die "usage: run-in-qemu.sh PAYLOAD_DIR"
[ -d "$payload" ] || die "no payload directory $payload"
[ -x "$payload/run" ] || die "no executable file $payload/run: the guest runs it as ./run"
case $vfs in [0-4]) ;; *) die "VFS=$vfs: want a number from 0 to 4" ;; esac
case $nics in '' | 1) ;; *) die "NICS=$nics: want 1 or nothing" ;; esac
case $nested in '' | 1) ;; *) die "NESTED=$nested: want 1 or nothing" ;; esac
case $limit in '' | *[!0-9]* | 0*) die "LAB_TIMEOUT=$limit: want a number of seconds, 1 or more" ;; esac
case $start_limit in '' | *[!0-9]* | 0*) die "LAB_START=$start_limit: want a number of seconds, 1 or more" ;; esac
mkdir -p "$cache" || die "cannot make $cache: set LAB_CACHE to a directory that can be written"
[ "$(uname -m)" = x86_64 ] ||
  die "this machine is $(uname -m): the guest runs x86_64 binaries, so the lab needs an x86_64 machine"

work=$(mktemp -d "${TMPDIR:-/tmp}/berth-lab.XXXXXX") || die "cannot make a working directory in ${TMPDIR:-/tmp}"
qemu=
cleanup() {
  [ -z "$qemu" ] || kill "$qemu" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 125' HUP INT TERM

# One run at a time installs packages and unpacks the kernel; the others wait, long enough for a slow mirror.
exec 9>"$cache/lock"
flock -w 900 9 || die "another run has held $cache/lock for 15 minutes"

updated=
update() { # apt's lists are read again, once a run; another apt-get may hold their lock for a while
  [ -z "$updated" ] || return 0
  updated=yes
  [ "$(id -u)" = 0 ] || die "apt's package lists are missing or old, and only root can renew them: apt-get update"
  say "renewing apt's package lists"
  for _ in $(seq 12); do
    if apt-get update >"$work/apt" 2>&1; then return 0; fi
    grep -qi 'could not get lock' "$work/apt" || break
    sleep 10
  done
  cat "$work/apt" >&2
  die "apt-get update failed"
}

install() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "$@" >"$work/apt" 2>&1
}

missing() { # the packages of the programs that are not here
  [ -n "$(type -P qemu-system-x86_64)" ] || echo qemu-system-x86
  # The guest has no shared libraries: a dynamic busybox, which names its loader, would not start there.
  if [ -z "$(type -P busybox)" ] || grep -q '/ld-linux' "$(type -P busybox)"; then echo busybox-static; fi
  [ -n "$(type -P cpio)" ] || echo cpio
}

need() {
  local packages
  mapfile -t packages < <(missing)
  [ ${#packages[@]} -gt 0 ] || return 0
  [ -n "$(type -P apt-get)" ] ||
    die "missing here: ${packages[*]} (names of Debian's packages), and there is no apt-get to install them"
  [ "$(id -u)" = 0 ] || die "missing here: ${packages[*]}; as root: apt-get install ${packages[*]}"
  say "installing ${packages[*]}"
  install "${packages[@]}" || { update; install "${packages[@]}"; } ||
    { tail -n 20 "$work/apt" >&2; die "apt-get install ${packages[*]} failed"; }
  hash -r
  [ -z "$(missing)" ] || die "$(missing | xargs): installed, but not found in PATH=$PATH"
}

kernel() { # the kernel is renamed into the cache when it is complete
  ls "$cache"/kernel/boot/vmlinuz-* >/dev/null 2>&1 && return 0
  [ -n "$(type -P apt-get)" ] || die "no kernel in $cache/kernel, and no apt-get to fetch Debian's linux-image-amd64"
  image() { apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/{print $2; exit}'; }
  fetch() { (cd "$work" && apt-get download "$img" >"$work/apt" 2>&1); }
  local img
  img=$(image)
  [ -n "$img" ] || { update; img=$(image); }
  [ -n "$img" ] ||
    die "apt knows no kernel package (linux-image-amd64): is this Debian, with its main section in sources.list?"
  say "unpacking $img to $cache/kernel"
  fetch || { update; img=$(image); fetch; } || { tail -n 20 "$work/apt" >&2; die "cannot download $img"; }
  dpkg -x "$work/$img"_*.deb "$work/kernel" || die "cannot unpack $img"
  rm -rf "$cache/kernel" "$cache/kernel.new"
  mv "$work/kernel" "$cache/kernel.new" && mv "$cache/kernel.new" "$cache/kernel" || die "cannot write $cache/kernel"
  rm -f "$work/$img"_*.deb
}

# with_igb sets vm to the command of a QEMU that has igb devices. Debian's backports are read with package lists of
# their own, so nothing of this machine changes.
with_igb() {
  local release mirror
  has_igb() { "${vm[@]}" -machine none -device igb,help 2>&1 | grep -q '^igb options'; }
  has_igb && return 0
  vm=(env "QEMU_MODULE_DIR=$cache/qemu/usr/lib/x86_64-linux-gnu/qemu" "$cache/qemu/usr/bin/qemu-system-x86_64"
    -L "$cache/qemu/usr/share/seabios" -L "$cache/qemu/usr/share/qemu" -L /usr/lib/ipxe/qemu)
  [ -d "$cache/qemu" ] && return 0
  [ -n "$(type -P apt-get)" ] ||
    die "this machine's QEMU has no igb, and there is no apt-get to fetch a newer one: QEMU 8 or newer"
  say "unpacking a newer QEMU to $cache/qemu"
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mkdir -p "$work"/apt-{lists,cache}/partial "$work/qemu"
  mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    awk -v release="$release" '$1 == release { print $2; exit }')
  [ -n "$mirror" ] ||
    die "this machine has no package source of $release, from whose mirror a newer QEMU could be fetched"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release-backports main" \
    >"$work/backports.list"
  backports() {
    apt-get -o Dir::Etc::SourceList="$work/backports.list" -o Dir::Etc::SourceParts=/dev/null \
      -o Dir::State::Lists="$work/apt-lists" -o Dir::Cache="$work/apt-cache" \
      -o APT::Sandbox::User=root "$@" >"$work/apt" 2>&1
  }
  local packages=(qemu-system-x86 qemu-system-common qemu-system-data seabios)
  backports update && (cd "$work" && backports download "${packages[@]/%/\/$release-backports}") ||
    { tail -n 20 "$work/apt" >&2; die "cannot download ${packages[*]} from $release-backports"; }
  for package in "${packages[@]}"; do
    dpkg -x "$work/$package"_*.deb "$work/qemu" || die "cannot unpack $package"
    rm "$work/$package"_*.deb
  done
  mv "$work/qemu" "$cache/qemu" || die "cannot write $cache/qemu"
  has_igb || die "the QEMU in $cache/qemu does not start or has no igb"
}

need
kernel
vm=(qemu-system-x86_64)
[ -z "$nics" ] || with_igb
exec 9>&-
image=$(ls "$cache"/kernel/boot/vmlinuz-* | tail -n 1)
version=${image##*/vmlinuz-}

root=$work/root
mkdir -p "$root"/{bin,dev,etc,mod,payload,proc,root,sys,tmp}
cp "$(type -P busybox)" "$root/bin/busybox"
cp -rL "$payload/." "$root/payload/" || die "cannot copy $payload"
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
echo '127.0.0.1 localhost lab' >"$root/etc/hosts"

declare -A taken
module() { # copies its file to the guest, numbered after the modules that it needs; a built-in module has no file
  local file need
  [ -z "${taken[$1]:-}" ] || return 0
  taken[$1]=yes
  file=$(find "$cache/kernel" -path "*/modules/$version/*" \( -name "$1.ko" -o -name "$1.ko.xz" \) | head -n 1)
  [ -n "$file" ] || return 0
  case $file in
    *.xz) busybox unxz -c "$file" >"$work/module.$1" ;;
    *) cp "$file" "$work/module.$1" ;;
  esac
  for need in $(tr '\0' '\n' <"$work/module.$1" | sed -n 's/^depends=//p' | tr ',' ' '); do module "$need"; done
  mv "$work/module.$1" "$root/mod/$((100 + $(ls "$root/mod" | wc -l)))-$1.ko"
}
# t10-pi and ext4 load these at run time, so no module depends on them by name.
for m in crct10dif_generic crc64_rocksoft_generic crc32c_generic nvme e1000e ${nics:+igb igbvf} \
  ${nested:+virtio_pci 9pnet_virtio 9p overlay ext4 8021q vfio_iommu_type1 vfio-pci}; do module "$m"; done

# The kernel's messages go to the first serial port, the payload's output to the second, its status to the third, so
# they are never mixed.  VFS and NESTED come from the kernel's command line, which makes them variables of init.
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root TMPDIR=/tmp
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
ip link set lo up; hostname lab
for m in /mod/*.ko; do insmod "$m"; done
give_up() { echo "lab: $*"; poweroff -f; }
for pf in /sys/bus/pci/devices/*/sriov_totalvfs; do
  pf=${pf%/sriov_totalvfs}
  i=0
  until [ -e "$pf/driver" ]; do
    i=$((i + 1)); [ $i -le 120 ] || give_up "no driver took ${pf##*/}"
    sleep 1
  done
  # Without guests no driver may bind the VFs; libvirt takes them from their drivers and returns them.
  echo "${NESTED:-0}" >"$pf/sriov_drivers_autoprobe"
  echo "$VFS" >"$pf/sriov_numvfs" || give_up "cannot switch on $VFS VFs of ${pf##*/}"
done
[ -z "$NESTED" ] || {
  mkdir -p /machine /host
  mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 machine /machine &&
    mkdir -p /tmp/written /tmp/work &&
    mount -t overlay -o lowerdir=/machine,upperdir=/tmp/written,workdir=/tmp/work machine /host ||
    give_up "cannot mount the machine's root"
}
dmesg -n 1
stty -F /dev/ttyS1 raw -echo; stty -F /dev/ttyS2 raw -echo
echo started >/dev/ttyS2
(cd /payload && exec ./run) </dev/null >/dev/ttyS1 2>&1
echo $? >/dev/ttyS2
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) >"$work/initrd" ||
  die "cannot write the guest's file system to $work"
rm -rf "$root"

nvme() { # number, bus
  echo -device "nvme-subsys,id=ss$1" -device "nvme,id=nv$1,serial=lab$1,subsys=ss$1,bus=$2,sriov_max_vfs=4,\
sriov_vq_flexible=8,sriov_vi_flexible=4,max_ioqpairs=16,msix_qsize=16"
  [ -z "$nested" ] || {
    truncate -s 8G "$work/namespace$1"
    echo -drive "id=disk$1,file=$work/namespace$1,format=raw,if=none" -device "nvme-ns,drive=disk$1,bus=nv$1,shared=on"
  }
}
igb() { # number, NUMA node, MAC address
  echo -device "pcie-root-port,id=igb$1,bus=pxb$2,chassis=$((4 + $1))" -netdev "hubport,id=hub$1,hubid=0" \
    -device "igb,bus=igb$1,netdev=hub$1,mac=$3"
}
memory=1024 cpus=2 threads= # of each node, memory in MiB; threads of QEMU for CPUs
# With memory above 4 GiB, SeaBIOS gives the buses 64-bit windows, and QEMU 10 maps the BARs of an igb's VFs at the low
# 32 bits of their addresses. Below 4 GiB, the windows and these BARs are there as well.
# QEMU 10 with a thread for each CPU has once ended with "iotlb_to_section: Assertion failed" in a run with guests.
[ -z "$nested" ] || memory=1280 cpus=1 threads=,thread=single
# shellcheck disable=SC2046 # nvme and igb print words
boot() { # starts QEMU
  timeout --foreground -k 10 "$limit" "${vm[@]}" -nodefaults -no-user-config -display none -no-reboot \
    -serial "file:$work/console" -serial "file:$work/output" -serial "file:$work/status" \
    -machine q35,kernel-irqchip=split -accel "tcg$threads" -cpu max -m "$((2 * memory))M" -smp "$((2 * cpus))" \
    -object "memory-backend-ram,id=m0,size=${memory}M" -numa "node,nodeid=0,cpus=0-$((cpus - 1)),memdev=m0" \
    -object "memory-backend-ram,id=m1,size=${memory}M" -numa "node,nodeid=1,cpus=$cpus-$((2 * cpus - 1)),memdev=m1" \
    -device "intel-iommu,intremap=on${nested:+,caching-mode=on}" \
    -device pxb-pcie,id=pxb0,bus=pcie.0,addr=1,bus_nr=16,numa_node=0 \
    -device pxb-pcie,id=pxb1,bus=pcie.0,addr=2,bus_nr=32,numa_node=1 \
    -device edu,bus=pcie.0,addr=3 \
    -device pcie-root-port,id=rp0,bus=pxb0,chassis=1 \
    -device pcie-root-port,id=rp1,bus=pxb1,chassis=2 \
    -device pcie-root-port,id=rp2,bus=pxb1,chassis=3 \
    $(nvme 0 rp0) $(nvme 1 rp1) -device e1000e,bus=rp2,mac=52:54:00:00:00:01 \
    $([ -z "$nics" ] || { igb 0 0 52:54:00:00:00:10; igb 1 1 52:54:00:00:00:20; }) \
    $([ -z "$nested" ] || echo -fsdev local,id=machine,path=/,security_model=none,readonly=on \
      -device virtio-9p-pci,bus=pcie.0,addr=4,fsdev=machine,mount_tag=machine) \
    -kernel "$image" -initrd "$work/initrd" \
    -append "console=ttyS0 panic=1 intel_iommu=on no_timer_check quiet VFS=$vfs NESTED=$nested" \
    </dev/null >"$work/qemu" 2>&1 &
  qemu=$!
}
started() { grep -q started "$work/status" 2>/dev/null; }
# An emulated CPU sometimes loses a timer while the kernel starts: then its tasks never go on, and QEMU idles.
for again in yes ''; do
  boot
  waited=0
  until started || ! kill -0 "$qemu" 2>/dev/null || [ "$waited" -ge "$start_limit" ]; do
    waited=$((waited + 1))
    sleep 1
  done
  if started || [ -z "$again" ] || ! kill "$qemu" 2>/dev/null; then break; fi
  wait "$qemu" || true
  say "the guest's kernel was not up after $start_limit s; it is started once more"
done
rc=0
wait "$qemu" || rc=$?
qemu=

touch "$work/console" "$work/output" "$work/status"
status=$(tr -cd 0-9 <"$work/status")
cat "$work/output"
[ "$status" != 0 ] || exit 0

mv -f "$work/console" "$cache/console.$$" && mv -f "$cache/console.$$" "$cache/console"
say "the guest's console of the last run that failed is in $cache/console"
[ -z "$status" ] || exit "$status"
cat "$work/qemu" >&2
say "its last lines:"
tail -n 40 "$cache/console" | tr -d '\r' >&2
case $rc in
  124 | 137) die "the guest was not done after $limit s and was switched off (LAB_TIMEOUT)" ;;
  0) die "the guest went down before its payload had ended" ;;
  *) die "QEMU ended with status $rc" ;;
esac
