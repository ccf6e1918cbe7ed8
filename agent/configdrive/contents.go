// Package configdrive makes the config drive of a guest: a small CD from which cloud-init and similar programs read who
// the guest is, with OpenStack's file names and formats.
//
// contents.go makes the files, devices.go the list of devices, network_data.go the file about interfaces, iso9660.go
// the CD. The same server has the same drive, byte for byte.
package configdrive

import (
	"encoding/json"
	"strings"

	"github.com/openberth/berth/fault"
)

// Server is what the drive says about a guest.
type Server struct {
	ID         string // UUID of the server
	Name       string
	KeyName    string // of PublicKey; empty: no key
	PublicKey  string // in OpenSSH's format
	UserData   []byte // nil: none
	Hostname   string // empty: it follows from the name
	AdminPass  string // of the administrator of the guest; empty: none
	Metadata   map[string]string
	Project    string
	Zone       string
	Index      int // of the server in the request that created it, from 0
	Interfaces []Interface
}

// metaData is meta_data.json.
type metaData struct {
	UUID       string            `json:"uuid"`
	Name       string            `json:"name"`
	HostName   string            `json:"hostname"`
	Index      int               `json:"launch_index"`
	Project    string            `json:"project_id,omitempty"`
	Zone       string            `json:"availability_zone,omitempty"`
	Metadata   map[string]string `json:"meta,omitempty"`
	PublicKeys map[string]string `json:"public_keys,omitempty"`
	Keys       []key             `json:"keys,omitempty"`
	AdminPass  string            `json:"admin_pass,omitempty"`
	Devices    []nic             `json:"devices"`
}

type key struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Data string `json:"data"`
}

// maxUserData is the largest user_data, in bytes, as in the Compute API.
const maxUserData = 65535

// Make returns the drive of a server, an ISO 9660 file system. The fault is Invalid for user data that are too large,
// and for addresses and networks that are not valid.
func Make(s Server) ([]byte, error) {
	documents, err := Documents(s)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, content := range documents {
		name = strings.ToUpper(name)
		if !strings.Contains(name, ".") {
			name += "." // a name without an extension
		}
		files[name] = content
	}
	return image("config-2", []string{"OPENSTACK", "LATEST"}, files), nil
}

// Documents returns the documents of a server by their names: meta_data.json, network_data.json, vendor_data.json,
// vendor_data2.json and, if it has any, user_data. Faults are those of Make.
func Documents(s Server) (map[string][]byte, error) {
	if len(s.UserData) > maxUserData {
		return nil, fault.New(fault.Invalid, "the user data have %d bytes, and %d are permitted", len(s.UserData),
			maxUserData)
	}
	meta := metaData{UUID: s.ID, Name: s.Name, HostName: HostName(s), Index: s.Index, Project: s.Project,
		Zone: s.Zone, Metadata: s.Metadata, AdminPass: s.AdminPass,
		Devices: devicesOf(s.Interfaces)}
	if s.KeyName != "" {
		meta.PublicKeys = map[string]string{s.KeyName: s.PublicKey}
		meta.Keys = []key{{Name: s.KeyName, Type: "ssh", Data: s.PublicKey}}
	}
	net, err := networkDataOf(s.Interfaces)
	if err != nil {
		return nil, fault.Wrap("", err)
	}
	files := map[string][]byte{}
	for name, content := range map[string]any{"meta_data.json": meta, "network_data.json": net,
		"vendor_data.json": struct{}{}, "vendor_data2.json": struct{}{}} {
		text, err := json.MarshalIndent(content, "", "  ")
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err)
		}
		files[name] = append(text, '\n')
	}
	if s.UserData != nil {
		files["user_data"] = s.UserData
	}
	return files, nil
}

// HostName returns the host name of a server: the given one, or its name with the characters that a host name may have,
// or its id.
func HostName(s Server) string {
	if s.Hostname != "" {
		return s.Hostname
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		case r == ' ', r == '_', r == '.':
			return '-'
		}
		return -1
	}, s.Name)
	if name = strings.Trim(name[:min(len(name), 63)], "-"); name == "" {
		return "server-" + s.ID
	}
	return name
}
