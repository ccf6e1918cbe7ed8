package bench

import (
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/settings"
)

// A request about one provider or one consumer reads a few rows of MariaDB, however many there are in all. MariaDB
// chooses the order of the tables of a query by its statistics. After many writes these are old for a while: it began
// with the few rows of the resource classes then, and read all inventories, or with the projects, and read the
// allocations of all their consumers. The server of this test has the statistics of empty tables.
func TestRequestsReadFewRows(t *testing.T) {
	const hosts, devices = 1500, 27
	server := databases.MariaDB(t, "--performance-schema=ON", "--innodb-stats-auto-recalc=OFF")
	database := server.Database(t)
	conf, err := settings.Read(slog.New(slog.DiscardHandler))
	must(t, err)
	created, err := app.OpenPlacement(t.Context(), database, conf, "noauth2", slog.New(slog.DiscardHandler))
	must(t, err)
	must(t, created.Close())
	roots, err := writeFleet(t.Context(), database, hosts)
	must(t, err)
	admin := server.Admin(t)
	c := Dial(serveHere(t, database).Addr)
	defer c.Close()
	_, err = c.Want(200, "GET", "/allocation_candidates?resources=VCPU:1&limit=1", nil) // the index has been read
	must(t, err)
	check := func(statistics string) {
		_, err := admin.Exec("TRUNCATE TABLE performance_schema.events_statements_summary_by_digest")
		must(t, err)
		for _, r := range requestsOfOneTree(roots[hosts/2]) {
			_, err := c.Want(r.status, r.method, r.path, r.body)
			must(t, err)
		}
		for query, rows := range rowsRead(t, admin) {
			if rows > hosts*devices/100 {
				t.Errorf("with %s statistics of %d providers this reads %d rows: %s", statistics, hosts*devices, rows,
					query)
			}
		}
	}
	check("old")
	must(t, refreshStatistics(t.Context(), database))
	check("new")
}

// requestToTree is a request that concerns one tree.
type requestToTree struct {
	method, path string
	body         []byte
	status       int
}

// requestsOfOneTree returns requests of all kinds about a host of a fleet, in the order in which they are valid.
func requestsOfOneTree(root string) []requestToTree {
	get := func(path string) requestToTree { return requestToTree{"GET", path, nil, 200} }
	consumer, name := "/allocations/"+uuid.NewString(), uuid.NewString()
	of, child := "/resource_providers/"+root, "/resource_providers/"+name
	return []requestToTree{
		get(of), get(of + "/inventories"), get(of + "/usages"), get(of + "/traits"), get(of + "/aggregates"),
		get(of + "/allocations"), get("/resource_providers?uuid=" + root), get("/resource_providers?in_tree=" + root),
		get("/resource_providers?name=cmp-00200"), get("/allocation_candidates?resources=VCPU:1&in_tree=" + root),
		{"PUT", consumer, fmt.Appendf(nil, `{"allocations":{%q:{"resources":{"VCPU":1}}},"project_id":"bench",`+
			`"user_id":"bench","consumer_generation":null,"consumer_type":"INSTANCE"}`, root), 204},
		get(consumer), get("/usages?project_id=bench"),
		{"DELETE", consumer, nil, 204},
		{"POST", "/resource_providers", fmt.Appendf(nil, `{"name":%q,"uuid":%q,"parent_provider_uuid":%q}`, name, name,
			root), 200},
		{"PUT", child + "/inventories",
			[]byte(`{"resource_provider_generation":0,"inventories":{"PGPU":{"total":1}}}`), 200},
		{"PUT", child + "/traits", []byte(`{"resource_provider_generation":1,"traits":["HW_NIC_VMDQ"]}`), 200},
		{"PUT", child + "/aggregates", fmt.Appendf(nil, `{"resource_provider_generation":2,"aggregates":[%q]}`,
			aggregate(7)), 200},
		get("/resource_providers?member_of=" + aggregate(7) + "&in_tree=" + root),
		{"DELETE", child + "/inventories", nil, 204},
		{"DELETE", child, nil, 204},
	}
}

// rowsRead returns how many rows a server has read for each query with a condition, on average. Those that find the
// changes of other processes read many on purpose: all rows, or ranges of them.
func rowsRead(t *testing.T, admin *sql.DB) map[string]int {
	t.Helper()
	found := map[string]int{}
	list, err := admin.Query("SELECT digest_text, ROUND(sum_rows_examined / count_star) FROM " +
		"performance_schema.events_statements_summary_by_digest WHERE schema_name LIKE 'berth%'")
	must(t, err)
	defer list.Close()
	for list.Next() {
		var query string
		var rows int
		must(t, list.Scan(&query, &rows))
		if strings.Contains(query, "WHERE") && !strings.Contains(query, "BETWEEN") {
			found[query] = rows
		}
	}
	must(t, list.Err())
	if len(found) == 0 {
		t.Error("the server has counted no query with a condition")
	}
	return found
}
