package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/cloudsfile"
	"github.com/openberth/berth/fault"
)

// CloudCmd prints the account of the command as clouds of clouds.yaml.
type CloudCmd struct {
	Name  string `arg:"" optional:"" help:"Name of the cloud. Default: ${default}." default:"berth"`
	Write bool   `help:"Write the clouds into the file of OS_CLIENT_CONFIG_FILE, or ~/.config/openstack/clouds.yaml; its other clouds stay."`
}

// Run prints or writes the clouds.
func (c *CloudCmd) Run(g *Globals) error {
	a := g.account()
	if a.err != nil {
		return a.err
	}
	clouds := a.clouds(c.Name, g)
	if !c.Write {
		text, err := cloudsfile.Text(clouds...)
		if err != nil {
			return fault.Wrap(fault.Internal, err)
		}
		_, err = io.WriteString(g.stdout(), text)
		return err
	}
	file, err := ownCloudsFile()
	if err != nil {
		return err
	}
	changed, err := cloudsfile.Merge(file, clouds...)
	switch {
	case err != nil:
		return err
	case changed:
		fmt.Fprintf(g.stderr(), "cloud %s written to %s\n", c.Name, file)
	default:
		fmt.Fprintf(g.stderr(), "cloud %s is already in %s\n", c.Name, file)
	}
	return nil
}

// ownCloudsFile returns the path of the user's clouds.yaml, and creates its directory.
func ownCloudsFile() (string, error) {
	if file := os.Getenv("OS_CLIENT_CONFIG_FILE"); file != "" {
		return file, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fault.New(fault.Invalid, "the directory of clouds.yaml is not known: %w; set OS_CLIENT_CONFIG_FILE", err)
	}
	dir = filepath.Join(dir, "openstack")
	return filepath.Join(dir, "clouds.yaml"), fault.Wrap(fault.Unavailable, os.MkdirAll(dir, 0o700))
}

// clouds returns the account as a cloud, and for accounts without a catalog one more for the commands of `openstack`
// that call Placement, which use only endpoint.
func (a *commandAccount) clouds(name string, g *Globals) []cloudsfile.Cloud {
	addresses := map[string]string{placement.CatalogType: g.placement().REST.Base,
		compute.CatalogType: g.compute().REST.Base, network.CatalogType: g.networks().REST.Base,
		image.CatalogType: g.images().REST.Base}
	if addresses[compute.CatalogType] != "" {
		addresses[compute.CatalogType] += "/v2.1"
	}
	c := cloudsfile.Cloud{Name: name, Type: a.cloud.authType()}
	for _, option := range []string{"auth_url", "username", "user_id", "password", "user_domain_name", "user_domain_id",
		"project_name", "project_id", "project_domain_name", "project_domain_id", "domain_name", "domain_id",
		"system_scope", "application_credential_id", "application_credential_name", "application_credential_secret",
		"token"} {
		c.Auth = append(c.Auth, cloudsfile.Option{Name: option, Value: a.cloud.get(option)})
	}
	if a.account == nil {
		c.Type = "admin_token"
		c.Auth = []cloudsfile.Option{{Name: "token", Value: a.token}}
	}
	for _, kind := range []string{compute.CatalogType, image.CatalogType, network.CatalogType, placement.CatalogType} {
		c.Options = append(c.Options, cloudsfile.Option{Name: kind + "_endpoint_override", Value: addresses[kind]})
	}
	for _, option := range []string{"region_name", "interface"} {
		c.Options = append(c.Options, cloudsfile.Option{Name: option, Value: a.cloud.get(option)})
	}
	c.Options = append(c.Options, a.certificateOptions()...)
	if a.account.Locate(compute.CatalogType) != nil { // Keystone's catalog has the addresses
		return []cloudsfile.Cloud{c}
	}
	forPlacement := c
	forPlacement.Name += "-placement"
	withEndpoint := func(kind string) []cloudsfile.Option {
		return append(c.Auth[:len(c.Auth):len(c.Auth)], cloudsfile.Option{Name: "endpoint", Value: addresses[kind]})
	}
	c.Auth, forPlacement.Auth = withEndpoint(compute.CatalogType), withEndpoint(placement.CatalogType)
	return []cloudsfile.Cloud{c, forPlacement}
}

// certificateOptions returns the options of a cloud for certificates, with absolute paths.
func (a *commandAccount) certificateOptions() []cloudsfile.Option {
	absolute := func(file string) string {
		if file == "" {
			return ""
		}
		path, err := filepath.Abs(file)
		if err != nil {
			return file
		}
		return path
	}
	verify := ""
	if a.cloud.insecure() {
		verify = "false"
	}
	return []cloudsfile.Option{{Name: "cacert", Value: absolute(a.files.CAFile)},
		{Name: "cert", Value: absolute(a.files.CertFile)},
		{Name: "key", Value: absolute(cmp.Or(a.files.KeyFile, a.files.CertFile))}, {Name: "verify", Value: verify}}
}
