package restclient

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/fault"
)

// currentToken returns the token of the session, after a logon if there is no session.
func (c *Client) currentToken(ctx context.Context) (string, error) {
	c.session.Lock()
	token := c.token
	c.session.Unlock()
	if token != "" {
		return token, nil
	}
	return c.renewed(ctx, "")
}

// renew begins a new session, unless another request has done so since old was the token.
func (c *Client) renew(ctx context.Context, old string) error {
	_, err := c.renewed(ctx, old)
	return err
}

func (c *Client) renewed(ctx context.Context, old string) (string, error) {
	c.logon.Lock()
	defer c.logon.Unlock()
	c.session.Lock()
	token := c.token
	c.session.Unlock()
	if token != old {
		return token, nil
	}
	if err := c.mayLogOn(); err != nil {
		return "", err
	}
	token, err := c.logOn(ctx)
	if fault.Is(err, fault.Forbidden) {
		c.refused.number++
		c.refused.until = c.options.Now().Add(c.options.Refused.Wait(c.refused.number))
	} else if err == nil {
		c.refused = refusals{}
	}
	c.session.Lock()
	defer c.session.Unlock()
	c.token = token
	return token, err
}

// account is what a logon needs.
type account struct{ user, password string }

// refusals are the logons that the server has refused since the last successful one.
type refusals struct {
	number int
	until  time.Time // of the next attempt with the same account
}

// mayLogOn reads the account again if the server has refused it. Forbidden: it is the same one, and the next attempt is
// not due: attempts in a row could lock the account. c.logon is held.
func (c *Client) mayLogOn() error {
	if c.refused.number == 0 {
		return nil
	}
	if c.options.Account != nil && c.account.password != "" {
		user, password, err := c.options.Account()
		now := account{cmp.Or(user, c.account.user), password}
		if err == nil && password != "" && now != c.account {
			c.account, c.refused = now, refusals{}
			return nil
		}
	}
	if wait := c.refused.until.Sub(c.options.Now()); wait > 0 {
		return fault.New(fault.Forbidden, "no logon is tried for %s: the server refused the account %s, "+
			"and more attempts could lock it; correct [powervm] username and password, which are read again",
			wait.Round(time.Second), c.account.user)
	}
	return nil
}

// lateLogon is how long the answer to a logon is awaited after the request that needed it has been cancelled.
const lateLogon = 5 * time.Second

// logOn performs one logon and returns the token. It continues for lateLogon after ctx has ended: otherwise a session
// that the server has begun meanwhile would stay, because its token would not be known.
func (c *Client) logOn(ctx context.Context) (string, error) {
	ended := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ended, func() { time.AfterFunc(lateLogon, cancel) })()
	byFile := c.account.password == ""
	r := request{method: http.MethodPut, path: "/web/Logon", accept: webType + "LogonResponse",
		contentType: webType + "LogonRequest", body: uom.LogonRequest(c.account.user, c.account.password)}
	a, failed, err := c.send(ctx, r, "")
	switch {
	case err != nil:
		return "", fault.Wrap("", err)
	case failed == nil:
	case failed.status == http.StatusNotFound: // the service starts
		return "", fault.New(fault.Unavailable, "the REST service does not serve logons yet (status 404); it is retried")
	case failed.status == http.StatusUnauthorized || failed.status == http.StatusForbidden:
		return "", fault.New(fault.Forbidden, "the server refuses the logon of %s: %s; correct [powervm] username "+
			"and password, which are read again", c.account.user, failed.message)
	default:
		return "", failed.fault(r)
	}
	if byFile && a.mcType == "" {
		return "", fault.New(fault.Invalid, "%s is an HMC, which has no logon by file; set [powervm] user and password",
			c.options.URL)
	}
	response, err := uom.Bare[uom.LogonResponse](a.body, "LogonResponse")
	if err != nil {
		return "", malformed(r.path, err)
	}
	if byFile {
		return c.readTokenFile(strings.TrimSpace(response.TokenFile))
	}
	if token := strings.Join(strings.Fields(response.Token), ""); token != "" { // IBM's sample has line breaks in it
		return token, nil
	}
	return "", fault.New(fault.Internal, "the answer to the logon has no session")
}

// readTokenFile reads the token from a file that the server has written on this machine.
func (c *Client) readTokenFile(path string) (string, error) {
	if path == "" {
		return "", fault.New(fault.Internal, "the answer to the logon has no session file")
	}
	text, err := c.options.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", fault.New(fault.Invalid, "the session file cannot be read: %w; add the agent's user to the group "+
			"pvm_admin", err)
	case err != nil:
		return "", fault.New(fault.Unavailable, "the session file cannot be read: %w; logon by file needs NovaLink on "+
			"this machine", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fault.New(fault.Unavailable, "the session file %s is empty; the logon is retried", path)
	}
	return token, nil
}

// Close ends the session. Failures are logged, because the server ends idle sessions itself.
func (c *Client) Close(ctx context.Context) {
	c.session.Lock()
	token := c.token
	c.token = ""
	c.session.Unlock()
	if token == "" {
		return
	}
	r := request{method: http.MethodDelete, path: "/web/Logon"}
	_, failed, err := c.send(ctx, r, token)
	if failed != nil {
		err = failed.fault(r)
	}
	if err != nil {
		c.options.Log.Warn("PowerVM REST API logoff failed", "error", err)
	}
	c.http.CloseIdleConnections()
}
