package placement_test

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// service answers reads of a tree. The content of a provider has its generation.
type service struct {
	generations map[provider.ID]int
	read        []string
}

const treeRoot provider.ID = "r"

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.read = append(s.read, strings.TrimPrefix(r.URL.Path, "/resource_providers"))
	parts := strings.Split(r.URL.Path, "/")
	id := provider.ID(parts[min(2, len(parts)-1)])
	switch parts[len(parts)-1] {
	case "resource_providers":
		var list []string
		for _, id := range slices.Sorted(maps.Keys(s.generations)) {
			parent := `"r"`
			if id == treeRoot {
				parent = "null"
			}
			list = append(list, fmt.Sprintf(`{"uuid":%q,"name":"name-%s","root_provider_uuid":"r","parent_provider_uuid":%s,`+
				`"generation":%d}`, id, id, parent, s.generations[id]))
		}
		fmt.Fprintf(w, `{"resource_providers":[%s]}`, strings.Join(list, ","))
	case "inventories":
		fmt.Fprintf(w, `{"inventories":{"VCPU":{"total":%d}}}`, 1+s.generations[id])
	case "traits":
		fmt.Fprintf(w, `{"traits":["CUSTOM_%d"]}`, s.generations[id])
	default:
		fmt.Fprint(w, `{"aggregates":[]}`)
	}
}

// A tree is read again only where a generation has changed, and has the same content as without the memory.
func TestTreeMemoryReadsWhatHasChanged(t *testing.T) {
	s := &service{generations: map[provider.ID]int{treeRoot: 1, "a": 2, "b": 3}}
	client := placement.NewClient("http://placement", rest.InMemory(s), "admin")
	memory := placement.WithTreeMemory(client)
	for _, c := range []struct {
		change func()
		want   []string // providers that are read
	}{
		{func() {}, []string{"a", "b", "r"}},
		{func() {}, nil},
		{func() { s.generations["b"]++ }, []string{"b"}},
		{func() { delete(s.generations, "a") }, nil},
		{func() { s.generations["a"] = 2 }, []string{"a"}}, // made again under its id, with the same generation
	} {
		c.change()
		s.read = nil
		got, err := memory.Tree(t.Context(), treeRoot)
		if err != nil {
			t.Fatal(err)
		}
		var read []string
		for _, path := range s.read {
			if id, is := strings.CutSuffix(path, "/inventories"); is {
				read = append(read, strings.TrimPrefix(id, "/"))
			}
		}
		slices.Sort(read)
		if !slices.Equal(read, c.want) || len(s.read) != 1+3*len(c.want) {
			t.Errorf("read %v by %v, want %v", read, s.read, c.want)
		}
		want, err := client.Tree(t.Context(), treeRoot)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v\nwant %+v, %v", got, want, err)
		}
		for i := range got.Providers { // a caller may change what it gets
			got.Providers[i].Inventories["VCPU"] = resource.Whole(99)
		}
	}
}
