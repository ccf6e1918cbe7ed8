package demo

import (
	"fmt"
	"io"
)

// LookAround prints how to explore the running cloud with a browser, and with curl, berth and the openstack client. An
// empty consoleURL: there is no console.
func LookAround(out io.Writer, consoleURL, placementURL, computeURL string) {
	fmt.Fprint(out, "\nThe cloud runs until you press Ctrl-C.")
	if consoleURL != "" {
		fmt.Fprintf(out, ` Its console shows the machine with each device and who holds it; the token to
sign in with is admin:

  %s`, consoleURL)
	}
	fmt.Fprintf(out, `

Explore it from another terminal:

  curl -s -H 'X-Auth-Token: admin' -H 'OpenStack-API-Version: placement 1.39' %[1]s/resource_providers
  curl -s -H 'X-Auth-Token: admin' %[2]s/v2.1/flavors/detail

  export BERTH_PLACEMENT_URL=%[1]s BERTH_COMPUTE_URL=%[2]s
  berth device list
  berth tree
  berth server create mine --flavor %[3]s --wait
  berth server why mine
  berth candidates resources=%[4]s:1

  apt-get install python3-openstackclient python3-osc-placement
  openstack --os-auth-type admin_token --os-token admin --os-endpoint %[1]s resource provider list
  openstack --os-auth-type admin_token --os-token admin --os-endpoint %[1]s --os-placement-api-version 1.29 allocation candidate list --resource %[4]s=1
  openstack --os-auth-type admin_token --os-token admin --os-endpoint %[2]s/v2.1 server list
`, placementURL, computeURL, flavorName, Class)
}
