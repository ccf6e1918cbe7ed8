// Package metadata answers the requests of guests for 169.254.169.254 and fe80::a9fe:a9fe: who they are, with the
// documents of OpenStack and of EC2. A guest is known by its network and its address, and gets only its own documents.
package metadata

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/configdrive"
	"github.com/openberth/berth/fault"
)

// versions are the versions of the documents of OpenStack that guests may name. All have the same content.
var versions = []string{"2012-08-10", "2013-04-04", "2013-10-17", "2015-10-15", "2016-06-30", "2016-10-06",
	"2017-02-22", "2018-08-27", "2020-10-14", "latest"}

// ec2Versions are those of the documents of EC2.
var ec2Versions = []string{"1.0", "2007-01-19", "2007-03-01", "2007-08-29", "2007-10-10", "2007-12-15", "2008-02-01",
	"2008-09-01", "2009-04-04", "latest"}

// document returns the content of a path for a server. A directory is the list of its entries. found is false for other
// paths.
func document(s configdrive.Server, from netip.Addr, at string) (content []byte, kind string, found bool, err error) {
	documents, err := configdrive.Documents(s)
	if err != nil {
		return nil, "", false, fault.Wrap("", err)
	}
	parts := strings.Split(strings.Trim(path.Clean("/"+at), "/"), "/")
	switch {
	case parts[0] == "":
		return lines(append(slices.Clone(ec2Versions), "openstack")), plain, true, nil
	case parts[0] == "openstack" && len(parts) == 1:
		return lines(versions), plain, true, nil
	case parts[0] == "openstack" && slices.Contains(versions, parts[1]):
		content, kind, found = openStack(documents, parts[2:])
	case slices.Contains(ec2Versions, parts[0]):
		content, found = ec2(s, documents, from, parts[1:])
		kind = plain
	}
	return content, kind, found, nil
}

// The media types of documents.
const (
	plain       = "text/plain; charset=utf-8"
	application = "application/json"
	octets      = "application/octet-stream"
)

// openStack returns a document of OpenStack, or their list.
func openStack(documents map[string][]byte, parts []string) (content []byte, kind string, found bool) {
	if len(parts) == 0 {
		var names []string
		for name := range documents {
			names = append(names, name)
		}
		slices.Sort(names)
		return lines(names), plain, true
	}
	content, found = documents[parts[0]]
	kind = application
	if parts[0] == "user_data" {
		kind = octets
	}
	return content, kind, found && len(parts) == 1
}

// ec2 returns a document of EC2.
func ec2(s configdrive.Server, documents map[string][]byte, from netip.Addr, parts []string) ([]byte, bool) {
	var top []string
	if documents["user_data"] != nil {
		top = []string{"meta-data/", "user-data"}
	} else {
		top = []string{"meta-data/"}
	}
	switch {
	case len(parts) == 0:
		return lines(top), true
	case parts[0] == "user-data" && len(parts) == 1:
		return documents["user_data"], documents["user_data"] != nil
	case parts[0] != "meta-data":
		return nil, false
	}
	name := configdrive.HostName(s)
	tree := map[string]string{"ami-id": "ami-00000000", "ami-launch-index": number(s.Index), "hostname": name,
		"instance-action": "none", "instance-id": s.ID, "instance-type": "", "local-hostname": name,
		"local-ipv4": localIPv4(s, from), "placement/availability-zone": s.Zone, "public-hostname": name, "public-ipv4": "",
		"reservation-id": "r-" + s.ID, "security-groups": ""}
	if s.KeyName != "" {
		tree["public-keys/0/openssh-key"] = strings.TrimSpace(s.PublicKey) + "\n"
	}
	return entry(tree, strings.Join(parts[1:], "/"), s.KeyName)
}

// localIPv4 returns the address of IPv4 from which a guest asks, or the first one of a guest that asks by IPv6; empty:
// it has none.
func localIPv4(s configdrive.Server, from netip.Addr) string {
	if from.Is4() {
		return from.String()
	}
	for _, i := range s.Interfaces {
		for _, a := range i.Addresses {
			if at, err := netip.ParseAddr(a.Address); err == nil && at.Is4() {
				return at.String()
			}
		}
	}
	return ""
}

// entry returns the value of a path of a tree, or the entries below it. The list of keys has their names.
func entry(tree map[string]string, at, key string) ([]byte, bool) {
	if value, found := tree[at]; found {
		return []byte(value), true
	}
	if at == "public-keys" && key != "" {
		return lines([]string{"0=" + key}), true
	}
	var names []string
	for name := range tree {
		rest, below := strings.CutPrefix(name, at+"/")
		if at == "" {
			rest, below = name, true
		}
		if !below {
			continue
		}
		if first, _, more := strings.Cut(rest, "/"); more {
			rest = first + "/"
		}
		if !slices.Contains(names, rest) {
			names = append(names, rest)
		}
	}
	slices.Sort(names)
	return lines(names), len(names) > 0
}

func lines(list []string) []byte { return []byte(strings.Join(list, "\n")) }

func number(n int) string {
	text, _ := json.Marshal(n) // an integer always has a form
	return string(text)
}

// status returns the HTTP status of a fault.
func status(err error) int {
	if fault.Is(err, fault.NotFound) {
		return http.StatusNotFound
	}
	return http.StatusServiceUnavailable
}
