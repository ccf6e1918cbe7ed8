package conformance

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/openberth/berth/internal/databases"
)

// exceptionsOn are further comparison exceptions by database server.
var exceptionsOn = map[string]string{
	"MariaDB": `body.parent_provider_uuid | present | ^POST /resource_providers\s200\s | the original returns the ` +
		`parent's UUID with the letters of the request, and stores it with those of the parent`,
	"PostgreSQL": "body.resource_providers | set | * | the original sorts no lists; PostgreSQL returns changed rows last",
}

// beforeDatabases are the sequences whose requests the servers answer before a database compares or sorts anything:
// they are about methods, headers and the forms of bodies. TestSequences plays them.
var beforeDatabases = []string{"version document", "bad microversions", "unknown paths", "methods", "callers",
	"media types", "malformed bodies", "content types of writes", "Accept headers", "tokens of odd shapes",
	"bodies of wrong shapes", "conditions and more headers"}

// Texts are compared and sorted by the database, each in another way. So the sequences are played, at the newest
// microversion, and random requests, on the databases of clouds too. Those of beforeDatabases are left out.
func TestOtherDatabases(t *testing.T) {
	all, worlds := readSequences(t)
	sequences := slices.DeleteFunc(slices.Clone(all),
		func(s Sequence) bool { return slices.Contains(beforeDatabases, s.Name) })
	if left := len(all) - len(sequences); left != len(beforeDatabases) {
		t.Fatalf("%d sequences have a name of beforeDatabases, which has %d", left, len(beforeDatabases))
	}
	needOriginal(t)
	for _, start := range []func(testing.TB) *databases.Server{databases.SharedMariaDB, databases.SharedPostgreSQL} {
		server := start(t)
		t.Run(server.Name(), func(t *testing.T) {
			t.Parallel()
			pair := pairOn(t, server, exceptionsOn[server.Name()])
			for i, seq := range sequences {
				t.Run(seq.testName(), func(t *testing.T) {
					var findings []Finding
					for _, versions := range rounds(seq, i, math.MaxInt) {
						findings = append(findings, playOnce(t, pair, seq, worlds[seq.Uses], versions)...)
					}
					reportFindings(t, findings)
				})
			}
			t.Run("random-requests", func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { playRandomRequests(newRandomRun(t, pair)) })
			})
		})
	}
}
