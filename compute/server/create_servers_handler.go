package server

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// maxServers is how many servers one request may create: as many as serverID can number.
const maxServers = 1 << 12

// unsupportedKeys returns the keys of the API that Berth refuses unless they are empty, with the reason.
func unsupportedKeys(v compute.Version) map[string]string {
	keys := map[string]string{
		"adminPass":               "Berth cannot set a guest's password",
		"accessIPv4":              "addresses are those of ports, which networks requests",
		"accessIPv6":              "addresses are those of ports, which networks requests",
		"block_device_mapping":    "Berth has no volumes",
		"block_device_mapping_v2": "Berth has no volumes",
		"key_name":                "a rebuild changes the key pair from microversion 2.54 on",
		"user_data":               "a rebuild changes user data from microversion 2.57 on",
	}
	if !v.Has(compute.NoPersonality) {
		keys["personality"] = "files cannot be injected into guests"
	}
	return keys
}

// createRequest is a decoded request to create servers.
type createRequest struct {
	server      lifecycle.Server // without its id, the suffix of its name, and the requests of its flavor
	flavor      string
	networks    requestedNetworks
	min, max    int
	reservation bool // respond with the reservation instead of the first server
}

// createServers is POST /v2.1/servers. It responds as soon as the servers are recorded; they are then in BUILD.
func (s *server) createServers(c *call) error {
	want, err := c.readCreateRequest()
	if err != nil {
		return err
	}
	f, err := s.visibleFlavor(c.R.Context(), c, want.flavor)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.Invalid, "Invalid input for server.flavorRef: %w", err)
	}
	if err != nil {
		return err
	}
	if f.Disabled {
		return fault.New(fault.Invalid, "flavor %s is disabled; choose another flavor", f.Name)
	}
	if err := flavor.CheckProperties(f, flavor.Image{}, s.Ignored); err != nil {
		return err
	}
	want.server.Flavor = f
	if want.server.PublicKey, err = s.publicKey(c, c.Who.User, want.server.KeyName); err != nil {
		return err
	}
	if want.server.ImageSnapshot, err = s.findImage(c, f, want.server.Image, "Can not find requested image",
		true); err != nil {
		return err
	}
	if err := flavor.CheckSecureBoot(f, want.server.SourceImage(), s.Ignored); err != nil {
		return err
	}
	if want.server.Networks, err = s.findNetworks(c, want.networks, want.max); err != nil {
		return err
	}
	made, err := s.create(c.R.Context(), want)
	if err != nil {
		return err
	}
	if want.reservation {
		reservation, _ := reservationOf(made.ID)
		return c.writeJSON(http.StatusAccepted, map[string]string{"reservation_id": reservation})
	}
	links := c.links("servers", made.ID)
	c.W.Header().Set("Location", links[0].HRef)
	return c.writeJSON(http.StatusAccepted, map[string]any{"server": compute.Created{ID: made.ID, Links: links,
		DiskConfig: "MANUAL", SecurityGroups: []map[string]string{}}})
}

// create records all servers of a request, or none, and returns the first. The conductor builds their requests to
// Placement; here it is only checked that they can be built.
func (s *server) create(ctx context.Context, want createRequest) (first lifecycle.Server, err error) {
	if err := s.checkRequest(want.server.Flavor, want.server.SourceImage()); err != nil {
		return lifecycle.Server{}, err
	}
	reservation := randomBytes()
	all := make([]lifecycle.Server, want.max)
	for i := range all {
		one := want.server
		one.ID = serverID(reservation, i)
		if want.max > 1 {
			one.Name += "-" + strconv.Itoa(i+1)
		}
		one.MinCount = want.min
		all[i] = one
	}
	made, err := s.Conductor.Create(ctx, all...)
	if err != nil {
		return lifecycle.Server{}, err
	}
	return made[0], nil
}

// readCreateRequest reads the body.
func (c *call) readCreateRequest() (want createRequest, err error) {
	o, others, err := c.wrapped("server")
	if err != nil {
		return want, err
	}
	for _, key := range []string{"os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"} {
		if hints, ok := others[key]; ok && string(hints) != "{}" && !isNull(hints) {
			return want, fault.New(fault.Invalid, "Berth does not support scheduler hints; leave %s out", key)
		}
		delete(others, key)
	}
	if err := refuseOthers("server", others); err != nil {
		return want, err
	}
	want.server = lifecycle.Server{Project: c.Who.Project, User: c.Who.User, Name: o.nameText("name"), Image: o.image(),
		Metadata: o.metadata(), Zone: o.zone()}
	want.server.KeyName, _ = o.text("key_name", 0, 255)
	want.server.UserData = o.userData()
	o.flag("config_drive", true) // ignored: a driver that can make the drive always makes it
	want.flavor, _ = o.scalar("flavorRef", true, "the id of a flavor")
	want.flavor = want.flavor[strings.LastIndexByte(want.flavor, '/')+1:] // it may be the flavor's link
	want.min = o.number("min_count", false, 1, 1, maxServers)
	want.max = o.number("max_count", false, want.min, 1, maxServers)
	if want.min > want.max {
		o.invalid("min_count", "it is %d, more than max_count, which is %d", want.min, want.max)
	}
	want.reservation = o.flag("return_reservation_id", false)
	want.networks = o.networks(c.version)
	o.securityGroups()
	if c.version.Has(compute.ServerDescription) {
		want.server.Description, _ = o.text("description", 0, 255)
	}
	if c.version.Has(compute.TagsAtCreation) {
		want.server.Tags = o.tags()
	}
	if disk, ok := o.text("OS-DCF:diskConfig", 0, 16); ok && disk != "MANUAL" && disk != "AUTO" {
		o.invalid("OS-DCF:diskConfig", "it is %q, and should be AUTO or MANUAL", disk)
	}
	return want, o.finish(unsupportedKeys(c.version))
}

// image reads imageRef: a UUID, alone or at the end of a link; or nothing.
func (o *object) image() string {
	ref, _ := o.text("imageRef", 0, 1024)
	ref = ref[strings.LastIndexByte(ref, '/')+1:]
	if ref == "" {
		return ""
	}
	id, err := uuid.Parse(ref)
	if err != nil {
		o.invalid("imageRef", "%q is not the UUID of an image", clip(ref))
	}
	return id.String()
}

func (o *object) metadata() map[string]string {
	var m map[string]string
	if !o.decode("metadata", false, &m, "an object of texts") {
		return nil
	}
	for key, value := range m {
		if key == "" || len(key) > 255 || len(value) > 255 {
			o.invalid("metadata", "key and value of %q must have at most 255 bytes, the key at least 1", clip(key))
		}
	}
	if len(m) > maxMetadata {
		o.invalid("metadata", "it has %d items; at most %d are allowed", len(m), maxMetadata)
	}
	return m
}

// zone reads availability_zone. Berth has only one zone, which has the name of OpenStack's default zone.
func (o *object) zone() string {
	zone, ok := o.text("availability_zone", 0, 255)
	if ok && zone != "" && zone != onlyZone {
		o.invalid("availability_zone", "there is no zone %q; Berth has the one zone %q", clip(zone), onlyZone)
	}
	return onlyZone
}

// securityGroups reads security_groups. It accepts only the group `default`, which every project has and which has no
// effect without a network.
func (o *object) securityGroups() {
	var groups []struct{ Name string }
	o.decode("security_groups", false, &groups, "a list of objects with the key name")
	for _, g := range groups {
		if g.Name != "default" {
			o.invalid("security_groups", "Berth has no security groups, so there is no group %q", clip(g.Name))
		}
	}
}

func (o *object) tags() []string {
	var tags []string
	o.decode("tags", false, &tags, "a list of texts")
	slices.Sort(tags)
	tags = slices.Compact(tags)
	if len(tags) > maxTags {
		o.invalid("tags", "there are %d; at most %d are allowed", len(tags), maxTags)
	}
	for _, tag := range tags {
		if !tagText.MatchString(tag) {
			o.invalid("tags", "%q is not a valid tag: a tag has 1 to 60 characters, without comma and slash", clip(tag))
		}
	}
	return tags
}

// serverID returns the id of the i-th server of a request: a UUID of version 8 (RFC 9562). Its first 48 bits are those
// of the request, the next 12 count its servers, and the rest is random. So reservation_id and launch_index need no
// column.
func serverID(reservation [16]byte, i int) string {
	id := uuid.UUID(randomBytes())
	copy(id[:6], reservation[:6])
	id[6] = 0x80 | byte(i>>8)
	id[7] = byte(i)
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// randomBytes returns 16 random bytes.
func randomBytes() (b [16]byte) {
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return b
}
