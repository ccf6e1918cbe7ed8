package rpc

import (
	"context"
	"errors"

	"github.com/google/uuid"
)

// HasSecret reports whether libvirt has a secret with a UUID.
func HasSecret(ctx context.Context, c *Client, id uuid.UUID) (bool, error) {
	var e encoder
	e.fixed(id[:])
	_, err := c.call(ctx, secretLookupByUUID, e, nil)
	if known, is := errors.AsType[*Error](err); is && known.Code == ErrNoSecret {
		return false, nil
	}
	return err == nil, err
}

// DefineSecret defines a secret, which libvirt keeps until it is undefined. It has no value.
func DefineSecret(ctx context.Context, c *Client, xml string) error {
	var e encoder
	e.text(xml)
	e.word(0)
	_, err := c.call(ctx, secretDefineXML, e, nil)
	return err
}
