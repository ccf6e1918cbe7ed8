package server

import (
	"maps"
	"slices"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// putSummary appends the summary of one provider as a member of an object, in the form of a microversion.
func putSummary(t *jsonBuffer, row index.Row, version api.Version, asked resource.Amounts) {
	t.quoted(string(row.ID))
	t.put(`:{"resources":{`)
	n := 0
	for _, class := range slices.Sorted(maps.Keys(row.Inventories)) {
		if _, wanted := asked[class]; !wanted && version < sinceSummaryAll {
			continue
		}
		t.comma(n)
		n++
		t.quoted(string(class))
		t.put(`:{"capacity":`)
		t.number(row.Inventories[class].Capacity())
		t.put(`,"used":`)
		t.number(row.Used[class])
		t.put(`}`)
	}
	t.put(`}`)
	if version >= sinceSummaryTraits {
		t.put(`,"traits":[`)
		for i, trait := range row.Traits {
			t.comma(i)
			t.quoted(string(trait))
		}
		t.put(`]`)
	}
	if version >= sinceNestedCandidates {
		t.put(`,"parent_provider_uuid":`)
		if row.Parent == "" {
			t.put(`null`)
		} else {
			t.quoted(string(row.Parent))
		}
		t.put(`,"root_provider_uuid":`)
		t.quoted(string(row.Root))
	}
	t.put(`}`)
}

// encodeSummaries returns the summaries of a tree in the form of the latest microversion.
func encodeSummaries(snapshot *index.Snapshot, tree *index.Tree) []byte {
	var out jsonBuffer
	for i, row := range snapshot.Tree(tree.Root) {
		out.comma(i)
		putSummary(&out, row, api.Latest, nil)
	}
	return slices.Clip(out)
}
