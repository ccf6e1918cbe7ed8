package actions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/server/servers"
	"github.com/openberth/berth/fault"
)

// The reasons of actions that Berth refuses with the status that Nova documents.
const (
	onPassword = "it cannot set the password of a guest that exists; log in with a key pair, or rebuild the server " +
		"with another adminPass"
	onReset       = "it was removed from the Compute API, and reset the network of guests of Xen"
	onNetworkInfo = "guests read their network from the config drive, which is made when they are built; attach or " +
		"detach a port (os-interface), or rebuild the server"
)

// refusedStatuses are the statuses with which actions are refused for which Nova has others than 400.
var refusedStatuses = map[string]int{
	"changePassword": http.StatusNotImplemented, "resetNetwork": http.StatusGone,
	"injectNetworkInfo": http.StatusConflict,
}

// refusedRules are Nova's policy rules of actions that Berth refuses.
var refusedRules = map[string]string{
	"changePassword": policies.ChangePassword, "injectNetworkInfo": policies.InjectNetworkInfo,
}

// RefusedActions returns the status and the sentence of the actions that Berth refuses, by their key in the body.
func RefusedActions() map[string]string {
	refused := map[string]string{}
	for key := range unsupportedActions {
		refused[key] = fmt.Sprintf("%d: %s", refusedStatus(key), refusalOf(key))
	}
	return refused
}

func refusedStatus(key string) int { return cmp.Or(refusedStatuses[key], http.StatusBadRequest) }

func refusalOf(key string) string {
	return fmt.Sprintf("Berth does not support the action %s: %s", key, unsupportedActions[key])
}

// refuseAction refuses an action that Berth does not have, after Nova's checks of the request.
func refuseAction(c *request.Call, key string, raw json.RawMessage, found lifecycle.Server) error {
	if key == "changePassword" {
		o := c.NewObject(key, map[string]json.RawMessage{})
		if err := json.Unmarshal(raw, &o.Keys); err != nil || o.Keys == nil {
			return fault.New(fault.Invalid, "Invalid input for %s: it must be an object with the key adminPass", key)
		}
		password := ""
		o.Require("adminPass")
		o.Text("adminPass", &password, servers.MaxPassword)
		if err := o.Finish(); err != nil {
			return err
		}
	}
	if rule := refusedRules[key]; rule != "" {
		if err := c.Authorize(rule, request.OwnerOf(found)); err != nil {
			return err
		}
	}
	return edge.StatusErrorf(refusedStatus(key), "%s", refusalOf(key))
}
