package actions

import (
	"encoding/json"
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// ownsServer reports whether the caller acts in the project of the server. As in Nova, such a caller locks the server
// as its owner, also an administrator.
func ownsServer(c *request.Call, found lifecycle.Server) bool { return c.Who.Project == found.Project }

// lockServer is the action lock. Since 2.73 it may have a reason; before, any value is accepted, as in Nova.
func lockServer(s *Handlers, c *request.Call, arguments json.RawMessage, found lifecycle.Server) error {
	lock := &lifecycle.Lock{ByAdmin: !ownsServer(c, found)}
	if c.Has(compute.LockReason) && !edge.IsNull(arguments) {
		o := c.NewObject("lock", map[string]json.RawMessage{})
		if err := json.Unmarshal(arguments, &o.Keys); err != nil || o.Keys == nil {
			return fault.New(fault.Invalid, "Invalid input for lock: it must be an object or null")
		}
		if o.Text("locked_reason", &lock.Reason, 255) && lock.Reason == "" {
			o.Invalid("locked_reason", "it is empty; give 1 to 255 characters")
		}
		if err := o.Finish(); err != nil {
			return err
		}
	}
	return setLock(s, c, found.ID, lock)
}

// unlockServer is the action unlock. The rule unlock_override decides who may remove the lock of another: Nova compares
// only whether the caller and the one who locked are of the project of the server.
func unlockServer(s *Handlers, c *request.Call, _ json.RawMessage, found lifecycle.Server) error {
	return setLock(s, c, found.ID, nil)
}

// authorizeUnlock returns fault.Forbidden if the lock of a server is that of another, which the caller may not remove.
func authorizeUnlock(c *request.Call, found lifecycle.Server) error {
	if found.Lock == nil || found.Lock.ByAdmin != ownsServer(c, found) {
		return nil
	}
	return c.Authorize(policies.UnlockOverride, request.OwnerOf(found))
}

// setLock locks a server, or unlocks it if lock is nil. The lock that the transaction reads decides who may remove it:
// another one may have been set since the request was read.
func setLock(s *Handlers, c *request.Call, id string, lock *lifecycle.Lock) error {
	var refused error
	_, err := s.Store.Change(c.R.Context(), id, func(found lifecycle.Server) lifecycle.Server {
		if refused = nil; !found.Ended.IsZero() { // deleted since it was read
			return found
		}
		if lock == nil {
			if refused = authorizeUnlock(c, found); refused != nil {
				return found
			}
		}
		return found.WithLock(lock, request.Caller(c), s.Now())
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return err
	}
	return c.WriteStatus(http.StatusAccepted)
}
