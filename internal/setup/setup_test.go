package setup

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/join"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tryOptions returns the options of a try in a directory.
func tryOptions(dir string) Options {
	return Options{Driver: Fake, Config: filepath.Join(dir, "etc"), Data: filepath.Join(dir, "data"), Home: dir}
}

// The part of init in a file is added, replaced and removed, and the rest stays to the byte.
func TestBlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.conf")
	for _, own := range []string{"", "[DEFAULT]\n# debug = false\n", "# no newline at the end"} {
		must(t, os.WriteFile(path, []byte(own), 0o644))
		must(t, writeBlock(path, "[api]\nauth_strategy = http_basic\n"))
		text, _ := os.ReadFile(path)
		if !strings.HasPrefix(string(text), own) || !strings.Contains(string(text), "auth_strategy = http_basic\n") {
			t.Errorf("%q: %q", own, text)
		}
		must(t, os.WriteFile(path, append(text, "# later\n"...), 0o644))
		must(t, writeBlock(path, "[api]\nauth_strategy = keystone\n"))
		if _, same, err := readBlock(path, "[api]\nauth_strategy = keystone\n"); !same || err != nil {
			t.Errorf("%q: not the same: %v", own, err)
		}
		text, _ = os.ReadFile(path)
		if strings.Count(string(text), "auth_strategy") != 1 || len(optionsOutside(string(text))) != 0 {
			t.Errorf("%q: %q", own, text)
		}
		must(t, writeBlock(path, ""))
		want := own
		if own != "" && !strings.HasSuffix(own, "\n") {
			want += "\n"
		}
		if text, _ = os.ReadFile(path); string(text) != want+"# later\n" {
			t.Errorf("%q: %q", own, text)
		}
	}
	must(t, os.WriteFile(path, nil, 0o644))
	must(t, writeBlock(path, "x = 1\n"))
	must(t, writeBlock(path, ""))
	if exists(path) {
		t.Error("the empty file remains")
	}
	got := optionsOutside("# a\n[DEFAULT]\n  host = x\n" + withBlock("", "y = 1\n"))
	if !slices.Equal(got, []string{"host = x"}) {
		t.Error(got)
	}
}

// The range of the network overlaps no range of the host.
func TestFreeRange(t *testing.T) {
	route := "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n" +
		"eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n" +
		"eth0\t0000420A\t00000000\t0001\t0\t0\t0\t0000FEFF\t0\t0\t0\n" // 10.66.0.0/15
	taken := parseRoutes(route)
	if want := []netip.Prefix{netip.MustParsePrefix("10.66.0.0/15")}; !slices.Equal(taken, want) {
		t.Fatal(taken)
	}
	if cidr, err := freeRange(taken); err != nil || cidr != "10.68.0.0/24" {
		t.Error(cidr, err)
	}
	if _, err := freeRange([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}); !fault.Is(err, fault.Conflict) {
		t.Error(err)
	}
}

// A certificate is valid for its address, and is made again before it expires or after its key is lost.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	given := tryOptions(dir)
	given.Listen = "10.1.2.3"
	o, err := given.Complete()
	must(t, err)
	must(t, os.Mkdir(o.Config, 0o700))
	now := time.Now()
	must(t, makeAuthority(o.caKey(), o.caFile(), now))
	var out strings.Builder
	usable := func(o Options, at time.Time) bool { return certificateMade(&Cloud{o: o, out: &out}, at) }
	if usable(o, now) {
		t.Error("there is no certificate")
	}
	must(t, makeCertificate(o, now))
	other := o
	other.Listen = "10.1.2.4:8770"
	for _, c := range []struct {
		o    Options
		at   time.Time
		want bool
	}{{o, now, true}, {other, now, false}, {o, now.Add(certificateTime - renewBefore - 2*time.Hour), true},
		{o, now.Add(certificateTime - renewBefore + time.Hour), false}} {
		if got := usable(c.o, c.at); got != c.want {
			t.Errorf("%s %s: %v", c.o.Listen, c.at, got)
		}
	}
	if info, err := os.Stat(o.caKey()); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	must(t, os.Rename(o.caKey(), o.caKey()+".elsewhere"))
	if late := now.Add(certificateTime - time.Hour); !usable(o, late) || usable(o, late.Add(2*time.Hour)) ||
		strings.Count(out.String(), "expires within 60 days") != 1 {
		t.Errorf("the key of the authority is elsewhere: %s", out.String())
	}
	must(t, os.Remove(o.keyFile()))
	if usable(o, now) {
		t.Error("the key is lost")
	}
}

func TestOptions(t *testing.T) {
	dir := t.TempDir()
	for want, change := range map[string]func(*Options){
		`driver "xen" is not valid`:      func(o *Options) { o.Driver = "xen" },
		`"0.0.0.0" is not an address`:    func(o *Options) { o.Listen = "0.0.0.0" },
		`"controller" is not an address`: func(o *Options) { o.Listen = "controller:8770" },
		`"10.0.0" is not a range`:        func(o *Options) { o.Network.CIDR = "10.0.0" },
		`user "admin" is not valid`:      func(o *Options) { o.User = "admin" },
		`user "host-a" is not valid`:     func(o *Options) { o.User = "host-a" },
		`"a:b" is not valid as the name`: func(o *Options) { o.User = "a:b" },
		`"a b" is not the name of a`:     func(o *Options) { o.Project = "a b" },
	} {
		o := tryOptions(dir)
		change(&o)
		if _, err := o.Complete(); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	o, err := Options{Home: dir, Listen: "10.0.0.1"}.Complete()
	if err != nil || o.Listen != "10.0.0.1:8770" || o.URL() != "https://10.0.0.1:8770" || o.Driver != Libvirt {
		t.Errorf("%+v %v", o, err)
	}
	file := filepath.Join(dir, "init.yaml")
	must(t, os.WriteFile(file, []byte("driver: fake\nnetwork: {cidr: 10.9.0.0/24}\n"+
		"flavors: [{name: a, vcpus: 1, ram: 64}]\n"), 0o600))
	o, err = ReadFile(file)
	if err != nil || o.Driver != Fake || o.Network.CIDR != "10.9.0.0/24" || o.Flavors[0].RAM != 64 {
		t.Errorf("%+v %v", o, err)
	}
	must(t, os.WriteFile(file, []byte("drivr: fake\n"), 0o600))
	if _, err := ReadFile(file); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "drivr") ||
		!strings.Contains(err.Error(), "the options are driver") {
		t.Error(err)
	}
}

// A user of the machine whose name is not that of an account has the account "user".
func TestUserOfMachine(t *testing.T) {
	for name, want := range map[string]string{"ann": "ann", "admin": "user", "host-a": "user", "a:b": "user"} {
		c, err := New(tryOptions(t.TempDir()), Options{User: name}, os.Stderr)
		if err != nil || c.o.User != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The key of the authority is needed for new certificates only; an authority that has issued one is not replaced.
func TestAuthorityKept(t *testing.T) {
	given := tryOptions(t.TempDir())
	given.Listen = "10.1.2.3"
	o, err := given.Complete()
	must(t, err)
	c := &Cloud{o: o, out: os.Stderr}
	must(t, os.Mkdir(o.Config, 0o700))
	made := func(want bool, text string) {
		t.Helper()
		got, err := c.authority().made(t.Context())
		if got != want || (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%v %v, want %v %s", got, err, want, text)
		}
	}
	made(false, "")
	must(t, makeAuthority(o.caKey(), o.caFile(), time.Now()))
	must(t, makeCertificate(o, time.Now()))
	must(t, os.Remove(o.caKey()))
	made(true, "")
	if err := makeCertificate(o, time.Now()); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "restore") {
		t.Error(err)
	}
	must(t, os.WriteFile(o.caFile(), []byte("x"), 0o600))
	made(false, "is not PEM; restore it")
	must(t, os.Remove(o.caFile()))
	made(false, "restore it, such as from "+o.userCA())
}

// A cloud that was made is started with less space than a new one needs.
func TestSpaceOfNewCloud(t *testing.T) {
	least := leastDisk
	leastDisk = map[string]uint64{Fake: 1 << 62}
	defer func() { leastDisk = least }()
	o, err := tryOptions(t.TempDir()).Complete()
	must(t, err)
	for made, want := range map[string]int{"": 1, "service": 0} {
		n := 0
		checkDirectories(&Cloud{o: o}, &record{Made: []string{made}}, func(string, ...any) { n++ })
		if n != want {
			t.Errorf("%q: %d problems", made, n)
		}
	}
}

// A directory of the home is complete or missing: what a killed run leaves is used by the next one, and removed.
func TestDirectoryOfHome(t *testing.T) {
	o, err := tryOptions(t.TempDir()).Complete()
	must(t, err)
	path := filepath.Join(o.Home, ".ssh")
	one := (&Cloud{o: o, out: os.Stderr}).directory(path, 0o700)
	for _, run := range []func(context.Context) error{one.make, one.undo} {
		must(t, os.RemoveAll(path))
		must(t, os.Mkdir(path+datafile.Unfinished, 0o755))
		must(t, run(t.Context()))
		if exists(path + datafile.Unfinished) {
			t.Error("the incomplete directory remains")
		}
	}
	must(t, one.make(t.Context()))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info, err)
	}
}

// All that prevents a cloud is found at once, and nothing is made.
func TestProblems(t *testing.T) {
	dir := t.TempDir()
	o := tryOptions(dir)
	o.Driver, o.Listen = Libvirt, "127.0.0.1:1"
	must(t, os.MkdirAll(filepath.Join(dir, ".config", "openstack"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, ".config", "openstack", "clouds.yaml"), []byte("clouds: {berth: {}}\n"),
		0o600))
	must(t, os.MkdirAll(o.Config, 0o700))
	must(t, os.WriteFile(filepath.Join(o.Config, "berth.conf"), []byte("[DEFAULT]\nhost = x\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(o.Config, "htpasswd"), nil, 0o600))
	all, qemu := libvirtSocket, qemuSocket
	libvirtSocket, qemuSocket = filepath.Join(dir, "a"), filepath.Join(dir, "b")
	defer func() { libvirtSocket, qemuSocket = all, qemu }()
	t.Setenv("BERTH_LISTEN_IMAGE", "192.0.2.1:1") // no address of this machine
	var out strings.Builder
	c, err := New(o, Options{}, &out)
	must(t, err)
	err = c.Make(t.Context())
	for _, want := range []string{"libvirt does not run", `sets options already, such as "host = x"`,
		"htpasswd exists and is not from", "has a cloud berth that is not from", "192.0.2.1:1 cannot be used"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if exists(o.recordFile()) || strings.Contains(out.String(), "made") {
		t.Errorf("something was made: %s", out.String())
	}
	must(t, os.WriteFile(qemuSocket, nil, 0o600))
	if err = c.Make(t.Context()); err == nil || !strings.Contains(err.Error(), "enable --now virtproxyd.socket") {
		t.Errorf("%v; want the socket of virtproxyd", err)
	}
}

// A thing is in the record before it is made. A thing that exists already is not recorded, so that it is not removed.
func TestMakeOne(t *testing.T) {
	dir := t.TempDir()
	o := tryOptions(dir)
	must(t, os.Mkdir(o.Data, 0o700))
	var out strings.Builder
	c := &Cloud{o: o, out: &out}
	r, err := openRecord(o)
	must(t, err)
	defer r.close()
	r.Options = o
	recorded := func() []string {
		again := record{path: o.recordFile()}
		must(t, again.read())
		return again.Made
	}
	killed := errors.New("killed")
	made := false
	one := thing{id: "one", what: "one", made: func(context.Context) (bool, error) { return made, nil },
		make: func(context.Context) error {
			if !slices.Contains(recorded(), "one") {
				t.Error("made before it is recorded")
			}
			return killed
		}}
	if _, err := c.makeOne(t.Context(), r, one); !errors.Is(err, killed) {
		t.Error(err)
	}
	one.make = func(context.Context) error { made = true; return nil }
	if n, err := c.makeOne(t.Context(), r, one); n != 1 || err != nil {
		t.Error(n, err)
	}
	if n, err := c.makeOne(t.Context(), r, one); n != 0 || err != nil {
		t.Error(n, err)
	}
	others := thing{id: "others", what: "others", made: done(true)}
	if n, err := c.makeOne(t.Context(), r, others); n != 0 || err != nil || r.has("others") ||
		!strings.Contains(out.String(), "exists   others") {
		t.Error(n, err, out.String())
	}
	later := thing{id: "later", what: "later", hint: "remove it", later: true, made: done(false),
		make: func(context.Context) error { return nil }}
	for i := range 2 { // it is recorded once, although it does not exist yet
		if n, err := c.makeOne(t.Context(), r, later); n != 1-i || err != nil || !r.has("later") {
			t.Error(i, n, err)
		}
	}
	if _, err := openRecord(o); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second run at the same time: %v", err)
	}
}

// Other options than those of the cloud that was made are refused; no options, and the same ones, are not.
func TestOptionsOfSecondRun(t *testing.T) {
	dir := t.TempDir()
	given := tryOptions(dir)
	first, err := New(given, Options{User: "ann"}, os.Stderr)
	must(t, err)
	must(t, os.Mkdir(given.Data, 0o700))
	r, err := openRecord(first.o)
	must(t, err)
	r.Options = first.o
	must(t, r.add("x"))
	must(t, r.close())
	for _, same := range []Options{{Data: given.Data}, given} {
		if c, err := New(same, Options{User: "bob", Home: "/elsewhere"}, os.Stderr); err != nil || c.o.User != "ann" {
			t.Errorf("%+v: %v", same, err)
		}
	}
	for _, other := range []Options{{Data: given.Data, Driver: Libvirt}, {Data: given.Data, Listen: "10.0.0.1"},
		{Data: given.Data, Network: Network{CIDR: "10.1.0.0/24"}}} {
		if _, err := New(other, Options{}, os.Stderr); !fault.Is(err, fault.Conflict) {
			t.Errorf("%+v: %v", other, err)
		}
	}
}

// The guide shows the files that are written.
func TestFilesInGuide(t *testing.T) {
	text, err := os.ReadFile("../../docs/guide/2-small-cloud.md")
	must(t, err)
	o, err := Options{Home: t.TempDir(), Listen: "10.0.0.1"}.Complete()
	must(t, err)
	first := &Cloud{o: o, out: os.Stderr}
	if shown := "```ini\n" + first.configuration() + "```\n"; !strings.Contains(string(text), shown) {
		t.Errorf("docs/guide/2-small-cloud.md does not show\n%s", shown)
	}
	o, err = Options{Home: t.TempDir(), Join: "https://10.0.0.1:8770"}.Complete()
	must(t, err)
	second := &Cloud{o: o, out: os.Stderr, joined: &join.Joined{Local: "10.0.0.2",
		Grant: join.Grant{Account: "host-two", Password: "secret"}}}
	written := agentConfiguration(second)
	shown, rest, _ := strings.Cut(written, "[compute]\n")
	if !strings.Contains(string(text), "```ini\n"+shown+"```\n") || strings.Count(rest, "username = host-two\n") != 3 ||
		!strings.HasSuffix(rest, "[vxlan]\nlocal_ip = 10.0.0.2\n") {
		t.Errorf("docs/guide/2-small-cloud.md does not show\n%s", written)
	}
}
