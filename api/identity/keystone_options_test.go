package identity

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	file, err := config.Parse("placement.conf", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return config.New(file)
}

func TestReadKeystone(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       KeystoneOptions
		warnings   []string // parts of them
	}{
		{"as in the installation guide", `
www_authenticate_uri = http://public:5000/v3
auth_url = http://controller:5000/v3
memcached_servers = controller:11211
auth_type = password
project_domain_name = Default
user_domain_name = Default
project_name = service
username = placement
password = p$$w
`, KeystoneOptions{PublicURL: "http://public:5000/v3", AuthURL: "http://controller:5000/v3",
			ProjectDomainName: "Default", UserDomainName: "Default",
			ProjectName: "service", Username: "placement", Password: "p$w", Retries: 3, CacheTime: 300 * time.Second,
			ServiceRoles: []string{"service"}},
			[]string{"memcached is not used"}},
		{"all options", `
auth_uri = http://public
auth_url = http://k
auth_plugin = v3password
user_name = u
user_id = ui
default_domain_name = D
tenant_name = t
tenant_id = ti
password = x
system_scope = all
domain_id = di
domain_name = dn
region_name = R
interface = admin
insecure = true
cafile = ca
certfile = cert
keyfile = key
http_connect_timeout = 7
http_request_max_retries = 0
token_cache_time = -1
service_token_roles = a, b
service_token_roles_required = yes
service_type = placement
auth_version = v2.0
delay_auth_decision = true
enforce_token_bind = disabled
`, KeystoneOptions{PublicURL: "http://public", AuthURL: "http://k", Username: "u", UserID: "ui", UserDomainName: "D",
			ProjectDomainName: "D", ProjectName: "t", ProjectID: "ti",
			Password: "x", SystemScope: "all", DomainID: "di", DomainName: "dn", Region: "R", Interface: "admin", Insecure: true,
			CAFile: "ca", CertFile: "cert", KeyFile: "key",
			Timeout: 7 * time.Second, CacheTime: -time.Second, ServiceRoles: []string{"a", "b"}, ServiceRolesRequired: true,
			ServiceType: "placement"},
			[]string{"v3 API", "refused at once"}},
		{"an application credential", "auth_url = http://k\nauth_type = v3applicationcredential\napplication_credential_id " +
			"= i\napplication_credential_name = n\napplication_credential_secret = s\ntoken_cache_time = 0\n",
			KeystoneOptions{AuthURL: "http://k", ApplicationCredentialID: "i", ApplicationCredentialName: "n",
				ApplicationCredentialSecret: "s", Retries: 3, CacheTime: -1, ServiceRoles: []string{"service"}},
			[]string{"www_authenticate_uri is not set"}},
		{"another section", "www_authenticate_uri = u\nauth_section = who\nauth_url = http://wrong\n[who]\nauth_url = " +
			"http://k\nauth_type = password\nusername = u\npassword = p\nuser_domain_id = d\n",
			KeystoneOptions{PublicURL: "u", AuthURL: "http://k", Username: "u", Password: "p", UserDomainID: "d", Retries: 3,
				CacheTime: 300 * time.Second, ServiceRoles: []string{"service"}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := parsed(t, "[keystone_authtoken]\n"+c.text)
			got, warnings, err := ReadKeystone(cfg)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, %v\nwant %+v", got, err, c.want)
			}
			if len(warnings) != len(c.warnings) {
				t.Fatalf("%q", warnings)
			}
			for i, part := range c.warnings {
				if !strings.Contains(warnings[i], part) {
					t.Errorf("%q; want %q", warnings[i], part)
				}
			}
			for _, e := range cfg.Unknown(KnownKeystone()) {
				if e.Group == "keystone_authtoken" {
					t.Errorf("%s is unknown", e.Option)
				}
			}
		})
	}
}

func TestReadKeystoneRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"": "[keystone_authtoken] auth_type is missing",
		"auth_type = v3oidcpassword": "placement.conf:2: [keystone_authtoken] auth_type = v3oidcpassword: Berth does not " +
			"support this auth_type",
		"token_cache_time = soon":                             "placement.conf:2: [keystone_authtoken] token_cache_time",
		"insecure = perhaps":                                  "placement.conf:2: [keystone_authtoken] insecure",
		"auth_type = password\npassword = $nothing":           "placement.conf:3: [keystone_authtoken] password = ***",
		"auth_type = password\nenforce_token_bind = required": "placement.conf:3: [keystone_authtoken] enforce_token_bind",
		"auth_type = password\ndelay_auth_decision = 2":       "placement.conf:3: [keystone_authtoken] delay_auth_decision",
	} {
		if _, _, err := ReadKeystone(parsed(t, "[keystone_authtoken]\n"+text)); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v; want %q", text, err, why)
		}
	}
}

func TestKeystoneOptionsAreChecked(t *testing.T) {
	good := KeystoneOptions{AuthURL: "http://h:5000", Username: "u", Password: "p", UserDomainID: "d"}
	if k, err := NewKeystone(good); err != nil || k.Challenge() != `Keystone uri="http://h:5000"` {
		t.Error(err)
	}
	public := good
	public.PublicURL = "https://cloud/v3"
	if k, err := NewKeystone(public); err != nil || k.Challenge() != `Keystone uri="https://cloud/v3"` {
		t.Error(err)
	}
	for text, change := range map[string]func(*KeystoneOptions){
		"auth_url is missing":                      func(o *KeystoneOptions) { o.AuthURL = "" },
		"auth_url = h:5000 is not an HTTP URL":     func(o *KeystoneOptions) { o.AuthURL = "h:5000" },
		"username is missing":                      func(o *KeystoneOptions) { o.Username = "" },
		"password is missing":                      func(o *KeystoneOptions) { o.Password = "" },
		"user_domain_name is missing":              func(o *KeystoneOptions) { o.UserDomainID = "" },
		"project_domain_name is missing":           func(o *KeystoneOptions) { o.ProjectName = "p" },
		"application_credential_secret is missing": func(o *KeystoneOptions) { o.ApplicationCredentialID = "a" },
		"application_credential_id is " +
			"missing": func(o *KeystoneOptions) { o.ApplicationCredentialSecret, o.Username = "s", "" },
		"cafile cannot be read": func(o *KeystoneOptions) { o.CAFile = "/nowhere" },
		"holds no certificate":  func(o *KeystoneOptions) { o.CAFile = "keystone_options_test.go" },
		"certfile and keyfile":  func(o *KeystoneOptions) { o.CertFile = "keystone_options_test.go" },
	} {
		o := good
		change(&o)
		if _, err := NewKeystone(o); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v; want %q", err, text)
		}
	}
}
