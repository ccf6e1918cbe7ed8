package candidate_test

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

func TestTmpExplain(t *testing.T) {
	s := index.Build(fleet(100, 4))
	show := func(ask resource.Ask) { fmt.Println(candidate.Explain(s, ask)) }
	show(deviceAsk(5, "none", nics, colours))
	show(deviceAsk(2, "none", []resource.Class{"CUSTOM_GPU"}, nil))
	show(deviceAsk(2, "none", nics, []resource.Trait{"CUSTOM_BLUE"}))
	a := deviceAsk(2, "isolate", nics, colours)
	a.Groups[0].Resources["VCPU"] = 100
	show(a)
	a = deviceAsk(2, "isolate", nics, colours)
	a.RootRequired = []resource.Trait{"X"}
	show(a)
	a = deviceAsk(2, "isolate", nics, colours)
	a.SameSubtree = [][]string{{"_0", "_1"}}
	show(a)
	a = deviceAsk(1, "isolate", nics, colours)
	a.Groups[1].Resources["CUSTOM_NIC"] = 2
	show(a)
	s = index.Build(fleet(100, 0))
	show(deviceAsk(5, "none", nics, colours))
}
