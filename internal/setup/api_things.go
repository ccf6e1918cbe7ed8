package setup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/cloudsfile"
	"github.com/openberth/berth/fault"
)

// callTime is the time limit of one call.
const callTime = time.Minute

// connect makes a client of an API use the account of a cloud of clouds.yaml.
func (c *Cloud) connect(client *rest.Client, cloud, kind string) error {
	options, found, err := cloudsfile.Read(c.o.cloudsFile(), cloud)
	if err != nil {
		return err
	}
	if !found {
		return fault.New(fault.NotFound, "%s has no cloud %s; `berth init` makes it again", c.o.cloudsFile(), cloud)
	}
	calls := identity.ServiceCalls{Type: identity.BasicAccount, Name: options["username"], Password: options["password"]}
	account, err := calls.Account()
	if err != nil {
		return err
	}
	files := rest.TLSFiles{}
	if c.o.tls() {
		files.CAFile = c.o.caFile()
	}
	transport, err := files.Transport()
	if err != nil {
		return err
	}
	client.Base, client.Account = c.o.URL()+"/"+kind, account
	client.HTTP = &http.Client{Transport: transport, Timeout: callTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return nil
}

func (c *Cloud) compute(cloud string) (*compute.Client, error) {
	client := compute.NewClient("", nil, "")
	return client, c.connect(client.REST, cloud, compute.CatalogType)
}

func (c *Cloud) networks() (*network.Client, error) {
	client := network.NewClient("", nil, "")
	return client, c.connect(client.REST, adminCloud, network.CatalogType)
}

func (c *Cloud) hosts() (host.Client, error) {
	client := host.Client{REST: &rest.Client{Headers: map[string]string{}}}
	return client, c.connect(client.REST, adminCloud, compute.CatalogType)
}

func (c *Cloud) flavor(f Flavor) thing {
	find := func(ctx context.Context) (*compute.Client, compute.Flavor, error) {
		client, err := c.compute(adminCloud)
		if err != nil {
			return client, compute.Flavor{}, err
		}
		found, err := client.Flavor(ctx, f.Name)
		return client, found, err
	}
	return thing{id: "flavor " + f.Name, what: fmt.Sprintf("the flavor %s: %d VCPU, %d MiB, %d GiB", f.Name, f.VCPUs,
		f.RAM, f.Disk), hint: "berth flavor delete " + f.Name + " --os-cloud " + adminCloud,
		made: func(ctx context.Context) (bool, error) {
			_, _, err := find(ctx)
			return foundOr(err)
		},
		make: func(ctx context.Context) error {
			client, err := c.compute(adminCloud)
			if err != nil {
				return err
			}
			_, err = client.CreateFlavor(ctx, compute.CreateFlavor{Name: f.Name, VCPUs: f.VCPUs, RAM: f.RAM, Disk: f.Disk})
			return err
		},
		undo: func(ctx context.Context) error {
			client, found, err := find(ctx)
			if err == nil {
				err = client.DeleteFlavor(ctx, found.ID)
			}
			return unlessMissing(err)
		}}
}

// foundOr returns true for no error, and false for fault.NotFound.
func foundOr(err error) (bool, error) {
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

func unlessMissing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// network is the network of the servers with its subnet. It is shared by all projects.
func (c *Cloud) network() thing {
	n := c.o.Network
	find := func(ctx context.Context) (client *network.Client, found []network.Network, err error) {
		if client, err = c.networks(); err == nil {
			found, err = client.Networks(ctx, url.Values{"name": {n.Name}})
		}
		return client, found, err
	}
	what := fmt.Sprintf("the network %s, %s, with NAT and DHCP", n.Name, n.CIDR)
	if c.o.Driver == Fake {
		what = fmt.Sprintf("the network %s, %s; with the driver fake nothing connects it", n.Name, n.CIDR)
	}
	return thing{id: "network " + n.Name, what: what,
		hint: "berth network delete " + n.Name + " --os-cloud " + adminCloud,
		made: func(ctx context.Context) (bool, error) {
			_, found, err := find(ctx)
			return err == nil && len(found) > 0 && len(found[0].Subnets) > 0, err
		},
		make: func(ctx context.Context) error {
			client, found, err := find(ctx)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				made, err := client.CreateNetwork(ctx, map[string]any{"name": n.Name, "shared": true})
				if err != nil {
					return err
				}
				found = append(found, made)
			}
			_, err = client.CreateSubnet(ctx, map[string]any{"network_id": found[0].ID, "ip_version": 4, "cidr": n.CIDR,
				"name": n.Name})
			return err
		},
		undo: func(ctx context.Context) error {
			client, found, err := find(ctx)
			for _, one := range found {
				_, deleted := client.REST.Do(ctx, http.MethodDelete, "/v2.0/networks/"+one.ID, nil, nil)
				err = errors.Join(err, unlessMissing(deleted))
				if err == nil {
					err = c.awaitNoBridge(ctx, one.ID)
				}
			}
			return err
		}}
}

// groupRule is a rule of a security group, as the API shows it.
type groupRule struct {
	ID        string  `json:"id"`
	Direction string  `json:"direction"`
	EtherType string  `json:"ethertype"`
	Protocol  *string `json:"protocol"`
	From      *int    `json:"port_range_min"`
	Prefix    *string `json:"remote_ip_prefix"`
}

// defaultGroup returns the path of the user's default security group, without groups that others share.
func defaultGroup(o Options) string {
	return "/v2.0/security-groups?name=default&project_id=" + url.QueryEscape(o.Project)
}

// rule is a rule that lets a protocol of IPv4 through to the servers of the user's default security group; port 0: any.
func (c *Cloud) rule(protocol string, port int) thing {
	what := protocol
	if port > 0 {
		what = fmt.Sprintf("%s port %d", protocol, port)
	}
	client := func() (*rest.Client, error) {
		n := network.NewClient("", nil, "")
		return n.REST, c.connect(n.REST, clouds0, network.CatalogType)
	}
	find := func(ctx context.Context) (group string, found []groupRule, err error) {
		var answer struct {
			Groups []struct {
				ID    string      `json:"id"`
				Rules []groupRule `json:"security_group_rules"`
			} `json:"security_groups"`
		}
		r, err := client()
		if err == nil {
			_, err = r.Do(ctx, http.MethodGet, defaultGroup(c.o), nil, &answer)
		}
		if err == nil && len(answer.Groups) == 0 {
			err = fault.New(fault.Unavailable, "the user's project has no default security group")
		}
		if err != nil {
			return "", nil, err
		}
		for _, one := range answer.Groups[0].Rules {
			if one.Direction == "ingress" && one.EtherType == "IPv4" && one.Protocol != nil && *one.Protocol == protocol &&
				one.Prefix != nil && *one.Prefix == anyAddress && (port == 0 || one.From != nil && *one.From == port) {
				found = append(found, one)
			}
		}
		return answer.Groups[0].ID, found, nil
	}
	return thing{id: "rule " + what, what: "a rule of the default security group of " + c.o.User + ": " + what +
		" from everywhere", hint: "berth security-group rule remove ID, which `berth security-group rule list default` shows",
		made: func(ctx context.Context) (bool, error) {
			_, found, err := find(ctx)
			return len(found) > 0, err
		},
		make: func(ctx context.Context) error {
			group, _, err := find(ctx)
			if err != nil {
				return err
			}
			body := map[string]any{"security_group_id": group, "direction": "ingress", "ethertype": "IPv4",
				"protocol": protocol, "remote_ip_prefix": anyAddress}
			if port > 0 {
				body["port_range_min"], body["port_range_max"] = port, port
			}
			r, err := client()
			if err == nil {
				_, err = r.Do(ctx, http.MethodPost, "/v2.0/security-group-rules", map[string]any{"security_group_rule": body}, nil)
			}
			return err
		},
		undo: func(ctx context.Context) error {
			_, found, err := find(ctx)
			for _, one := range found {
				r, err := client()
				if err == nil {
					_, err = r.Do(ctx, http.MethodDelete, "/v2.0/security-group-rules/"+one.ID, nil, nil)
				}
				if unlessMissing(err) != nil {
					return err
				}
			}
			return err
		}}
}

// anyAddress is every address of IPv4.
const anyAddress = "0.0.0.0/0"

// bridgeTime is how long the agent may take to remove the bridge of a network, or all its links.
var bridgeTime = 2 * time.Minute

// awaitNoBridge waits until the agent has removed the bridge of a network from this machine.
func (c *Cloud) awaitNoBridge(ctx context.Context, id string) error {
	name := "brq" + id[:min(11, len(id))]
	for until := time.Now().Add(bridgeTime); ; {
		if _, err := net.InterfaceByName(name); err != nil {
			return nil
		}
		if time.Now().After(until) {
			c.say("kept     the bridge %s: the agent does not remove it", name)
			return nil
		}
		if err := backoff.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// tables are the tables of nftables that the agent makes.
var tables = []string{"inet berth_networks", "bridge berth_networks", "inet berth_groups", "bridge berth_groups"}

// hostTables are the tables of the agent, which exist while it runs and after it has ended.
func (c *Cloud) hostTables() thing {
	return thing{id: "tables", what: "the tables berth_networks and berth_groups of nftables, with the first server",
		hint: "nft delete table inet berth_networks, and so on",
		made: func(ctx context.Context) (bool, error) {
			out, err := exec.CommandContext(ctx, "nft", "list", "tables").Output()
			return strings.Contains(string(out), "berth_"), fault.Wrap(fault.Unavailable, err)
		},
		make:  func(context.Context) error { return nil }, // the agent makes them
		later: true,
		undo: func(ctx context.Context) error {
			for _, table := range tables {
				_ = exec.CommandContext(ctx, "nft", append([]string{"delete", "table"}, strings.Fields(table)...)...).Run()
			}
			return nil // a table that does not exist is an error too
		}}
}

// keyPair is the user's key in compute, under the name of the user's cloud.
func (c *Cloud) keyPair() thing {
	path := "/v2.1/os-keypairs/" + clouds0
	call := func(ctx context.Context, method, path string, body any) error {
		client, err := c.compute(clouds0)
		if err == nil {
			_, err = client.REST.Do(ctx, method, path, body, nil)
		}
		return err
	}
	return thing{id: "key pair", what: "the key pair " + clouds0 + " of " + c.o.User,
		hint: "berth keypair delete " + clouds0,
		made: func(ctx context.Context) (bool, error) { return foundOr(call(ctx, http.MethodGet, path, nil)) },
		make: func(ctx context.Context) error {
			text, err := os.ReadFile(publicKey(c))
			if err != nil {
				return fault.New(fault.Unavailable, "cannot read the public key: %w", err)
			}
			return call(ctx, http.MethodPost, "/v2.1/os-keypairs", map[string]any{"keypair": map[string]any{
				"name": clouds0, "public_key": strings.TrimSpace(string(text))}})
		},
		undo: func(ctx context.Context) error { return unlessMissing(call(ctx, http.MethodDelete, path, nil)) }}
}
