package store

import (
	"strings"

	"github.com/openberth/berth/compute/lifecycle"
)

// serverColumns are the columns of compute_servers that follow from the record, in the order of columns.
var serverColumns = []string{"name", "project", "user_id", "flavor", "state", "status", "due", "host", "devices",
	"created", "updated", "ended", "launched", "vcpus", "memory_mb", "disk_gb", "busy", "revision"}

// columns returns the values of a server's row except its record and id, in the order of serverColumns.
func columns(s lifecycle.Server) []any {
	shown := s.Shown()
	return append([]any{s.Name, s.Project, s.User, shown.Flavor.ID, s.Stage(), s.Status(),
		boolInt(len(s.Steps()) > 0), shown.Host, deviceCount(s.Requests, nil), micros(s.Created),
		micros(s.Updated), micros(s.Ended)}, append(sizeColumns(s), s.Revision)...)
}

// sizeColumns returns the values of launched, vcpus, memory_mb, disk_gb and busy: what usages and limits sum up.
func sizeColumns(s lifecycle.Server) []any {
	f := s.Shown().Flavor
	return []any{micros(s.Launched), f.VCPUs, f.MemoryMB, f.DiskGB + f.Ephemeral, boolInt(s.TaskState() != "")}
}

// insertServer is the statement that creates a row, with the values of columns, the record and the id.
var insertServer = `INSERT INTO compute_servers (` + strings.Join(serverColumns, ", ") + `, record, id)
	VALUES (` + strings.Repeat("?, ", len(serverColumns)+1) + `?)`

// updateServer returns the statement that writes a changed record, and its arguments. It sets only the columns whose
// values change: SQLite writes an index again if a statement sets one of its columns, also to the same value.
func updateServer(before, after lifecycle.Server, record []byte) (statement string, args []any) {
	was := columns(before)
	var set strings.Builder
	for i, value := range columns(after) {
		if value != was[i] {
			set.WriteString(serverColumns[i] + " = ?, ")
			args = append(args, value)
		}
	}
	return `UPDATE compute_servers SET ` + set.String() + `record = ? WHERE id = ? AND revision = ?`,
		append(args, string(record), before.ID, before.Revision)
}
