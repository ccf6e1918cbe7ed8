package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Since release 14.0.0 OpenStack's Placement accepts a claim on a provider whose capacity is smaller than its use, if
// the claim does not increase the use of any class (bug 2104040). The compared original is older and refuses it.

// acceptsOverCapacity reports whether a finding is a claim that only the newer rule accepts. It compares the use in
// Berth, after the claim, with the use in the original, which has refused the claim, and with the capacity.
func (p *Pair) acceptsOverCapacity(f Finding) (bool, error) {
	claims := strings.HasPrefix(f.Request.Target, "/allocations") || strings.HasPrefix(f.Request.Target, "/reshaper")
	if !claims || f.Theirs.Status != http.StatusConflict || f.Ours.Status >= http.StatusMultipleChoices {
		return false, nil
	}
	var list struct {
		Providers []struct{ UUID string } `json:"resource_providers"`
	}
	if err := p.Berth.read("/resource_providers", &list); err != nil {
		return false, err
	}
	over := false
	for _, rp := range list.Providers {
		var before, after struct{ Usages map[string]int }
		var stock struct {
			Inventories map[string]struct {
				Total    int
				Reserved int
				Ratio    float64 `json:"allocation_ratio"`
			}
		}
		path := "/resource_providers/" + rp.UUID
		err := p.Original.read(path+"/usages", &before)
		if err == nil {
			err = p.Berth.read(path+"/usages", &after)
		}
		if err == nil {
			err = p.Berth.read(path+"/inventories", &stock)
		}
		if err != nil {
			return false, err
		}
		for class, used := range after.Usages {
			inv := stock.Inventories[class]
			if capacity := int(float64(inv.Total-inv.Reserved) * inv.Ratio); used > capacity {
				if over = true; used > before.Usages[class] {
					return false, nil
				}
			}
		}
	}
	return over, nil
}

// read decodes the answer to a GET at the latest microversion.
func (s *Server) read(target string, into any) error {
	answer, err := send(s.Addr, Request{Method: http.MethodGet, Target: target, Headers: []Header{
		{"X-Auth-Token", "admin"}, {"OpenStack-API-Version", fmt.Sprintf("placement 1.%d", Latest)}}})
	if err != nil {
		return err
	}
	if answer.Status != http.StatusOK {
		return fmt.Errorf("%s: GET %s: %s", s.Name, target, answer)
	}
	return json.Unmarshal([]byte(answer.Body), into)
}
