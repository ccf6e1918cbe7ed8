package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/openberth/berth/cloudsfile"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/userfile"
)

// directory is a directory. Only an empty one is removed, except those of the state of the services and of the agent,
// which are removed whole.
func (c *Cloud) directory(path string, mode fs.FileMode) thing {
	state := path == c.o.stateDir() || c.o.Join != "" && path == c.o.agentDir()
	what, hint := "the directory "+path, "rmdir "+path
	if state {
		what, hint = what+" for the state", "rm -r "+path
	}
	return thing{id: "directory " + path, what: what, hint: hint, made: done(exists(path)),
		make: func(context.Context) error {
			if strings.HasPrefix(path, c.o.Home+"/") {
				return fault.Wrap(fault.Unavailable, makeOwned(path, mode, c.o.Home))
			}
			return fault.Wrap(fault.Unavailable, os.MkdirAll(path, mode))
		},
		undo: func(context.Context) error {
			_ = os.Remove(path + datafile.Unfinished) // of a run that was killed
			if state {
				return fault.Wrap(fault.Unavailable, os.RemoveAll(path))
			}
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return kept("it has files that `berth init` did not make")
			}
			return nil
		}}
}

// kept is the error of an undo that keeps a thing for a reason. Undo then continues.
type kept string

func (k kept) Error() string { return string(k) }

// guestFiles are what the agent writes below instances_path: disks of guests, copies of images, names of hosts. What
// an earlier cloud has left there is not removed, and neither are guests that remain on this machine.
func guestFiles(c *Cloud) thing {
	path := c.o.instances()
	return thing{id: "guest files", what: "the copies of images and the disks of guests below " + path,
		hint: "rm -r " + path + "/*",
		made: func(context.Context) (bool, error) {
			found, err := os.ReadDir(path)
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return len(found) > 0, fault.Wrap(fault.Unavailable, err)
		},
		make: func(context.Context) error { return nil }, // the agent makes them
		undo: func(context.Context) error {
			n, err := guestsHere(c)
			if err != nil {
				return err
			}
			if n > 0 {
				return kept(counted(n, "guest") + " of this machine need them")
			}
			found, err := os.ReadDir(path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fault.Wrap(fault.Unavailable, err)
			}
			for _, one := range found {
				if err := os.RemoveAll(filepath.Join(path, one.Name())); err != nil {
					return fault.Wrap(fault.Unavailable, err)
				}
			}
			return nil
		}}
}

// makeOwned makes a directory with the owner of another one. It has its name only when it has its owner, so that a run
// that is killed leaves no directory of root in a home.
func makeOwned(path string, mode fs.FileMode, like string) error {
	unfinished := path + datafile.Unfinished
	_ = os.Remove(unfinished) // of a run that was killed
	if err := os.MkdirAll(unfinished, mode); err != nil {
		return err
	}
	if err := datafile.GiveAs(unfinished, like); err != nil {
		return err
	}
	return os.Rename(unfinished, path)
}

func (c *Cloud) authority() thing {
	o := c.o
	return thing{id: "authority", what: "a certificate authority in " + o.caFile(), hint: "rm " + o.caFile() + " " +
		o.caKey(),
		made: func(context.Context) (bool, error) { return authorityMade(o) },
		make: func(context.Context) error { return makeAuthority(o.caKey(), o.caFile(), time.Now()) },
		undo: func(context.Context) error { return errors.Join(removeFile(o.caFile()), removeFile(o.caKey())) }}
}

// authorityMade reports whether there is the certificate of the authority. Its key is needed for new certificates only,
// and may be kept elsewhere. An authority that has issued a certificate is not replaced: other machines rely on it.
func authorityMade(o Options) (bool, error) {
	if exists(o.caFile()) {
		_, err := readCertificate(o.caFile())
		return err == nil, err
	}
	if exists(o.certFile()) {
		return false, fault.New(fault.Conflict, "%s is missing, whose authority has issued %s; restore it, such as from %s",
			o.caFile(), o.certFile(), o.userCA())
	}
	return false, nil
}

// userCA is a copy of the certificate of the authority for the user, who cannot read the configuration.
func (c *Cloud) userCA() thing {
	o := c.o
	return thing{id: "user authority", what: "a copy of the authority's certificate in " + o.userCA(), hint: "rm " +
		o.userCA(),
		made: func(context.Context) (bool, error) {
			own, err := readCertificate(o.caFile())
			if err != nil {
				return false, err
			}
			copied, err := readCertificate(o.userCA())
			return err == nil && copied.Equal(own), nil
		},
		make: func(context.Context) error {
			text, err := os.ReadFile(o.caFile())
			if err == nil {
				err = datafile.ReplaceKept(o.userCA(), text, 0o644)
			}
			return fault.Wrap(fault.Unavailable, err)
		},
		undo: func(context.Context) error { return removeFile(o.userCA()) }}
}

// certificate is made again some time before it expires. While the key of the authority is kept elsewhere, a valid one
// is used until its end.
func (c *Cloud) certificate() thing {
	o := c.o
	return thing{id: "certificate", what: "a certificate for " + o.host() + " in " + o.certFile(),
		hint: "rm " + o.certFile() + " " + o.keyFile(),
		made: func(context.Context) (bool, error) { return certificateMade(c, time.Now()), nil },
		make: func(ctx context.Context) error {
			if err := makeCertificate(o, time.Now()); err != nil {
				return err
			}
			return c.reload(ctx)
		},
		undo: func(context.Context) error { return errors.Join(removeFile(o.certFile()), removeFile(o.keyFile())) }}
}

func certificateMade(c *Cloud, now time.Time) bool {
	if certificateUsable(c.o, now.Add(renewBefore)) {
		return true
	}
	if exists(c.o.caKey()) || !certificateUsable(c.o, now) {
		return false
	}
	c.say("note     the certificate %s expires within %d days, and %s, which renews it, is not here; restore the key and "+
		"run `berth init` again", c.o.certFile(), renewBefore/(24*time.Hour), c.o.caKey())
	return true
}

// clouds are the clouds of the user and of the administrator in the user's clouds.yaml, with new passwords.
func (c *Cloud) clouds() thing {
	path := c.o.cloudsFile()
	return thing{id: "clouds", what: "the clouds " + clouds0 + " and " + adminCloud + " in " + path,
		hint: "remove them from " + path,
		made: func(context.Context) (bool, error) {
			_, user, err := cloudsfile.Read(path, clouds0)
			_, root, err2 := cloudsfile.Read(path, adminCloud)
			return user && root, errors.Join(err, err2)
		},
		make: func(context.Context) error {
			_, err := cloudsfile.Merge(path, c.cloud(clouds0, c.o.User, userfile.NewPassword()),
				c.cloud(adminCloud, admin, userfile.NewPassword()))
			return err
		},
		undo: func(context.Context) error {
			_, err := cloudsfile.Remove(path, clouds0, adminCloud)
			return err
		}}
}

func (c *Cloud) cloud(name, user, password string) cloudsfile.Cloud {
	url := c.o.URL()
	out := cloudsfile.Cloud{Name: name, Type: "http_basic", Auth: []cloudsfile.Option{{Name: "username", Value: user},
		{Name: "password", Value: password}, {Name: "endpoint", Value: url + "/compute/v2.1"}}}
	for _, kind := range []string{"compute", "image", "network", "placement"} {
		path := "/" + kind
		if kind == "compute" {
			path += "/v2.1"
		}
		out.Options = append(out.Options, cloudsfile.Option{Name: kind + "_endpoint_override", Value: url + path})
	}
	if c.o.tls() {
		out.Options = append(out.Options, cloudsfile.Option{Name: "cacert", Value: c.o.userCA()})
	}
	return out
}

// account is an account of the user file, with the password that clouds.yaml has for a cloud.
func (c *Cloud) account(name, cloud, project, role string) thing {
	files := userfile.Files{Users: c.o.userFile(), Roles: c.o.rolesFile()}
	return thing{id: "account " + name, what: fmt.Sprintf("the account %s with the role %s in project %s", name, role,
		project), hint: "berth user remove " + name + " --user-file " + c.o.userFile(),
		made: func(context.Context) (bool, error) {
			options, _, err := cloudsfile.Read(c.o.cloudsFile(), cloud)
			if err != nil {
				return false, err
			}
			return files.Matches(name, options["password"])
		},
		make: func(context.Context) error {
			options, _, err := cloudsfile.Read(c.o.cloudsFile(), cloud)
			if err != nil {
				return err
			}
			if _, err := files.Show(name); err == nil { // of an interrupted run
				return files.SetPassword(name, options["password"])
			}
			return files.Add(userfile.User{Name: name, Project: project, Roles: []string{role}}, options["password"])
		},
		undo: func(context.Context) error {
			err := files.Remove(name)
			if fault.Is(err, fault.NotFound) {
				err = nil
			}
			return errors.Join(err, removeEmpty(files.Users), removeEmpty(files.Roles))
		}}
}

// hostAccounts are the accounts of hosts for which tokens were made.
func (c *Cloud) hostAccounts(r *record) (list []thing) {
	for _, id := range r.Made {
		if name, ok := strings.CutPrefix(id, "account "+hostPrefix); ok {
			t := c.account(hostPrefix+name, "", hostProject, "service")
			t.made = done(true)
			list = append(list, t)
		}
	}
	return list
}

// removeEmpty removes a file if it has no content.
func removeEmpty(path string) error {
	if info, err := os.Stat(path); err != nil || info.Size() > 0 {
		return nil
	}
	return removeFile(path)
}

// block is the part of init in a file.
func (c *Cloud) block(path, lines, what string) thing {
	return thing{id: "part of " + path, what: what + " in " + path, hint: "remove the marked part of " + path,
		made: func(context.Context) (bool, error) {
			_, same, err := readBlock(path, lines)
			return same, err
		},
		make: func(context.Context) error { return writeBlock(path, lines) },
		undo: func(context.Context) error { return writeBlock(path, "") }}
}

// configuration returns the options of the cloud.
func (c *Cloud) configuration() string {
	o := c.o
	var b strings.Builder
	fmt.Fprintf(&b, "[DEFAULT]\ncompute_driver = %s\nhttp_basic_auth_user_file = %s\n",
		driverOption(o.Driver), o.userFile())
	if o.Host != "" {
		fmt.Fprintf(&b, "host = %s\n", o.Host)
	}
	b.WriteString("[api]\nauth_strategy = http_basic\n")
	if o.tls() {
		fmt.Fprintf(&b, "[ssl]\ncert_file = %s\nkey_file = %s\n", o.certFile(), o.keyFile())
	}
	if o.Sysfs != "" {
		fmt.Fprintf(&b, "[berth]\nsysfs = %s\n", o.Sysfs)
	}
	if o.Config != packagedConf { // beside another agent of this machine
		fmt.Fprintf(&b, "[oslo_concurrency]\nlock_path = %s\n", o.stateDir())
	}
	if o.Data != packagedData {
		fmt.Fprintf(&b, "[DEFAULT]\ninstances_path = %s\n", o.instances())
	}
	if o.Driver == Fake { // ports are bound to a bridge that does not exist
		b.WriteString("[ovs]\nbridge_mappings = fake:br-fake\n[ml2]\ntenant_network_types = vlan\n" +
			"[ml2_type_vlan]\nnetwork_vlan_ranges = fake:100:199\n")
	}
	b.WriteString(o.virtOption() + moveOptions(c))
	if o.Driver == Libvirt {
		b.WriteString("[ml2]\ntenant_network_types = vxlan\n[ml2_type_vxlan]\nvni_ranges = 1:65535\n")
		fmt.Fprintf(&b, "[vxlan]\nenable_vxlan = true\nlocal_ip = %s\n", o.Local)
	}
	return b.String()
}

// virtOption returns the options for the kind of virtual machines.
func (o Options) virtOption() string {
	if o.Virt == "" {
		return ""
	}
	return "[libvirt]\nvirt_type = " + o.Virt + "\n"
}
