package candidates

import (
	"maps"
	"slices"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/resource"
)

// putSummary appends the summary of one provider as a member of an object, in the form of a microversion.
func putSummary(t *request.Buffer, row index.Row, version api.Version, asked resource.Amounts) {
	t.Quoted(string(row.ID))
	t.Put(`:{"resources":{`)
	n := 0
	for _, class := range slices.Sorted(maps.Keys(row.Inventories)) {
		if _, wanted := asked[class]; !wanted && version < request.SinceSummaryAll {
			continue
		}
		t.Comma(n)
		n++
		t.Quoted(string(class))
		t.Put(`:{"capacity":`)
		t.Number(row.Inventories[class].Capacity())
		t.Put(`,"used":`)
		t.Number(row.Used[class])
		t.Put(`}`)
	}
	t.Put(`}`)
	if version >= request.SinceSummaryTraits {
		t.Put(`,"traits":[`)
		for i, trait := range row.Traits {
			t.Comma(i)
			t.Quoted(string(trait))
		}
		t.Put(`]`)
	}
	if version >= request.SinceNestedCandidates {
		t.Put(`,"parent_provider_uuid":`)
		if row.Parent == "" {
			t.Put(`null`)
		} else {
			t.Quoted(string(row.Parent))
		}
		t.Put(`,"root_provider_uuid":`)
		t.Quoted(string(row.Root))
	}
	t.Put(`}`)
}

// encodeSummaries returns the summaries of a tree in the form of the latest microversion.
func encodeSummaries(snapshot *index.Snapshot, tree *index.Tree) []byte {
	var out request.Buffer
	for i, row := range snapshot.Tree(tree.Root) {
		out.Comma(i)
		putSummary(&out, row, api.Latest, nil)
	}
	return slices.Clip(out)
}
