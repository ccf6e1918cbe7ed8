package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// The limits of waiting for the services, and for the first report of the host.
const (
	answerTime = 60 * time.Second
	reportTime = 3 * time.Minute
)

// things returns all things in the order in which they are made.
func (c *Cloud) things() []thing {
	if c.o.Join != "" {
		return hostThings(c)
	}
	o := c.o
	list := []thing{c.directory(o.Config, 0o750), c.directory(o.stateDir(), 0o700)}
	for _, path := range []string{filepath.Dir(filepath.Dir(o.cloudsFile())), filepath.Dir(o.cloudsFile()),
		filepath.Join(o.Home, ".ssh")} {
		list = append(list, c.directory(path, 0o700))
	}
	if o.Driver == Libvirt {
		list = append(list, c.directory(o.instances(), 0o755), guestFiles(c), c.hostTables())
	}
	if o.tls() {
		list = append(list, c.authority(), c.userCA(), c.certificate(), hostAuthorities(c))
	}
	list = append(list, moveThings(c)...)
	list = append(list, c.clouds(), c.account(admin, adminCloud, admin, "admin"),
		c.account(o.User, clouds0, o.Project, "member"),
		c.block(o.confFile(), c.configuration(), "the configuration"),
		c.block(o.envFile(), "BERTH_LISTEN="+o.Listen+"\n", "the address of the APIs"), c.service())
	for _, f := range o.Flavors {
		list = append(list, c.flavor(f))
	}
	list = append(list, c.network(), c.rule("tcp", 22), c.rule("icmp", 0))
	return append(append(list, c.sshKeys()...), c.keyPair())
}

// New returns the cloud with these options. given are those of the command line and of the file; usual are those of the
// machine and its user, for options that are not given. If an earlier run has made a cloud in the data directory, its
// options apply, and a given one that differs is fault.Conflict.
//
// A user of the machine whose name cannot be used, such as admin, has the account "user".
func New(given, usual Options, out io.Writer) (*Cloud, error) {
	if usual.User != "" && checkUser(usual.User) != nil {
		usual.User = ""
	}
	made, found, err := ReadOptions(cmp.Or(given.Data, packagedData))
	if err != nil {
		return nil, err
	}
	if !found {
		o, err := over(given, usual).Complete()
		return &Cloud{o: o, out: out}, err
	}
	merged, err := over(given, made).Complete()
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(merged, made) {
		return nil, fault.New(fault.Conflict, "`berth init` has made a cloud with other options (see %s); remove it with "+
			"`berth init --undo` first, or give no options", made.recordFile())
	}
	return &Cloud{o: made, out: out}, nil
}

// over returns the given options, and those of base where none is given.
func over(given, base Options) Options {
	out := reflect.ValueOf(&base).Elem()
	from := reflect.ValueOf(given)
	for i := range from.NumField() {
		if !from.Field(i).IsZero() && from.Type().Field(i).Name != "Network" {
			out.Field(i).Set(from.Field(i))
		}
	}
	base.Network.Name = cmp.Or(given.Network.Name, base.Network.Name)
	base.Network.CIDR = cmp.Or(given.Network.CIDR, base.Network.CIDR)
	return base
}

// Plan prints what Make would make. It changes nothing.
func (c *Cloud) Plan(ctx context.Context) error {
	r := &record{path: c.o.recordFile()}
	if err := r.read(); err != nil {
		return err
	}
	problems := c.problems(ctx, r)
	c.joined = r.Joined
	running, _ := c.process().running(ctx)
	for _, t := range c.things() {
		state := "would make"
		switch made, err := c.isMade(ctx, t, running); {
		case err == nil && (made || t.later) && r.has(t.id):
			state = "has made  "
		case err == nil && made:
			state = "would keep"
		}
		c.say("%s %s", state, t.what)
	}
	return errors.Join(problems...)
}

// isMade is made of a thing. Things of the APIs are not made while the service does not run.
func (c *Cloud) isMade(ctx context.Context, t thing, running bool) (bool, error) {
	if ofAPI(t) && !running {
		return false, nil
	}
	return t.made(ctx)
}

// Make makes what is missing, and prints it. It first returns all reasons why it cannot. On a machine that has joined a
// cloud it completes that.
func (c *Cloud) Make(ctx context.Context) error {
	if c.o.Join != "" {
		return c.makeHost(ctx, "")
	}
	r, err := lockRecord(ctx, c, c.problems)
	if err != nil {
		return err
	}
	defer r.close()
	r.Options = c.o
	if err := r.begin(); err != nil {
		return err
	}
	changed := 0
	for _, t := range c.things() {
		n, err := c.makeOne(ctx, r, t)
		if err != nil {
			return fault.New(fault.KindOf(err), "cannot make %s: %w; correct this and run `berth init` again, or remove what "+
				"was made with `berth init --undo`", t.what, err)
		}
		changed += n
		if t.id == "service" {
			if err := c.awaitServices(ctx); err != nil {
				return err
			}
		}
	}
	if changed == 0 {
		c.say("nothing to do: the cloud is as `berth init` makes it; `berth init --undo` removes it")
		return nil
	}
	c.next()
	return nil
}

// lockRecord returns the record, locked, or all reasons why nothing can be made.
func lockRecord(ctx context.Context, c *Cloud, problems func(context.Context, *record) []error) (*record, error) {
	if err := makeDirectory(c.o.Data); err != nil {
		return nil, err
	}
	r, err := openRecord(c.o)
	if err != nil {
		return nil, err
	}
	if found := problems(ctx, r); len(found) > 0 {
		return nil, errors.Join(append(found, r.close())...)
	}
	return r, nil
}

// makeOne makes a thing if it is missing, and returns how many it has made. A thing that exists already and is not in
// the record belongs to others: it is used, and not removed by Undo.
func (c *Cloud) makeOne(ctx context.Context, r *record, t thing) (int, error) {
	made, err := t.made(ctx)
	if err != nil || t.later && r.has(t.id) {
		return 0, err
	}
	if made {
		if !r.has(t.id) && !strings.HasPrefix(t.id, "directory ") {
			c.say("exists   %s: it is used, and `berth init --undo` keeps it", t.what)
		}
		return 0, nil
	}
	if err := r.add(t.id); err != nil {
		return 0, err
	}
	if err := t.make(ctx); err != nil {
		return 0, err
	}
	c.say("made     %s\n           undo: %s", t.what, t.hint)
	return 1, nil
}

// awaitServices waits until the APIs answer and the host has reported.
func (c *Cloud) awaitServices(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime+reportTime)
	defer cancel()
	client, err := c.hosts()
	if err != nil {
		return err
	}
	p, began, said := c.process(), time.Now(), false
	for {
		hosts, err := client.Hosts(ctx)
		if err == nil && len(hosts) > 0 {
			return nil
		}
		if err == nil {
			err = fault.New(fault.Unavailable, "the services answer, but the agent has not reported this host")
		}
		running, _ := p.running(ctx)
		if answer := rest.StatusOf(err); !running || answer != nil && answer.Code < 500 && time.Since(began) > answerTime {
			return fault.New(fault.Unavailable, "the cloud does not run: %w; %s", err, p.reason())
		}
		if !said && time.Since(began) > 3*time.Second {
			c.say("waiting  for the services and the first report of this host; %s has the log", p.log())
			said = true
		}
		if backoff.Sleep(ctx, 200*time.Millisecond) != nil {
			return fault.New(fault.Unavailable, "the cloud is not ready in time: %w; %s", err, p.reason())
		}
	}
}

// next prints what can be done now.
func (c *Cloud) next() {
	c.say(`
The cloud is ready at %s. The commands of %s use the account %s by default;
--os-cloud %s is that of the administrator. Next:

    berth image build debian.img --name debian    # a small Linux, or: berth image add URL --name debian
    berth launch web --image debian

`+"`berth init --undo` removes all of this.", c.o.URL(), c.o.Home, c.o.User, adminCloud)
}

// ofAPI reports whether a thing is in the services.
func ofAPI(t thing) bool {
	for _, kind := range []string{"flavor ", "network ", "rule ", "key pair"} {
		if len(t.id) >= len(kind) && t.id[:len(kind)] == kind {
			return true
		}
	}
	return false
}

// Undo removes what Make has made, in the opposite order. It returns fault.Conflict if the cloud has servers or images,
// unless force is set: then it deletes them.
func (c *Cloud) Undo(ctx context.Context, force bool) error {
	if !exists(c.o.recordFile()) {
		c.say("nothing to do: there is no cloud that `berth init` made in %s", c.o.Data)
		removeData(c.o.Data) // of an undo that was killed after it had removed the record
		return nil
	}
	r, err := openRecord(c.o)
	if err != nil {
		return err
	}
	defer r.close()
	if err := c.emptied(ctx, r, force); err != nil {
		return err
	}
	running, err := c.process().running(ctx)
	if err != nil {
		return err
	}
	c.joined, c.undoing = r.Joined, true
	things := c.things()
	things = append(things[:2:2], append(c.hostAccounts(r), things[2:]...)...) // after the service
	for i := range things {
		t := things[len(things)-1-i]
		if !r.has(t.id) {
			continue
		}
		if err := undoOne(ctx, c, r, t, running); err != nil {
			return err
		}
	}
	removeData(c.o.Data)
	return nil
}

// undoOne removes a thing and its record.
func undoOne(ctx context.Context, c *Cloud, r *record, t thing, running bool) error {
	if t.id == "service" {
		r.Stopping = true
		if err := r.write(); err != nil {
			return err
		}
	}
	line := "removed  " + t.what
	var reason kept
	if ofAPI(t) && !running { // its state is removed with the directory, if that is recorded
		line = "gone     " + t.what
	} else if err := t.undo(ctx); errors.As(err, &reason) {
		line = "kept     " + t.what + ": " + string(reason)
	} else if err != nil {
		return fault.New(fault.KindOf(err), "cannot remove %s: %w; correct this and run `berth init --undo` again", t.what,
			err)
	}
	if err := r.remove(t.id); err != nil {
		return err
	}
	c.say("%s", line)
	return nil
}

// emptied returns whether the cloud has no servers and images; with force it deletes the servers. A cloud that does not
// run has no state if it is not made completely; if an interrupted undo has stopped it, that one has found it empty.
func (c *Cloud) emptied(ctx context.Context, r *record, force bool) error {
	if !r.has("service") {
		return nil
	}
	if c.o.Join != "" {
		n, err := guestsHere(c)
		if err != nil && !force {
			return err
		}
		if n > 0 && !force {
			return fault.New(fault.Conflict, "this host has %s; move them away with `berth host drain %s --os-cloud %s` "+
				"on the first machine, or use --force: they then remain on this machine", counted(n, "guest"), hostName(c),
				adminCloud)
		}
		return nil
	}
	if running, err := c.process().running(ctx); err != nil {
		return err
	} else if !running {
		if force || r.Stopping {
			return nil
		}
		return fault.New(fault.Conflict, "the cloud does not run, so its servers are not known; start it with `berth init`, "+
			"or use --force: guests that run then remain on this machine")
	}
	client, err := c.compute(adminCloud)
	if err != nil {
		return err
	}
	servers, err := client.Servers(ctx, compute.ListServers{AllProjects: true})
	if err != nil {
		return err
	}
	images, err := c.images(ctx)
	if err != nil {
		return err
	}
	others, err := c.otherHosts(ctx)
	if err != nil {
		return err
	}
	switch {
	case len(servers)+images+len(others) == 0:
		return nil
	case !force && len(others) > 0:
		return fault.New(fault.Conflict, "other machines are hosts of the cloud (%s); run `berth init --undo` there and "+
			"`berth host forget HOST --wait --os-cloud %s` here, or use --force: their guests then remain on them",
			strings.Join(others, ", "), adminCloud)
	case !force:
		return fault.New(fault.Conflict, "the cloud has %s and %s, which would be deleted; delete them, or use --force",
			counted(len(servers), "server"), counted(images, "image"))
	}
	return c.deleteServers(ctx, client, servers)
}

// otherHosts returns the names of the hosts of the cloud beside this machine.
func (c *Cloud) otherHosts(ctx context.Context) (names []string, err error) {
	client, err := c.hosts()
	if err != nil {
		return nil, err
	}
	hosts, err := client.Hosts(ctx)
	for _, h := range hosts {
		if h.Host != hostName(c) {
			names = append(names, h.Host)
		}
	}
	return names, err
}

// deleteServers deletes servers and returns when those of this machine are gone. Other machines may be gone already.
func (c *Cloud) deleteServers(ctx context.Context, client *compute.Client, servers []compute.Server) error {
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	here, name := map[string]bool{}, hostName(c)
	for _, s := range servers {
		here[s.ID] = s.Place == nil || s.Place.Host == nil || *s.Place.Host == "" || *s.Place.Host == name
		if err := client.Act(ctx, s.ID, "forceDelete", nil); err != nil {
			if err := unlessMissing(client.DeleteServer(ctx, s.ID)); err != nil {
				return err
			}
		}
		c.say("deleting the server %s", s.Name)
	}
	for {
		left, err := client.Servers(ctx, compute.ListServers{AllProjects: true})
		left = slices.DeleteFunc(left, func(s compute.Server) bool { return !here[s.ID] })
		if err == nil && len(left) == 0 {
			return nil
		}
		if backoff.Sleep(ctx, 200*time.Millisecond) != nil {
			return fault.New(fault.Unavailable, "%s not deleted in time (%v); `berth server list --os-cloud %s` "+
				"shows what is left", counted(len(left), "server"), err, adminCloud)
		}
	}
}

// counted returns a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// images returns how many images there are in all projects, hidden ones too.
func (c *Cloud) images(ctx context.Context) (int, error) {
	client := &rest.Client{Headers: map[string]string{}}
	if err := c.connect(client, adminCloud, image.CatalogType); err != nil {
		return 0, err
	}
	all, err := image.Catalogue{REST: client}.ListAll(ctx)
	return len(all), err
}
