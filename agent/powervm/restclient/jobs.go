package restclient

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// cleanupTime bounds the requests that cancel and delete a job.
const cleanupTime = 10 * time.Second

// RunJob performs an operation on an object, such as PowerOn, and returns when it has ended. Every final status except
// COMPLETED_OK is a fault: Internal, with the message of the server. When the context ends or the job takes longer
// than the options allow, the job is cancelled and the fault is Unavailable.
func (c *Client) RunJob(ctx context.Context, object, operation string, parameters ...uom.JobParameter) error {
	path := object + "/do/" + operation
	a, err := c.do(ctx, request{method: http.MethodGet, path: path, accept: atomType})
	if err != nil {
		return err
	}
	order, err := contentOf(path, a.body)
	if err != nil {
		return err
	}
	uom.AddParameters(order, parameters...)
	a, err = c.do(ctx, request{method: http.MethodPut, path: path, accept: atomType + "; charset=UTF-8",
		contentType: webType + "JobRequest", body: order.Bytes()})
	if err != nil {
		return err
	}
	job, err := decodeJob(path, a.body)
	if err != nil {
		return err
	}
	job, err = c.awaitJob(ctx, operation, job)
	if err != nil {
		return err
	}
	c.cleanUp(ctx, request{method: http.MethodDelete, path: "/uom/jobs/" + job.ID})
	return jobFault(object, operation, job)
}

// decodeJob decodes a job. Its links may be wrong, so the ID is used.
func decodeJob(path string, body []byte) (uom.JobResponse, error) {
	entry, err := uom.One[uom.JobResponse](body, "JobResponse")
	if err != nil {
		return uom.JobResponse{}, malformed(path, err)
	}
	job := entry.Object
	job.ID, job.Status = strings.TrimSpace(job.ID), strings.TrimSpace(job.Status)
	if job.ID == "" || strings.ContainsAny(job.ID, "/?#") {
		return job, fault.New(fault.Internal, "the answer to %s has no valid JobID", path)
	}
	return job, nil
}

// running are the states of a job that has not ended. Every other one is final, also one that is not known (S6).
var running = []string{"NOT_STARTED", "RUNNING"}

// awaitJob waits until a job has ended. When the context ends or the job takes longer than the options allow, it is
// cancelled, and the fault is Unavailable.
func (c *Client) awaitJob(ctx context.Context, operation string, job uom.JobResponse) (uom.JobResponse, error) {
	limited, cancel := context.WithTimeout(ctx, c.options.JobTime)
	defer cancel()
	ended, err := c.poll(limited, job)
	if err != nil && limited.Err() != nil {
		c.cancel(ctx, job)
		return job, fault.New(fault.Unavailable, "the job %s (%s) did not end in time: %w; it was "+
			"cancelled", operation, job.ID, limited.Err())
	}
	return ended, err
}

// poll reads a job until it has ended or the context ends.
func (c *Client) poll(ctx context.Context, job uom.JobResponse) (uom.JobResponse, error) {
	path := "/uom/jobs/" + job.ID
	for slices.Contains(running, job.Status) {
		if err := backoff.Sleep(ctx, c.options.Poll); err != nil {
			return job, err
		}
		a, err := c.do(ctx, request{method: http.MethodGet, path: path, accept: atomType})
		if err != nil {
			return job, err
		}
		if job, err = decodeJob(path, a.body); err != nil {
			return job, err
		}
	}
	return job, nil
}

// cancel cancels a job, and deletes it when it has ended. If that takes longer than cleanupTime, the job stays.
func (c *Client) cancel(ctx context.Context, job uom.JobResponse) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	path := "/uom/jobs/" + job.ID
	c.cleanUp(ctx, request{method: http.MethodPost, path: path + "/cancel"})
	if _, err := c.poll(ctx, job); err != nil {
		c.options.Log.Warn("PowerVM job not cleaned up", "path", path, "error", err)
		return
	}
	c.cleanUp(ctx, request{method: http.MethodDelete, path: path})
}

// cleanUp performs a request whose failure does not matter, also when the context has ended.
func (c *Client) cleanUp(ctx context.Context, r request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	if _, err := c.do(ctx, r); err != nil {
		c.options.Log.Warn("PowerVM job not cleaned up", "path", r.path, "error", err)
	}
}

// jobFault returns nil for a job that succeeded.
func jobFault(object, operation string, job uom.JobResponse) error {
	if job.Status == "COMPLETED_OK" {
		return nil
	}
	text := strings.TrimSpace(job.Exception)
	for _, r := range job.Results {
		if r.Name == "result" {
			text = cmp.Or(text, strings.TrimSpace(r.Value))
		}
	}
	return fault.New(fault.Internal, "%s of %s ended as %s: %s; read the log of the server",
		operation,
		object, job.Status, cmp.Or(text, "the server gives no reason"))
}
