package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxAnswerBytes is the number of bytes read of a remote server's answer; only the answer True allows.
const maxAnswerBytes = 64

// holds returns an error, which denies the request, if the server does not answer in time.
func (r byRemote) holds(q *evaluation) (bool, error) {
	rest, found, err := r.of.fill(q.target)
	if err != nil {
		return false, err
	}
	if !found {
		return false, fmt.Errorf("the target lacks a value that the address %s needs", r)
	}
	ok, err := q.set.remote.post(r.kind+":"+rest, q)
	if err != nil {
		return false, fmt.Errorf("the remote check %s: %w", r, err)
	}
	return ok, nil
}

// post sends the rule, the target and the credentials to a server, and reports whether it answers True.
func (r *remote) post(address string, q *evaluation) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	fields := map[string]any{"rule": q.rule, "target": q.target, "credentials": q.creds}
	kind := "application/json"
	body, err := json.Marshal(fields)
	if err == nil && !r.asJSON {
		kind = "application/x-www-form-urlencoded"
		form := url.Values{}
		for name, value := range fields {
			text, err := json.Marshal(value)
			if err != nil {
				return false, err
			}
			form.Set(name, string(text))
		}
		body = []byte(form.Encode())
	}
	if err != nil {
		return false, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", kind)
	response, err := r.client.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return false, err
	}
	return strings.Trim(string(text), `"`) == "True", nil
}
