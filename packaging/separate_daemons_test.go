package main

import (
	"strings"
	"testing"
)

// separateDaemons makes the units of libvirt's separate daemons, as other distributions have them, and ends the one
// daemon. Debian has no virtproxyd: its libvirtd runs in the place of it, and takes the sockets by the names that these
// units give them.
const separateDaemons = `systemctl disable --now libvirtd.service libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket
systemctl mask libvirtd.service libvirtd.socket
cd /etc/systemd/system
socket() { # UNIT ADDRESS NAME SERVICE BINDS
	printf '[Unit]\nBefore=%s.service\n%s\n[Socket]\nListenStream=%s\nFileDescriptorName=%s\nService=%s.service\n' \
		"$4" "$5" "$2" "$3" "$4" >"$1"
	printf 'SocketMode=0666\nRemoveOnStop=yes\n[Install]\nWantedBy=sockets.target\n' >>"$1"
}
socket virtproxyd.socket /run/libvirt/libvirt-sock libvirtd.socket virtproxyd ''
socket virtproxyd-tls.socket 16514 libvirtd-tls.socket virtproxyd "BindsTo=virtproxyd.socket
After=virtproxyd.socket"
socket virtqemud.socket /run/libvirt/virtqemud-sock virtqemud.socket virtqemud ''
cat >virtproxyd.service <<'END'
[Unit]
Description=Virtualization proxy daemon
Conflicts=libvirtd.service
Requires=virtproxyd.socket virtlogd.socket
After=virtproxyd.socket
[Service]
Type=notify
ExecStart=/usr/sbin/libvirtd --timeout 120
ExecReload=/bin/kill -HUP $MAINPID
KillMode=process
Restart=on-failure
[Install]
WantedBy=multi-user.target
END
printf '[Service]\nExecStart=/bin/sleep infinity\n' >virtqemud.service
systemctl daemon-reload
systemctl enable --now virtqemud.socket
`

// Where libvirt has separate daemons, init makes the one for other hosts listen, and undo ends that. Without the socket
// of all parts it names the command that starts it.
func TestInitWithSeparateDaemonsOfLibvirt(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make packages-test: needs root, systemd-nspawn and mmdebstrap")
	}
	const version = "0.0.1~1"
	system := system{name: "hosts", packages: packagesOn(t, "1-try-it.md"), guests: true}
	m := bootAs(t, system, "one", packagesOf(t, "deb", version))
	m.run("apt-get install -y /packages/" + version + "/berth_*.deb\nip link add wire type bridge\n" +
		"ip address add 10.0.0.1/24 dev wire\nip link set wire up\n" + separateDaemons)
	if out, err := m.output("berth init --listen 10.0.0.1"); err == nil ||
		!strings.Contains(out, "systemctl enable --now virtproxyd.socket") {
		t.Errorf("init without virtproxyd: %v %s", err, out)
	}
	const check = "berth agent check --config-file /etc/berth/berth.conf"
	m.run("systemctl enable --now virtproxyd.socket")
	m.run("berth init --listen 10.0.0.1")
	out := m.run("systemctl is-enabled virtproxyd-tls.socket\nsystemctl is-active virtproxyd-tls.socket virtproxyd\n" +
		"ss -Htln 'sport = 16514'\nls /etc/systemd/system/virtproxyd-tls.socket.d\n" + check)
	for _, part := range []string{"enabled\nactive\nactive\n", " 10.0.0.1:16514 ", "berth.conf\n", "0 errors, "} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q:\n%s", part, out)
		}
	}
	if strings.Contains(out, "moves") {
		t.Errorf("the check names moves:\n%s", out)
	}
	if out := m.run("berth host show one --os-cloud berth-admin"); strings.Contains(out, "16514") ||
		strings.Contains(out, "moves") {
		t.Errorf("a condition about moves:\n%s", out)
	}
	m.run("systemctl stop virtproxyd-tls.socket virtproxyd")
	if out := m.run(check); !strings.Contains(out, "warning: with several hosts: no server moves") ||
		!strings.Contains(out, "enable --now virtproxyd-tls.socket") {
		t.Errorf("libvirt does not listen, and the check prints:\n%s", out)
	}
	m.run("berth init --undo --force")
	out = m.run("systemctl is-enabled virtproxyd-tls.socket || true\nsystemctl is-active virtproxyd-tls.socket || true\n" +
		"ss -Htln 'sport = 16514'\nls -d /etc/pki /etc/systemd/system/virtproxyd-tls.socket.d 2>/dev/null || true")
	if out != "disabled\ninactive\n" {
		t.Errorf("after the undo:\n%s", out)
	}
	m.nothingRuns()
}
