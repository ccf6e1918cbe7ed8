package servers

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/server/networking"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// UnsupportedKeys returns the keys of the API that Berth refuses unless they are empty, with the reason.
func UnsupportedKeys(v compute.Version) map[string]string {
	keys := map[string]string{
		"block_device_mapping": "Berth has no volumes",
		"block_device_mapping_v2": "Berth has no volumes; the list may have only the root disk of an image, with " +
			"destination_type local",
		"key_name":  "a rebuild changes the key pair from microversion 2.54 on",
		"user_data": "a rebuild changes user data from microversion 2.57 on",
	}
	if !v.Has(compute.NoPersonality) {
		keys["personality"] = "files cannot be injected into guests; write them with user_data"
	}
	if v.Has(compute.TrustedImages) {
		keys["trusted_image_certificates"] = "Berth does not check signatures of images"
	}
	return keys
}

// createRequest is a decoded request to create servers.
type createRequest struct {
	server      lifecycle.Server // without its id, the suffix of its name, and the requests of its flavor
	flavor      string
	networks    networking.RequestedNetworks
	place       place
	groups      []string // names or ids of security groups
	min, max    int
	reservation bool // respond with the reservation instead of the first server
}

// createServers is POST /v2.1/servers. It responds as soon as the servers are recorded; they are then in BUILD.
func (s *Handlers) createServers(c *request.Call) error {
	want, err := readCreateRequest(c)
	if err != nil {
		return err
	}
	if err := s.Catalog.CheckMetadata(c, len(want.server.Metadata)); err != nil {
		return err
	}
	if err := checkGroup(c, s.Store, want.server.Group); err != nil {
		return err
	}
	if want.server.Zone, want.server.Target, err = where(s, c, want.place); err != nil {
		return err
	}
	f, err := s.Catalog.VisibleFlavor(c.R.Context(), c, want.flavor)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.Invalid, "Invalid input for server.flavorRef: %w", err)
	}
	if err != nil {
		return err
	}
	if f.Disabled {
		return fault.New(fault.Invalid, "flavor %s is disabled; choose another flavor", f.Name)
	}
	if err := flavor.CheckProperties(f, flavor.Image{}, s.Catalog.Ignored); err != nil {
		return err
	}
	want.server.Flavor = f
	if want.server.PublicKey, err = s.Catalog.PublicKey(c, c.Who.User, want.server.KeyName); err != nil {
		return err
	}
	if want.server.ImageSnapshot, err = s.FindImage(c, f, want.server.Image, "Can not find requested image",
		true); err != nil {
		return err
	}
	if err := s.CheckZeroDisk(c, f, want.server.Image); err != nil {
		return err
	}
	if err := flavor.CheckSecureBoot(f, want.server.SourceImage(), s.Catalog.Ignored); err != nil {
		return err
	}
	networks := networking.NewFinder(s.Networking, c, "Creating servers with ports")
	if want.server.Networks, err = networks.FindNetworks(c, want.networks, want.max); err != nil {
		return err
	}
	want.server.PortAmounts = networks.Found()
	if want.server.SecurityGroups, err = s.Networking.Groups().Find(c.R.Context(), c.Who.Project,
		want.groups); err != nil {
		if fault.Is(err, fault.NotFound) {
			err = fault.Wrap(fault.Invalid, err)
		}
		return err
	}
	made, err := s.create(c.R.Context(), want)
	if err != nil {
		return err
	}
	if want.reservation {
		reservation, _ := lifecycle.Reservation(made.ID)
		return c.WriteJSON(http.StatusAccepted, map[string]string{"reservation_id": reservation})
	}
	links := c.Links("servers", made.ID)
	c.W.Header().Set("Location", links[0].HRef)
	return c.WriteJSON(http.StatusAccepted, map[string]any{"server": compute.Created{ID: made.ID, Links: links,
		DiskConfig: diskConfig(made.AutoDisk), SecurityGroups: networking.RequestedGroups(want.groups),
		AdminPass: ShownPassword(s, want.server.AdminPass)}})
}

// create records the servers of a request and returns the first: max of them, or as many as the quotas permit if these
// are min at least. The conductor builds their requests to Placement; here it is only checked that they can be built.
func (s *Handlers) create(ctx context.Context, want createRequest) (first lifecycle.Server, err error) {
	want.server.RequestedAmounts, err = s.Catalog.RequestAmounts(want.server.Flavor, want.server.SourceImage())
	if err != nil {
		return lifecycle.Server{}, err
	}
	reservation := uuid.New()
	all := make([]lifecycle.Server, want.max)
	for i := range all {
		one := want.server
		one.ID = lifecycle.ServerID(reservation, uuid.New(), i)
		if want.max > 1 {
			one.Name += "-" + strconv.Itoa(i+1)
		}
		one.MinCount = want.min
		all[i] = one
	}
	for {
		made, err := s.Conductor.Create(ctx, all...)
		if err == nil {
			return made[0], nil
		}
		over, exceeded := errors.AsType[*quota.Exceeded](err)
		if !exceeded || over.Fit(len(all)) < max(want.min, 1) {
			return lifecycle.Server{}, err
		}
		all = all[:over.Fit(len(all))]
	}
}

// readCreateRequest reads the body.
func readCreateRequest(c *request.Call) (want createRequest, err error) {
	o, others, err := c.Object("server")
	if err != nil {
		return want, err
	}
	hints, err := readHints(c, others)
	if err != nil {
		return want, err
	}
	if err := c.RefuseOthers("server", others); err != nil {
		return want, err
	}
	want.server = lifecycle.Server{Project: c.Who.Project, User: c.Who.User, CreateRequest: c.ID,
		Name: request.NameText(o, "name"), Image: ReadImageRef(o), Metadata: ReadMetadataItems(o), Group: hints.group,
		SameHost: hints.same, DifferentHost: hints.different}
	want.place = readPlace(c, o)
	o.Text("key_name", &want.server.KeyName, 255)
	want.server.UserData = ReadUserData(o)
	o.Flag("config_drive", &want.server.ConfigDrive)
	o.Require("flavorRef")
	o.Scalar("flavorRef", &want.flavor, "the id of a flavor")
	want.flavor = want.flavor[strings.LastIndexByte(want.flavor, '/')+1:] // it may be the flavor's link
	want.min = 1
	o.Number("min_count", &want.min, 1, lifecycle.MaxRequested)
	want.max = want.min
	o.Number("max_count", &want.max, 1, lifecycle.MaxRequested)
	if want.min > want.max {
		o.Invalid("min_count", "it is %d, more than max_count, which is %d", want.min, want.max)
	}
	o.Flag("return_reservation_id", &want.reservation)
	want.networks = networking.ReadNetworks(o, c.Microversion)
	want.groups = networking.ReadSecurityGroups(o)
	if c.Has(compute.ServerDescription) {
		o.Text("description", &want.server.Description, 255)
	}
	if c.Has(compute.TagsAtCreation) {
		want.server.Tags = readTags(o)
	}
	readBootDisk(o, &want.server.Image)
	want.server.AdminPass = ReadPassword(o)
	if ReadHostname(c, o, &want.server.Hostname) && want.max > 1 {
		o.Invalid("hostname", "several servers cannot have one host name; leave it out")
	}
	want.server = want.server.WithDetails(ReadDescribed(o).Applied(want.server.Details()), time.Time{})
	o.Reasons = UnsupportedKeys(c.Microversion)
	return want, o.Finish()
}

// ReadImageRef reads imageRef: a UUID, alone or at the end of a link; or nothing.
func ReadImageRef(o *edge.Object) string {
	ref := ""
	o.Text("imageRef", &ref, 1024)
	ref = ref[strings.LastIndexByte(ref, '/')+1:]
	if ref == "" {
		return ""
	}
	id, err := uuid.Parse(ref)
	if err != nil {
		o.Invalid("imageRef", "%q is not the UUID of an image", edge.Clip(ref))
	}
	return id.String()
}

// ReadMetadataItems decodes metadata: an object of texts.
func ReadMetadataItems(o *edge.Object) map[string]string {
	var m map[string]string
	if !o.Decode("metadata", &m, "an object of texts") {
		return nil
	}
	for key, value := range m {
		if key == "" || len(key) > 255 || len(value) > 255 {
			o.Invalid("metadata", "key and value of %q must have at most 255 bytes, the key at least 1", edge.Clip(key))
		}
	}
	return m
}

// maxUserData is the largest user_data, in characters of base64, as in the Compute API.
const maxUserData = 65535

// ReadUserData decodes user_data: base64, with or without line breaks; or nothing.
func ReadUserData(o *edge.Object) string {
	text := ""
	o.Text("user_data", &text, maxUserData)
	if _, err := lifecycle.DecodeUserData(text); err != nil {
		o.Invalid("user_data", "it is not base64")
	}
	return text
}
