package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/keystone"
)

// testUnifiedLimits checks quotas that are Keystone's registered limits and limits of a project.
func testUnifiedLimits(t *testing.T, k *keystone.Keystone) {
	k.User(t, "placement", "service", "service")
	reader, _ := k.User(t, "limits", "service", "reader")
	_, tight := k.User(t, "tim", "tight", "member")
	_, wide := k.User(t, "will", "wide", "member")
	system := k.SystemToken(t, k.AdminUser, k.AdminPassword)
	var roles struct{ Roles []struct{ ID string } }
	k.Call(t, system, "GET", "/roles?name=reader", nil, http.StatusOK, &roles)
	k.Call(t, system, "PUT", "/system/users/"+reader+"/roles/"+roles.Roles[0].ID, nil, http.StatusNoContent, nil)
	register(t, k, "compute", "http://127.0.0.1:1/v2.1")
	var found struct{ Endpoints []struct{ ID string } }
	var services struct{ Services []struct{ ID string } }
	k.Call(t, system, "GET", "/services?type=compute", nil, http.StatusOK, &services)
	service := services.Services[0].ID
	k.Call(t, system, "GET", "/endpoints?interface=public&service_id="+service, nil, http.StatusOK, &found)
	for resource, limit := range map[string]int{"servers": 2, "class:VCPU": 4, "class:DISK_GB": -1,
		"server_key_pairs": 0} {
		k.Call(t, system, "POST", "/registered_limits", keystone.Doc{"registered_limits": []keystone.Doc{{
			"service_id": service, "region_id": k.Region, "resource_name": resource, "default_limit": limit}}},
			http.StatusCreated, nil)
	}
	k.Call(t, system, "POST", "/limits", keystone.Doc{"limits": []keystone.Doc{{"service_id": service,
		"region_id": k.Region, "project_id": tight, "resource_name": "class:VCPU", "resource_limit": 1}}},
		http.StatusCreated, nil)

	authtoken := "[api]\nauth_strategy = keystone\n" + keystoneAccount(k, "keystone_authtoken", "placement")
	account := strings.Replace(keystoneAccount(k, "oslo_limit", "limits"), "project_name = service",
		"system_scope = all", 1)
	c := start(t, []string{"compute"}, "compute", "--config-file", conf(t, machine(t, 1, 2)), "--config-file",
		writeConfig(t, "compute.conf", authtoken, "[placement]\nendpoint_override = http://127.0.0.1:1",
			"[quota]\ndriver = nova.quota.UnifiedLimitsDriver", account, "endpoint_id = "+found.Endpoints[0].ID),
		"--data-dir", t.TempDir(), "--listen", "127.0.0.1:0")
	call := func(user, project, method, path, body string, status int, part string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, c.urls["compute"]+"/v2.1"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		password := user
		if user == k.AdminUser {
			password = k.AdminPassword
		}
		r.Header.Set("X-Auth-Token", k.Token(t, user, password, project))
		r.Header.Set("OpenStack-API-Version", "compute 2.60")
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status || !strings.Contains(string(answer), part) {
			t.Errorf("%s %s of %s: %d %s %v, want %d %s", method, path, user, resp.StatusCode, answer, err, status, part)
		}
	}
	admin := func(method, path, body string, status int, part string) {
		t.Helper()
		call(k.AdminUser, k.AdminProject, method, path, body, status, part)
	}
	for _, vcpus := range []int{1, 2} {
		admin("POST", "/flavors", fmt.Sprintf(
			`{"flavor": {"id": "f%d", "name": "f%[1]d", "vcpus": %[1]d, "ram": 64, "disk": 1}}`, vcpus), 200, "")
	}
	server := func(vcpus, count int) string {
		return fmt.Sprintf(`{"server": {"name": "s", "flavorRef": "f%d", "networks": "none", "min_count": %d}}`, vcpus, count)
	}
	call("tim", "tight", "POST", "/servers", server(2, 1), 403, "Quota exceeded for class:VCPU: Requested 2, but already "+
		"used 0 of 1 class:VCPU")
	call("tim", "tight", "POST", "/servers", server(1, 1), 202, "")
	call("will", "wide", "POST", "/servers", server(1, 3), 403, "Quota exceeded for instances: Requested 3, but already "+
		"used 0 of 2 instances")
	call("will", "wide", "POST", "/servers", server(2, 2), 202, "")
	call("will", "wide", "POST", "/os-keypairs", `{"keypair": {"name": "k"}}`, 403, "Quota exceeded, too many key pairs.")
	call("tim", "tight", "GET", "/os-quota-sets/"+tight+"/detail", "", 200, `"cores":{"in_use":1,"limit":1,"reserved":0}`)
	admin("GET", "/os-quota-sets/"+wide, "", 200, `{"cores":4,"id":"`+wide+`","instances":2,"key_pairs":0,`)
	admin("GET", "/os-quota-sets/"+wide+"/defaults", "", 200, `"cores":4`)
	call("will", "wide", "GET", "/limits", "", 200, `"totalCoresUsed":4`)
	admin("PUT", "/os-quota-sets/"+wide, `{"quota_set": {"cores": 9}}`, 403, "limits are those of Keystone")
	admin("DELETE", "/os-quota-sets/"+wide, "", 403, "limits are those of Keystone")
	admin("PUT", "/os-quota-class-sets/default", `{"quota_class_set": {"cores": 9}}`, 403, "limits are those of Keystone")
	c.stop(t)
}
