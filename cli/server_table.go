package cli

import "github.com/openberth/berth/api/compute"

// printServers prints servers as a table, or as JSON.
func (g *Globals) printServers(list []compute.Server) error {
	rows := [][]string{}
	for _, s := range list {
		rows = append(rows, []string{s.ID, s.Name, statusOf(s), dash(hostOf(s)), dash(faultOf(s))})
	}
	if list == nil {
		list = []compute.Server{}
	}
	return g.print(list, []string{"ID", "Name", "Status", "Host", "Fault"}, rows)
}

// statusOf returns the status with the task in progress: "ACTIVE/deleting".
func statusOf(s compute.Server) string {
	if s.TaskState == nil || *s.TaskState == "" {
		return s.Status
	}
	return s.Status + "/" + *s.TaskState
}

func hostOf(s compute.Server) string {
	if s.Place == nil || s.Place.Host == nil {
		return ""
	}
	return *s.Place.Host
}

func faultOf(s compute.Server) string {
	if s.Fault == nil {
		return ""
	}
	return s.Fault.Message
}
