package clienttest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// TestFirstWeekCommands executes what a user does in the first week, the lines of
// testdata/openstack-first-week-commands.txt, in real clients with Keystone and with http_basic.
func TestFirstWeekCommands(t *testing.T) {
	t.Run("keystone", func(t *testing.T) {
		c := Start(t)
		c.reportNetworkAgent(t, c.StartNetwork(t))
		c.User(t, "ann", "p1", "member")
		performSteps(t, "testdata/openstack-first-week-commands.txt", firstWeekFiles(t), c.computeCredentials)
	})
	t.Run("http_basic", func(t *testing.T) {
		u := startUp(t, basicAccounts(t, "admin", "ann", "agent"))
		reportNetworkAgentAs(t, u.network, func(r *http.Request) { r.SetBasicAuth("agent", "agent-secret") })
		clouds := filepath.Join(t.TempDir(), "clouds.yaml")
		text := "clouds:\n"
		for _, name := range []string{"admin", "ann"} {
			text += fmt.Sprintf(`  %[1]s:
    auth_type: http_basic
    auth: {username: %[1]s, password: %[1]s-secret, endpoint: "%[2]s/v2.1"}
    compute_endpoint_override: %[2]s/v2.1
    network_endpoint_override: %[3]s
    image_endpoint_override: %[4]s
`, name, u.compute, u.network, u.image)
		}
		Write(t, clouds, text)
		performSteps(t, "testdata/openstack-first-week-commands.txt", firstWeekFiles(t), func(who string) []string {
			name, version, _ := strings.Cut(who, " ")
			return []string{"OS_CLIENT_CONFIG_FILE=" + clouds, "OS_CLOUD=" + name, "OS_COMPUTE_API_VERSION=" + version}
		})
	})
}

// firstWeekFiles returns the values of the lines: files for an image and a key pair.
func firstWeekFiles(t *testing.T) *strings.Replacer {
	t.Helper()
	dir := t.TempDir()
	disk, public := filepath.Join(dir, "disk"), filepath.Join(dir, "key.pub")
	Write(t, disk, "the data of a disk")
	Write(t, public, publicKey)
	return strings.NewReplacer("$DISK", disk, "$KEY", public)
}

// basicAccounts returns the options of http_basic with a user file of these accounts. The password of each is its name
// with "-secret".
func basicAccounts(t *testing.T, names ...string) string {
	t.Helper()
	var users strings.Builder
	for _, name := range names {
		hash, err := bcrypt.GenerateFromPassword([]byte(name+"-secret"), bcrypt.MinCost)
		must(t, err)
		fmt.Fprintf(&users, "%s:%s\n", name, hash)
	}
	file := filepath.Join(t.TempDir(), "htpasswd")
	must(t, os.WriteFile(file, []byte(users.String()), 0o600))
	return strings.Join([]string{"[DEFAULT]", "http_basic_auth_user_file = " + file,
		"[api]", "auth_strategy = http_basic", "[berth]",
		"admin_users = admin", "service_users = agent", "user_projects = ann:p1"}, "\n")
}
