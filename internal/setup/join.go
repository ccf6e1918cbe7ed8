package setup

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/join"
	"github.com/openberth/berth/internal/userfile"
)

// Token makes a token for one more host, and its account. It returns the token.
func Token(data string, valid time.Duration) (token, address string, err error) {
	o, found, err := ReadOptions(data)
	switch {
	case err != nil:
		return "", "", err
	case !found || o.Join != "":
		return "", "", fault.New(fault.NotFound, "there is no cloud that `berth init` made in %s; run `berth init --listen "+
			"IP` first, on the machine with the services", data)
	case !o.tls():
		return "", "", fault.New(fault.Conflict, "the cloud is served at %s, which no other machine reaches; remove it with "+
			"`berth init --undo` and make it with --listen IP", o.Listen)
	case valid <= 0:
		return "", "", fault.New(fault.Invalid, "the token would be valid for %s; give a longer time", valid)
	}
	authority, err := readCertificate(o.caFile())
	if err != nil {
		return "", "", err
	}
	r, err := openRecord(o)
	if err != nil {
		return "", "", err
	}
	defer r.close()
	files := userfile.Files{Users: o.userFile(), Roles: o.rolesFile()}
	grant := join.Grant{Account: hostPrefix + strings.ToLower(rand.Text()[:8]), Password: userfile.NewPassword()}
	if err := r.add("account " + grant.Account); err != nil {
		return "", "", err
	}
	if err := files.Add(userfile.User{Name: grant.Account, Project: hostProject, Roles: []string{"service"}},
		grant.Password); err != nil {
		return "", "", err
	}
	now := time.Now()
	secret, expired, err := join.Tokens{Dir: o.stateDir()}.Create(grant, now.Add(valid), now)
	for _, account := range expired { // which no host has
		if err := unlessMissing(files.Remove(account)); err != nil {
			return "", "", err
		}
		if err := r.remove("account " + account); err != nil {
			return "", "", err
		}
	}
	return join.Format(join.FingerprintOf(authority.Raw), secret), o.URL(), err
}

// Join makes this machine a host of the cloud at an address. The token is exchanged once: an interrupted run is
// completed without it.
func Join(ctx context.Context, given, usual Options, token string, out io.Writer) error {
	given.Join = strings.TrimRight(given.Join, "/")
	c, err := New(given, usual, out)
	if err != nil {
		return err
	}
	return c.makeHost(ctx, token)
}

// makeHost makes this machine a host of the cloud; the token may be empty if an earlier run has exchanged one.
func (c *Cloud) makeHost(ctx context.Context, token string) error {
	r, err := lockRecord(ctx, c, func(ctx context.Context, r *record) []error { return hostProblems(ctx, c, r) })
	if err != nil {
		return err
	}
	defer r.close()
	if r.Joined == nil {
		if token == "" {
			return fault.New(fault.Invalid, "the token is missing; write the one that `berth init token` prints on the first "+
				"machine: berth init --join %s TOKEN", c.o.Join)
		}
		joined, err := join.Call(ctx, c.o.Join, token)
		if err != nil {
			return err
		}
		r.Options, r.Joined = c.o, &joined
		if err := r.add("exchange"); err != nil {
			return err
		}
		c.say("made     the account %s of this host, by the token", joined.Account)
	}
	if err := r.begin(); err != nil {
		return err
	}
	c.joined = r.Joined
	changed := 0
	for _, t := range c.things() {
		n, err := c.makeOne(ctx, r, t)
		if err != nil {
			return fault.New(fault.KindOf(err), "cannot make %s: %w; correct this and run the command again, or remove what "+
				"was made with `berth init --undo`", t.what, err)
		}
		changed += n
	}
	if err := awaitHost(ctx, c); err != nil {
		return err
	}
	if changed == 0 {
		c.say("nothing to do: this machine is a host of %s; `berth init --undo` removes it", c.o.Join)
		return nil
	}
	c.say("\nThis machine, %s, is a host of %s. `berth init --undo` removes it.", hostName(c), c.o.Join)
	return nil
}

func (o Options) agentFile() string { return filepath.Join(o.Config, "agent.conf") }
func (o Options) agentDir() string  { return filepath.Join(o.Data, "agent") } // as berth-agent.service of the packages

// agentProcess is the agent of a machine that has joined.
func agentProcess(c *Cloud) process {
	o := c.o
	return process{unit: unitOf("berth-agent", o), pidFile: o.pidFile(), logFile: o.logFile(), args: []string{"agent",
		"run", "--config-file", o.agentFile(), "--data-dir", o.agentDir()}}
}

// hostThings returns the things of a machine that has joined, in the order in which they are made.
func hostThings(c *Cloud) []thing {
	o := c.o
	ca := thing{id: "authority", what: "the certificate of the cloud's authority in " + o.caFile(),
		hint: "rm " + o.caFile(), made: done(exists(o.caFile())),
		make: func(context.Context) error {
			return fault.Wrap(fault.Unavailable, datafile.ReplaceKept(o.caFile(), c.joined.CA, 0o644))
		},
		undo: func(context.Context) error { return removeFile(o.caFile()) }}
	exchange := thing{id: "exchange", what: "the record of this host's account; the first machine still lists the host " +
		"until `berth host forget " + hostName(c) + " --wait`", made: done(true),
		undo: func(context.Context) error { return nil }}
	list := []thing{exchange, c.directory(o.Config, 0o750), c.directory(o.agentDir(), 0o700)}
	if o.Driver == Libvirt {
		list = append(list, c.directory(o.instances(), 0o755), guestFiles(c), c.hostTables())
	}
	list = append(append(list, ca), moveThings(c)...)
	return append(list, c.block(o.agentFile(), agentConfiguration(c), "the configuration of the agent"),
		agentService(c))
}

// agentService is the running agent. Before it is stopped, it removes the networks of this host, which has no guests.
func agentService(c *Cloud) thing {
	p := agentProcess(c)
	t := p.thing()
	t.undo = func(ctx context.Context) error {
		guests, unread := guestsHere(c)
		if running, err := p.running(ctx); err == nil && running && guests == 0 && unread == nil {
			if err := awaitNoLinks(ctx, c); err != nil {
				return err
			}
		}
		return p.stop(ctx)
	}
	return t
}

// netDir has a directory for each link of this machine.
var netDir = "/sys/class/net"

// awaitNoLinks waits until the agent has removed its links from this machine.
func awaitNoLinks(ctx context.Context, c *Cloud) error {
	for until := time.Now().Add(bridgeTime); ; {
		found, _ := filepath.Glob(filepath.Join(netDir, "*", "ifalias")) // the pattern is valid
		var left []string
		for _, file := range found {
			if alias, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(alias), "berth:") {
				left = append(left, filepath.Base(filepath.Dir(file)))
			}
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(until) {
			c.say("kept     the links %s: the agent does not remove them; `ip link delete NAME` does", strings.Join(left, ", "))
			return nil
		}
		if err := backoff.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// agentConfiguration returns the options of the agent.
func agentConfiguration(c *Cloud) string {
	if c.joined == nil {
		return ""
	}
	o := c.o
	var b strings.Builder
	fmt.Fprintf(&b, "[DEFAULT]\ncompute_driver = %s\n", driverOption(o.Driver))
	if o.Host != "" {
		fmt.Fprintf(&b, "host = %s\n", o.Host)
	}
	if o.Sysfs != "" {
		fmt.Fprintf(&b, "[berth]\nsysfs = %s\n", o.Sysfs)
	}
	if o.Config != packagedConf {
		fmt.Fprintf(&b, "[oslo_concurrency]\nlock_path = %s\n", o.agentDir())
	}
	if o.Data != packagedData {
		fmt.Fprintf(&b, "[DEFAULT]\ninstances_path = %s\n", o.instances())
	}
	b.WriteString(o.virtOption() + moveOptions(c))
	for _, service := range [][2]string{{"placement", "placement"}, {"compute", "compute"}, {"neutron", "network"},
		{"glance", "image"}} {
		fmt.Fprintf(&b, "[%s]\nauth_type = http_basic\nusername = %s\npassword = %s\nendpoint_override = %s/%s\n"+
			"cafile = %s\n", service[0], c.joined.Account, c.joined.Password, o.Join, service[1], o.caFile())
	}
	if o.Driver == Fake {
		b.WriteString("[ovs]\nbridge_mappings = fake:br-fake\n")
	} else {
		fmt.Fprintf(&b, "[vxlan]\nlocal_ip = %s\n", cmp.Or(o.Local, c.joined.Local))
	}
	return b.String()
}

// hostProblems returns everything that prevents Join.
func hostProblems(ctx context.Context, c *Cloud, r *record) (all []error) {
	add := func(format string, args ...any) { all = append(all, fault.New(fault.Conflict, format, args...)) }
	checkDirectories(c, r, add)
	if c.o.Driver == Libvirt {
		checkLibvirt(c, add)
		checkMoves(c, r, add)
	}
	o := c.o
	text, _ := os.ReadFile(o.agentFile()) // a file that cannot be read cannot be written either
	if set := optionsOutside(string(text)); len(set) > 0 && !r.has("part of "+o.agentFile()) {
		add("%s sets options already, such as %q; move it away, or configure the agent yourself", o.agentFile(), set[0])
	}
	if exists(o.caFile()) && !r.has("authority") {
		add("%s exists and is not from `berth init`; move it away", o.caFile())
	}
	if running, err := agentProcess(c).running(ctx); err != nil {
		all = append(all, err)
	} else if running && !r.has("service") {
		add("an agent of Berth runs already; stop it with `systemctl disable --now berth-agent`")
	}
	return all
}

// awaitHost waits until the cloud lists this host as reported by its agent.
func awaitHost(ctx context.Context, c *Cloud) error {
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	client, err := hostClient(c)
	if err != nil {
		return err
	}
	p := agentProcess(c)
	for {
		hosts, err := client.Hosts(ctx)
		for _, h := range hosts {
			if h.Host == hostName(c) {
				return nil
			}
		}
		if running, _ := p.running(ctx); !running {
			return fault.New(fault.Unavailable, "the agent has ended; %s", p.reason())
		}
		if backoff.Sleep(ctx, 200*time.Millisecond) != nil {
			return fault.New(fault.Unavailable, "the cloud does not list this host in time (%v); %s", err, p.reason())
		}
	}
}

// hostClient returns a client of the host API with the account of this host.
func hostClient(c *Cloud) (host.Client, error) {
	calls := identity.ServiceCalls{Type: identity.BasicAccount, Name: c.joined.Account, Password: c.joined.Password}
	account, err := calls.Account()
	if err != nil {
		return host.Client{}, err
	}
	transport, err := rest.TLSFiles{CAFile: c.o.caFile()}.Transport()
	if err != nil {
		return host.Client{}, err
	}
	return host.Client{REST: &rest.Client{Base: c.o.Join + "/" + compute.CatalogType, Account: account,
		Headers: map[string]string{}, HTTP: &http.Client{Transport: transport, Timeout: callTime}}}, nil
}

// guestsHere returns how many guests this host has, by the directories of its drivers. The fault is Unavailable if they
// cannot be read: filepath.Glob would count none, also for a path that it takes for a pattern.
func guestsHere(c *Cloud) (n int, err error) {
	count := func(dir, pattern string) (found []os.DirEntry) {
		found, failed := os.ReadDir(dir)
		if !errors.Is(failed, fs.ErrNotExist) && !errors.Is(failed, syscall.ENOTDIR) &&
			!errors.Is(failed, syscall.ELOOP) {
			err = errors.Join(err, failed)
		}
		for _, one := range found {
			if is, _ := filepath.Match(pattern, one.Name()); is { // the patterns are valid
				n++
			}
		}
		return found
	}
	count(filepath.Join(c.o.agentDir(), "agent", "guests"), "*.json")
	const id = "????????-????-????-????-????????????"
	for _, one := range count(c.o.instances(), id) {
		count(filepath.Join(c.o.instances(), one.Name()), id)
	}
	return n, fault.Wrap(fault.Unavailable, err)
}

// CheckURL returns fault.Invalid for a URL that is not that of a cloud.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return fault.New(fault.Invalid, "%q is not the address of a cloud; write https://ADDRESS:PORT, as `berth init "+
			"token` prints it", address)
	}
	return nil
}
