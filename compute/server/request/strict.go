package request

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/openberth/berth/fault"
)

// ReadStrict decodes the body of a request into a struct. It returns fault.Invalid for a key that the struct does not
// have, except below /v2.
func (c *Call) ReadStrict(into any) error {
	var raw json.RawMessage
	if err := c.ReadJSON(MaxBody, &raw); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if !c.Lenient {
		decoder.DisallowUnknownFields()
	}
	err := decoder.Decode(into)
	if err == nil {
		return nil
	}
	if key, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return fault.New(fault.Invalid, "Additional properties are not allowed: %s in the body", key)
	}
	return fault.New(fault.Invalid, "Malformed request body: %w", err)
}
