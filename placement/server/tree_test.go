package server

import (
	"encoding/json"
	"fmt"
	"testing"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/provider"
)

// A tree is the same by each of its providers: parents first, with what consumers hold of each.
func TestTree(t *testing.T) {
	w := newWorld(t)
	host, nic := createHost(t, w.client(), "host", 4, 2)
	const consumer = "c0000000-0000-4000-8000-000000000001"
	w.want(204, "PUT", "/allocations/"+consumer,
		fmt.Sprintf(`{"allocations":{"%s":{"resources":{"VCPU":3}}},"project_id":"p","user_id":"u",`+
			`"consumer_generation":null,"consumer_type":"INSTANCE"}`, host))
	texts := map[string]bool{}
	for _, id := range []provider.ID{host, nic} {
		text := w.want(200, "GET", "/berth/v1/trees/"+string(id), "")
		texts[text] = true
		var tree api.Tree
		if err := json.Unmarshal([]byte(text), &tree); err != nil {
			t.Fatal(err)
		}
		root := tree.Providers[0]
		if tree.Root != host || len(tree.Providers) < 2 || root.ID != host || root.Inventories["VCPU"].Total != 4 ||
			root.Usages["VCPU"] != 3 || root.Allocations[consumer]["VCPU"] != 3 || tree.Providers[1].Parent != host {
			t.Errorf("%s", text)
		}
	}
	if len(texts) != 1 {
		t.Errorf("%d answers for one tree", len(texts))
	}
	w.want(404, "GET", "/berth/v1/trees/"+consumer, "")
	w.want(404, "GET", "/berth/v1/trees/host", "")
}
