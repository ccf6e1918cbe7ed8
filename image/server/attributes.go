package server

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/diskimage"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/image/store"
)

// readOnly are the attributes that only the service sets, with their types.
var readOnly = map[string]string{"status": "string", "checksum": "string", "os_hash_algo": "string",
	"os_hash_value": "string", "size": "integer", "virtual_size": "integer", "created_at": "string",
	"updated_at": "string", "self": "string", "file": "string", "schema": "string", "direct_url": "string",
	"locations": "array", "stores": "string", "deleted": "boolean", "deleted_at": "string"}

// attribute is an attribute that clients set. Its set function gets a value of JSON; nil: null.
type attribute struct {
	kind string // its type in JSON
	set  func(i *store.Image, value any) error
}

// attributes are all attributes that clients set, except tags. The id is set only in a new image.
var attributes = map[string]attribute{
	"id":   {"string", setText("id", 36, func(i *store.Image, v string) { i.ID = v })},
	"name": {"string", setText("name", 255, func(i *store.Image, v string) { i.Name = v })},
	"owner": {"string", setText("owner", 255, func(i *store.Image, v string) {
		i.Owner = v
	})},
	"visibility": {"string", setOneOf("visibility", []string{"public", "community", "shared", "private"},
		func(i *store.Image, v string) { i.Visibility = v })},
	"protected": {"boolean", setFlag("protected", func(i *store.Image, v bool) { i.Protected = v })},
	"os_hidden": {"boolean", setFlag("os_hidden", func(i *store.Image, v bool) { i.Hidden = v })},
	"min_disk":  {"integer", setCount("min_disk", func(i *store.Image, v int) { i.MinDiskGB = v })},
	"min_ram":   {"integer", setCount("min_ram", func(i *store.Image, v int) { i.MinRAMMB = v })},
	"disk_format": {"string", setOneOf("disk_format", formatNames(),
		func(i *store.Image, v string) { i.DiskFormat = diskimage.Format(v) })},
	"container_format": {"string", setOneOf("container_format", []string{"bare", "aki", "ari", "ami"},
		func(i *store.Image, v string) { i.ContainerFormat = v })},
}

func formatNames() (names []string) {
	for _, f := range diskimage.Formats() {
		names = append(names, string(f))
	}
	return names
}

func setText(name string, most int, set func(*store.Image, string)) func(*store.Image, any) error {
	return func(i *store.Image, value any) error {
		text, ok := value.(string)
		if value != nil && !ok || utf8.RuneCountInString(text) > most {
			return fault.New(fault.Invalid, "%s must be a text of at most %d characters", name, most)
		}
		set(i, text)
		return nil
	}
}

func setOneOf(name string, words []string, set func(*store.Image, string)) func(*store.Image, any) error {
	return func(i *store.Image, value any) error {
		text, _ := value.(string)
		if !slices.Contains(words, text) {
			return fault.New(fault.Invalid, "%s must be one of %s", name, strings.Join(words, ", "))
		}
		set(i, text)
		return nil
	}
}

func setFlag(name string, set func(*store.Image, bool)) func(*store.Image, any) error {
	return func(i *store.Image, value any) error {
		flag, ok := value.(bool)
		if !ok {
			return fault.New(fault.Invalid, "%s must be true or false", name)
		}
		set(i, flag)
		return nil
	}
}

func setCount(name string, set func(*store.Image, int)) func(*store.Image, any) error {
	return func(i *store.Image, value any) error {
		number, ok := value.(json.Number)
		n, err := number.Int64()
		if !ok || err != nil || n < 0 || n > 1<<31-1 {
			return fault.New(fault.Invalid, "%s must be an integer from 0 to %d", name, 1<<31-1)
		}
		set(i, int(n))
		return nil
	}
}

// setTags replaces the tags.
func setTags(i *store.Image, value any) error {
	list, ok := value.([]any)
	tags := map[string]bool{}
	for _, v := range list {
		tag, is := v.(string)
		if !is || tag == "" || utf8.RuneCountInString(tag) > 255 {
			ok = false
			break
		}
		tags[tag] = true
	}
	if !ok || len(tags) > maxEntries {
		return fault.New(fault.Invalid, "tags must be at most %d texts of 1 to 255 characters", maxEntries)
	}
	i.Tags = slices.Sorted(maps.Keys(tags))
	return nil
}

// maxEntries is the maximum number of the tags, of the members and of the properties of an image.
const maxEntries = 128

// set sets an attribute or a property. It returns an error with status 403 if clients may not set it.
func set(i *store.Image, name string, value any) error {
	if a, ok := attributes[name]; ok {
		return a.set(i, value)
	}
	if name == "tags" {
		return setTags(i, value)
	}
	if _, ok := readOnly[name]; ok || strings.HasPrefix(name, "os_glance") {
		return edge.StatusErrorf(http.StatusForbidden, "attribute %s is read-only; leave it out", name)
	}
	text, ok := value.(string)
	if !ok || name == "" || utf8.RuneCountInString(name) > 255 || len(text) > 65535 {
		return fault.New(fault.Invalid, "property %q must be a text of at most 65535 bytes, with a name of 1 to 255 "+
			"characters", name)
	}
	if i.Properties == nil {
		i.Properties = map[string]string{}
	}
	if i.Properties[name] = text; len(i.Properties) > maxEntries {
		return edge.StatusErrorf(http.StatusRequestEntityTooLarge, "an image has at most %d properties", maxEntries)
	}
	return nil
}

// view returns the document of an image.
func view(i store.Image) map[string]any {
	doc := map[string]any{}
	for name, value := range i.Properties {
		doc[name] = value
	}
	path := "/v2/images/" + i.ID
	maps.Copy(doc, map[string]any{"id": i.ID, "name": edge.OrNull(i.Name), "owner": edge.OrNull(i.Owner),
		"status": i.Status, "visibility": i.Visibility, "protected": i.Protected, "os_hidden": i.Hidden,
		"tags": append([]string{}, i.Tags...), "disk_format": edge.OrNull(string(i.DiskFormat)),
		"container_format": edge.OrNull(i.ContainerFormat), "min_disk": i.MinDiskGB, "min_ram": i.MinRAMMB,
		"size": nil, "virtual_size": nil, "checksum": nil, "os_hash_algo": nil, "os_hash_value": nil,
		"created_at": i.Created.Format(time.RFC3339), "updated_at": i.Updated.Format(time.RFC3339),
		"self": path, "file": path + "/file", "schema": "/v2/schemas/image"})
	if i.HasData() {
		maps.Copy(doc, map[string]any{"size": i.Size, "virtual_size": i.VirtualSize, "checksum": i.MD5,
			"os_hash_algo": "sha512", "os_hash_value": i.SHA512, "stores": storeName})
	}
	if i.Import != nil {
		doc["os_glance_import_task"] = i.Import.ID
		if i.Import.Status == store.ImportFailed {
			doc["os_glance_failed_import"] = storeName
		}
		if i.Import.Status == store.ImportRuns {
			doc["os_glance_importing_to_stores"] = storeName
		}
	}
	return doc
}
