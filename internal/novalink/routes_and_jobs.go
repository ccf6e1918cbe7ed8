package novalink

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// job is an operation in progress.
type job struct {
	id, operation string
	polls         int // until it ends
	status        string
	cancelled     bool
	target        *partition
}

// route answers a request that has a session.
func (s *Server) route(r *http.Request, path string, body *element) reply {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) >= 3 && parts[0] == "uom" && parts[1] == "jobs" {
		return s.serveJob(r, parts[2:])
	}
	if len(parts) < 2 || parts[0] != "uom" {
		return refuse(http.StatusNotFound, "", "no such resource")
	}
	switch kind := parts[1]; {
	case kind == "ManagedSystem" && len(parts) == 2 && r.Method == http.MethodGet && s.options.Recorded != nil:
		return s.serveRecorded(r)
	case kind == "ManagedSystem" && len(parts) == 2 && r.Method == http.MethodGet:
		return s.serveSystems(r)
	case kind == "ManagedSystem" && len(parts) >= 3:
		system := s.system(parts[2])
		if system == nil {
			return refuse(http.StatusNotFound, "", "no such system")
		}
		return s.serveSystem(r, system, parts[3:], body)
	case kind == "LogicalPartition" && len(parts) >= 3:
		for _, system := range s.systems {
			for _, p := range system.partitions {
				if !strings.EqualFold(p.uuid, parts[2]) {
					continue
				}
				if len(parts) == 5 && parts[3] == "do" {
					return s.startJob(r, p, parts[4], body)
				}
				return s.servePartition(r, system, p, body)
			}
		}
	}
	return refuse(http.StatusNotFound, "", "no such resource")
}

// serveSystems answers the feed of systems. Its ETag differs from those of its entries.
func (s *Server) serveSystems(r *http.Request) reply {
	etag := 0
	for _, system := range s.systems {
		etag += system.revision
	}
	tag := fmt.Sprint(-1930559556 + etag)
	if r.Header.Get("If-None-Match") == tag {
		return reply{status: http.StatusNotModified, etag: tag}
	}
	var entries []*element
	for _, system := range s.systems {
		entries = append(entries, system.entry())
	}
	return feedOf(tag, entries)
}

// serveSystem answers requests for a system and for what it contains.
func (s *Server) serveSystem(r *http.Request, system *System, rest []string, body *element) reply {
	switch {
	case len(rest) == 0 && r.Method == http.MethodGet:
		return reply{status: http.StatusOK, etag: system.etag(), body: system.entry()}
	case len(rest) == 1 && rest[0] == "VirtualIOServer":
		return feedOf("", system.virtualIOServers())
	case len(rest) == 1 && rest[0] == "LogicalPartition" && r.Method == http.MethodPut:
		return system.create(r, body)
	case len(rest) == 1 && rest[0] == "LogicalPartition":
		var entries []*element
		if !s.options.HMC {
			entries = append(entries, system.management())
		}
		for _, p := range system.partitions {
			if !slices.Contains(system.Hidden, p.name()) {
				entries = append(entries, p.entry())
			}
		}
		return feedOf("", entries)
	}
	return refuse(http.StatusNotFound, "", "no such resource")
}

// startJob answers the template of an operation, and starts it.
func (s *Server) startJob(r *http.Request, p *partition, operation string, body *element) reply {
	if operation != "PowerOn" && operation != "PowerOff" {
		return refuse(http.StatusNotFound, "", "no such operation")
	}
	if r.Method == http.MethodGet {
		return reply{status: http.StatusOK, body: entryOf("", "", web("JobRequest",
			web("RequestedOperation", web("OperationName").text(operation), web("GroupName").text("LogicalPartition")),
			web("JobParameters")))}
	}
	if r.Method != http.MethodPut || body == nil || body.childText("RequestedOperation", "OperationName") != operation ||
		!strings.HasSuffix(r.Header.Get("Content-Type"), "web+xml; type=JobRequest") {
		return refuse(http.StatusBadRequest, "", "not a request of this job")
	}
	s.lastJob++
	j := &job{id: fmt.Sprint(1500000000000 + s.lastJob), operation: operation, polls: s.options.JobPolls,
		status: "NOT_STARTED", target: p}
	s.jobs[j.id] = j
	return s.jobReply(j)
}

// serveJob answers requests for a job. Each GET brings it nearer to its end.
func (s *Server) serveJob(r *http.Request, parts []string) reply {
	j := s.jobs[parts[0]]
	switch {
	case j == nil:
		return refuse(http.StatusNotFound, "", "no such job")
	case len(parts) == 2 && parts[1] == "cancel" && r.Method == http.MethodPost:
		j.cancelled, j.polls = true, s.options.CancelPolls
		return reply{status: http.StatusNoContent}
	case r.Method == http.MethodDelete && j.running():
		return refuse(http.StatusConflict, "", "the job has not ended")
	case r.Method == http.MethodDelete:
		delete(s.jobs, j.id)
		return reply{status: http.StatusNoContent}
	}
	if j.running() {
		s.advance(j)
	}
	return s.jobReply(j)
}

func (j *job) running() bool { return j.status == "NOT_STARTED" || j.status == "RUNNING" }

func (s *Server) advance(j *job) {
	j.status = "RUNNING"
	if j.polls > 0 || s.options.JobEnd == "RUNNING" && !j.cancelled {
		j.polls--
		return
	}
	if j.cancelled {
		j.status = "CANCELED_BEFORE_COMPLETION"
		return
	}
	j.status = s.options.JobEnd
	if j.status == "" {
		j.status = "COMPLETED_OK"
		j.target.running = j.operation == "PowerOn"
		j.target.revision++
		for _, system := range s.systems {
			system.Touch() // its available memory has changed
		}
	}
}

func (s *Server) jobReply(j *job) reply {
	object := web("JobResponse", web("JobID").text(j.id), web("Status").text(j.status))
	switch j.status {
	case "NOT_STARTED", "RUNNING", "COMPLETED_OK":
	case "FAILED_BEFORE_COMPLETION":
		object.add(web("ResponseException", web("Message").text("HSCL3656 no memory")))
	default:
		object.add(web("Results", web("JobParameter", web("ParameterName").text("returnCode"),
			web("ParameterValue").text("1")), web("JobParameter", web("ParameterName").text("result"),
			web("ParameterValue").text("the firmware complained"))))
	}
	return reply{status: http.StatusOK, body: entryOf("", "", object)}
}

// Jobs returns the number of jobs that clients have not deleted.
func (s *Server) Jobs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.jobs)
}
