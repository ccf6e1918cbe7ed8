// Package image is a client of OpenStack's Image API v2.
//
// An image service with Keystone checks who may see an image; without Keystone it shows every image to every caller. So
// Client.Image checks the visibility for the caller too, by the rules of the image service.
package image

import (
	"encoding/json"
	"fmt"
)

// Active is the status of an image whose data is there and may be used.
const Active = "active"

// Image is an image of the image service.
type Image struct {
	ID, Name   string
	Status     string // Active, queued, saving, deactivated, …
	Visibility string // public, community, shared, private
	Owner      string // the project; empty: none
	MinRAM     int    // MiB
	MinDisk    int    // GiB
	Size       int64  // bytes; 0: not known
	DiskFormat string // raw, qcow2, …
	Container  string // bare, …
	Checksum   string // MD5, hexadecimal; empty: not known
	HashAlgo   string // of HashValue, such as sha512; empty: none
	HashValue  string // hexadecimal
	Created    string // RFC 3339
	Updated    string
	Properties map[string]string
}

// base are the keys of an image that are not properties.
var base = map[string]bool{"id": true, "name": true, "status": true, "visibility": true, "owner": true,
	"min_ram": true, "min_disk": true, "size": true, "protected": true, "checksum": true, "created_at": true,
	"updated_at": true, "tags": true, "self": true, "file": true, "schema": true, "disk_format": true,
	"container_format": true, "virtual_size": true, "os_hidden": true, "os_hash_algo": true, "os_hash_value": true,
	"direct_url": true, "locations": true, "stores": true}

// UnmarshalJSON decodes an image. All keys that are not in base are properties; a value that is not a text is kept as
// JSON.
func (i *Image) UnmarshalJSON(text []byte) error {
	var known struct {
		ID, Name, Status, Visibility, Owner string
		MinRAM                              int `json:"min_ram"`
		MinDisk                             int `json:"min_disk"`
		Size                                int64
		DiskFormat                          string `json:"disk_format"`
		Container                           string `json:"container_format"`
		Checksum                            string
		HashAlgo                            string `json:"os_hash_algo"`
		HashValue                           string `json:"os_hash_value"`
		Created                             string `json:"created_at"`
		Updated                             string `json:"updated_at"`
	}
	if err := json.Unmarshal(text, &known); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*i = Image{ID: known.ID, Name: known.Name, Status: known.Status, Visibility: known.Visibility, Owner: known.Owner,
		MinRAM: known.MinRAM, MinDisk: known.MinDisk, Size: known.Size, Properties: map[string]string{},
		DiskFormat: known.DiskFormat, Container: known.Container, Checksum: known.Checksum, HashAlgo: known.HashAlgo,
		HashValue: known.HashValue, Created: known.Created, Updated: known.Updated}
	if i.ID == "" || i.Status == "" {
		return fmt.Errorf("it is not an image: id or status is missing")
	}
	for key, raw := range all {
		if base[key] || string(raw) == "null" {
			continue
		}
		var value string
		if json.Unmarshal(raw, &value) != nil {
			value = string(raw)
		}
		i.Properties[key] = value
	}
	return nil
}

// visibleTo reports whether a project may see an image that is not shared with it.
func (i Image) visibleTo(project string) bool {
	return i.Owner == "" || i.Owner == project || i.Visibility == "public" || i.Visibility == "community"
}
