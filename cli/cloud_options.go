package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// cloud is the account at a cloud and its addresses, from the OS_ variables or from a cloud of clouds.yaml. Its options
// have the names of clouds.yaml; a variable has the prefix OS_ and the same name.
type cloud struct {
	name    string // of the cloud in the file; empty: from the variables
	file    string
	options map[string]string
}

// cloudOptions are the options that are read. Others have no effect.
var cloudOptions = [...]string{"auth_type", "auth_url", "username", "user_id", "password", "user_domain_name",
	"user_domain_id", "project_name", "project_id", "tenant_name", "tenant_id", "project_domain_name",
	"project_domain_id", "default_domain", "default_domain_id", "default_domain_name", "domain_name", "domain_id",
	"system_scope", "application_credential_id", "application_credential_name", "application_credential_secret", "token",
	"endpoint", "region_name", "interface", "endpoint_type", "cacert", "cert", "key", "insecure", "verify",
	"placement_endpoint_override", "compute_endpoint_override", "network_endpoint_override", "image_endpoint_override"}

// readCloud returns the cloud of this name in clouds.yaml, or that of the OS_ variables if the name is empty. A
// password that the file lacks is that of OS_PASSWORD.
func readCloud(name string) (cloud, error) {
	if name != "" {
		c, err := readCloudsFile(name)
		if err == nil && c.options["password"] == "" {
			c.options["password"] = os.Getenv("OS_PASSWORD")
		}
		return c, err
	}
	c := cloud{options: map[string]string{}}
	for _, option := range cloudOptions {
		c.options[option] = os.Getenv("OS_" + strings.ToUpper(option))
	}
	c.options["endpoint"] = cmp.Or(c.options["endpoint"], os.Getenv("OS_URL"))
	return c, nil
}

// isSet reports whether an option is set.
func (c cloud) isSet() bool {
	for _, value := range c.options {
		if value != "" {
			return true
		}
	}
	return false
}

// readDefaultCloud returns the cloud DefaultCloud if there is a clouds.yaml that has it, else the other one.
func readDefaultCloud(other cloud) (cloud, error) {
	_, clouds, err := readFirst(cloudsFiles("clouds", "OS_CLIENT_CONFIG_FILE"))
	if _, found := clouds[DefaultCloud]; err != nil || !found {
		return other, err
	}
	return readCloud(DefaultCloud)
}

// cloudsFiles returns the files that are searched for a name such as clouds, in the order of OpenStack's clients.
func cloudsFiles(name, variable string) []string {
	var files []string
	if file := os.Getenv(variable); file != "" {
		files = append(files, file)
	}
	dirs := []string{"."}
	if config, err := os.UserConfigDir(); err == nil {
		dirs = append(dirs, filepath.Join(config, "openstack"))
	}
	for _, dir := range append(dirs, "/etc/openstack") {
		files = append(files, filepath.Join(dir, name+".yaml"), filepath.Join(dir, name+".yml"))
	}
	return files
}

// readCloudsFile reads a cloud of the first clouds.yaml, and the same cloud of the first secure.yaml, whose options
// have priority.
func readCloudsFile(name string) (cloud, error) {
	files := cloudsFiles("clouds", "OS_CLIENT_CONFIG_FILE")
	file, clouds, err := readFirst(files)
	if err != nil {
		return cloud{}, err
	}
	if file == "" {
		return cloud{}, fault.New(fault.NotFound, "there is no clouds.yaml for the cloud %s; create one of %s", name,
			strings.Join(files, ", "))
	}
	found, ok := clouds[name]
	if !ok {
		return cloud{}, fault.New(fault.NotFound, "%s has no cloud %s; %s", file, name, fault.DidYouMean(name,
			sortedKeys(clouds), "correct OS_CLOUD or the file"))
	}
	_, secrets, err := readFirst(cloudsFiles("secure", "OS_CLIENT_SECURE_FILE"))
	if err != nil {
		return cloud{}, err
	}
	c := cloud{name: name, file: file, options: map[string]string{}}
	if _, ok := found["profile"]; ok {
		return cloud{}, c.fault("profile", "profiles are not supported; write the options of the profile into the cloud")
	}
	for _, values := range []map[string]any{found, secrets[name]} {
		auth, _ := values["auth"].(map[string]any)
		for _, option := range cloudOptions {
			for _, from := range []map[string]any{values, auth} {
				if value, ok := from[option]; ok && value != nil {
					c.options[option] = fmt.Sprint(value)
				}
			}
		}
	}
	return c, nil
}

// readFirst reads the clouds of the first file that exists. file is empty if none does.
func readFirst(files []string) (file string, clouds map[string]map[string]any, err error) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", nil, fault.New(fault.Invalid, "cannot read the clouds: %w; make the file readable", err)
		}
		var doc struct {
			Clouds map[string]map[string]any
		}
		if yaml.Unmarshal(text, &doc) != nil { // its error may contain a password
			return "", nil, fault.New(fault.Invalid, "%s is not valid: it is not YAML, or not of the form "+
				"`clouds: {NAME: {auth: {…}}}`; correct it", file)
		}
		return file, doc.Clouds, nil
	}
	return "", nil, nil
}

// get returns an option; empty if it is not set.
func (c cloud) get(option string) string {
	other := map[string]string{"project_name": "tenant_name", "project_id": "tenant_id"}
	return cmp.Or(c.options[option], c.options[other[option]])
}

// authType returns the kind of the account; empty if there is none.
func (c cloud) authType() string {
	switch {
	case c.get("auth_type") != "":
		return c.get("auth_type")
	case c.get("token") != "":
		return "token"
	case c.get("application_credential_secret") != "":
		return "v3applicationcredential"
	case c.get("auth_url") != "" || c.name != "":
		return "password"
	}
	return ""
}

// domain returns the id and the name of the domain of a user or project: the default domain, if no other is set.
func (c cloud) domain(of string) (id, name string) {
	id, name = c.get(of+"domain_id"), c.get(of+"domain_name")
	if id == "" && name == "" {
		id, name = c.get("default_domain_id"), c.get("default_domain_name")
	}
	if id == "" && name == "" {
		id = cmp.Or(c.get("default_domain"), "default")
	}
	return id, name
}

// insecure reports whether the certificates of servers are not checked.
func (c cloud) insecure() bool {
	is := func(option string, values ...string) bool {
		for _, value := range values {
			if strings.EqualFold(c.get(option), value) {
				return true
			}
		}
		return false
	}
	return is("insecure", "true", "yes", "1") || is("verify", "false", "no", "0")
}

// certificates returns the files of the command line, and where it has none those of the cloud.
func (c cloud) certificates(files rest.TLSFiles) rest.TLSFiles {
	if own := c.get("cacert"); files.CAFile == "" && own != "" {
		files.CAFile, files.Names.CA = own, c.place("cacert")
	}
	if own := c.get("cert"); files.CertFile == "" && own != "" {
		files.CertFile, files.Names.Cert = own, c.place("cert")
		files.KeyFile, files.Names.Key = c.get("key"), c.place("key")
	}
	files.Insecure = c.insecure()
	return files
}

// place names an option, or all of them with "", for errors.
func (c cloud) place(option string) string {
	switch {
	case c.name != "" && option != "":
		return fmt.Sprintf("%s of cloud %s in %s", option, c.name, c.file)
	case c.name != "":
		return fmt.Sprintf("cloud %s in %s", c.name, c.file)
	case option != "":
		return "OS_" + strings.ToUpper(option)
	}
	return "the variables OS_USERNAME, OS_PASSWORD and OS_PROJECT_NAME"
}

// fault returns a fault of kind Invalid about an option.
func (c cloud) fault(option, format string, args ...any) error {
	return fault.New(fault.Invalid, "%s: "+format, append([]any{c.place(option)}, args...)...)
}

// missing returns the fault for an option that is not set.
func (c cloud) missing(option, remedy string) error {
	return fault.New(fault.Invalid, "%s is not set; %s", c.place(option), remedy)
}

// require returns a fault for the first of the options that is not set.
func (c cloud) require(options ...string) error {
	for _, option := range options {
		if c.get(option) == "" {
			return c.missing(option, "set it, or use another auth_type")
		}
	}
	return nil
}
