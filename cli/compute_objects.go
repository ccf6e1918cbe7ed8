package cli

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/openberth/berth/fault"
)

// The kinds of the commands on key pairs, aggregates and server groups.
type (
	keyPairKind     struct{}
	aggregateKind   struct{}
	serverGroupKind struct{}
)

func (keyPairKind) kind() *kind     { return kinds["key pair"] }
func (aggregateKind) kind() *kind   { return kinds["aggregate"] }
func (serverGroupKind) kind() *kind { return kinds["server group"] }

// KeyPairCmd groups the commands on key pairs.
type KeyPairCmd struct {
	Create keyPairCreate             `cmd:"" help:"Create a key pair from a public key, or a new one."`
	List   listOfKind[keyPairKind]   `cmd:"" help:"List key pairs."`
	Show   showOfKind[keyPairKind]   `cmd:"" help:"Show a key pair."`
	Delete deleteOfKind[keyPairKind] `cmd:"" help:"Delete key pairs. Servers keep the keys that they have."`
}

// keyPairCreate creates a key pair.
type keyPairCreate struct {
	Name       string `arg:"" help:"Name."`
	PublicKey  string `help:"File with the public key, such as ~/.ssh/id_ed25519.pub. Default: a new Ed25519 key is made." type:"path" placeholder:"FILE"`
	PrivateKey string `help:"File to which a new private key is written. Default: standard output." type:"path" placeholder:"FILE"`
}

// Validate checks the flags.
func (c *keyPairCreate) Validate() error {
	if c.PublicKey != "" && c.PrivateKey != "" {
		return fault.New(fault.Invalid, "--public-key and --private-key exclude each other")
	}
	return nil
}

// Run creates the key pair. A new private key is written to its file before the public key is sent, so that it is not
// lost; without a file it is the output.
func (c *keyPairCreate) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	var private string
	var public []byte
	var err error
	if c.PublicKey != "" {
		public, err = os.ReadFile(c.PublicKey)
	} else {
		private, public, err = newSSHKey(c.Name)
	}
	if err != nil {
		return fault.New(fault.Invalid, "cannot read the public key: %w; name the file that ends in .pub", err)
	}
	if c.PrivateKey != "" {
		if err := writeNew(c.PrivateKey, private); err != nil {
			return err
		}
	}
	made, err := kinds["key pair"].create(ctx, g, map[string]any{"name": c.Name, "type": "ssh",
		"public_key": strings.TrimSpace(string(public))})
	if err != nil && c.PrivateKey != "" {
		return fmt.Errorf("%w; remove %s, which is not used", err, c.PrivateKey)
	}
	switch {
	case err != nil:
		return err
	case private != "" && c.PrivateKey == "" && g.Output != "json":
		_, err := fmt.Fprint(g.stdout(), private)
		return err
	case private != "" && c.PrivateKey == "":
		made["private_key"] = private
	}
	return printObject(g, made)
}

// newSSHKey returns a new key in OpenSSH's formats.
func newSSHKey(comment string) (private string, public []byte, err error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, comment)
	if err != nil {
		return "", nil, err
	}
	line, err := ssh.NewPublicKey(pub)
	if err != nil {
		return "", nil, err
	}
	return string(pem.EncodeToMemory(block)), ssh.MarshalAuthorizedKey(line), nil
}

// writeNew writes a file that only its owner reads, and that does not exist yet.
func writeNew(path, text string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
		if closed := file.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		return fault.New(fault.Invalid, "cannot write the private key: %w; name a file that does not exist", err)
	}
	return nil
}

// ServerGroupCmd groups the commands on server groups.
type ServerGroupCmd struct {
	Create createOfKind[serverGroupKind, serverGroupFlags] `cmd:"" help:"Create a server group."`
	List   listOfKind[serverGroupKind]                     `cmd:"" help:"List server groups."`
	Show   showOfKind[serverGroupKind]                     `cmd:"" help:"Show a server group."`
	Delete deleteOfKind[serverGroupKind]                   `cmd:"" help:"Delete server groups. Their servers stay."`
}

// serverGroupFlags are the attributes of a new server group.
type serverGroupFlags struct {
	Policy  string `api:"policy" help:"Where the servers of the group are: ${enum}." enum:"affinity,anti-affinity,soft-affinity,soft-anti-affinity" default:"affinity"`
	PerHost int    `help:"How many servers of an anti-affinity group one host may have." placeholder:"NUMBER"`
}

// complete sets the rule of anti-affinity.
func (f *serverGroupFlags) complete(_ context.Context, _ *Globals, set map[string]any) error {
	if f.PerHost == 0 {
		return nil
	}
	if f.Policy != "anti-affinity" {
		return fault.New(fault.Invalid, "--per-host is for --policy anti-affinity only")
	}
	set["rules"] = map[string]any{"max_server_per_host": f.PerHost}
	return nil
}

// AggregateCmd groups the commands on host aggregates.
type AggregateCmd struct {
	Create createOfKind[aggregateKind, aggregateFlags] `cmd:"" help:"Create an aggregate of hosts."`
	List   listOfKind[aggregateKind]                   `cmd:"" help:"List aggregates."`
	Show   showOfKind[aggregateKind]                   `cmd:"" help:"Show an aggregate."`
	Set    aggregateSet                                `cmd:"" help:"Change the name, the availability zone and the properties of an aggregate."`
	Delete deleteOfKind[aggregateKind]                 `cmd:"" help:"Delete aggregates without hosts."`
	Add    aggregateHosts                              `cmd:"" help:"Add hosts to an aggregate."`
	Remove aggregateHosts                              `cmd:"" help:"Remove hosts from an aggregate."`
}

// newAggregateCmd returns the commands on aggregates, with the actions of those that change hosts.
func newAggregateCmd() AggregateCmd {
	return AggregateCmd{Add: aggregateHosts{action: "add_host"}, Remove: aggregateHosts{action: "remove_host"}}
}

// aggregateFlags are the attributes of a new aggregate.
type aggregateFlags struct {
	Zone *orNone `api:"availability_zone" help:"Availability zone of its hosts, or none." placeholder:"ZONE"`
}

// aggregateSet changes an aggregate.
type aggregateSet struct {
	Aggregate string            `arg:"" help:"Name or id."`
	Name      *string           `api:"name" help:"New name." placeholder:"NAME"`
	Zone      *orNone           `api:"availability_zone" help:"Availability zone of its hosts, or none." placeholder:"ZONE"`
	Property  map[string]string `help:"Property to set; may be repeated." placeholder:"KEY=VALUE" mapsep:"none"`
	Unset     []string          `help:"Property to remove; may be repeated." placeholder:"KEY" sep:"none"`
}

// Run changes the aggregate and prints it.
func (c *aggregateSet) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	set, err := attributesOf(ctx, g, c, "")
	if err != nil {
		return err
	}
	metadata := map[string]any{}
	for key, value := range c.Property {
		metadata[key] = value
	}
	for _, key := range c.Unset {
		metadata[key] = nil
	}
	if len(set)+len(metadata) == 0 {
		return fault.New(fault.Invalid, "nothing to change: give --name, --zone, --property or --unset")
	}
	k := kinds["aggregate"]
	found, err := k.find(ctx, g, c.Aggregate)
	if err == nil && len(set) > 0 {
		found, err = k.change(ctx, g, found.text("id"), set)
	}
	if err == nil && len(metadata) > 0 {
		found, err = aggregateAction(ctx, g, found.text("id"), "set_metadata", map[string]any{"metadata": metadata})
	}
	if err != nil {
		return err
	}
	return printObject(g, found)
}

// aggregateAction performs an action on an aggregate.
func aggregateAction(ctx context.Context, g *Globals, id, action string, arguments any) (document, error) {
	k := kinds["aggregate"]
	return k.send(ctx, g, http.MethodPost, k.pathOf(id)+"/action", map[string]any{action: arguments})
}

// aggregateHosts adds or removes hosts of an aggregate.
type aggregateHosts struct {
	Aggregate string   `arg:"" help:"Name or id."`
	Hosts     []string `arg:"" name:"host" help:"Names of hosts."`

	action string
}

// Run changes the hosts of the aggregate and prints it.
func (c *aggregateHosts) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	found, err := kinds["aggregate"].find(ctx, g, c.Aggregate)
	if err != nil {
		return err
	}
	for _, host := range c.Hosts {
		if c.action == "add_host" {
			if err := knownHost(ctx, g, host); err != nil {
				return err
			}
		}
		found, err = aggregateAction(ctx, g, found.text("id"), c.action, map[string]any{"host": host})
		if err != nil {
			return of(host, len(c.Hosts), err)
		}
	}
	return printObject(g, found)
}
